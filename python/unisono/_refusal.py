"""Refusals of what the caller gave, in the shape that all errors have."""

from __future__ import annotations

from typing import TypeVar

from unisono._errors import DistError, NotSupportedError, UsageError

Error = TypeVar("Error", bound=DistError)


def refusal(what: str, remedy: str = "") -> UsageError:
    """The error for wrong arguments, to be raised."""
    return _made(UsageError, what, remedy)


def not_offered(what: str, remedy: str = "") -> NotSupportedError:
    """The error for what an object cannot do at all, to be raised."""
    return _made(NotSupportedError, what, remedy)


def _made(kind: type[Error], what: str, remedy: str) -> Error:
    do = f" DO: {remedy}." if remedy else ""
    error = kind(f"unisono: {what}.{do} [USAGE]")
    error.reason = "USAGE"
    error.hint = remedy
    return error
