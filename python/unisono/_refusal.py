"""Refusals of what the caller gave, in the shape that all errors have."""

from __future__ import annotations

from unisono._errors import UsageError


def refusal(what: str, remedy: str = "") -> UsageError:
    """The error for wrong arguments, to be raised."""
    do = f" DO: {remedy}." if remedy else ""
    error = UsageError(f"unisono: {what}.{do} [USAGE]")
    error.reason = "USAGE"
    error.hint = remedy
    return error
