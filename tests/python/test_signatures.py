"""Every public name of torch's store classes: here too, of the same kind, to be called alike."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

import unisono.distributed as ours

torch_dist = pytest.importorskip("torch.distributed")

CLASSES = ("Store", "TCPStore", "FileStore", "HashStore", "PrefixStore")


@dataclass(frozen=True)
class Parameter:
    name: str
    default: str | None


def members(kind: type) -> dict[str, Any]:
    """What a class itself defines for its users, and how it is made."""
    return {
        name: member
        for name, member in vars(kind).items()
        if not name.startswith("_") or name in ("__init__", "_underlying_non_prefix_store")
    }


def split(parameters: str) -> list[str]:
    """At the commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def overloads(method: Any) -> list[list[Parameter]]:
    """The parameters after self, of each form that the first lines of the help show."""
    forms = []
    for line in method.__doc__.splitlines():
        found = re.match(r"(?:\d+\. )?\w+\((.*)\) -> ", line)
        if found:
            parameters = []
            for part in split(found[1])[1:]:
                declared, _, default = part.partition(" = ")
                parameters.append(Parameter(declared.partition(":")[0], default or None))
            if parameters not in forms:
                forms.append(parameters)
    return forms


def cases() -> list[tuple[str, str]]:
    return [(kind, name) for kind in CLASSES for name in members(getattr(torch_dist, kind))]


def test_every_class_is_there() -> None:
    theirs = {
        name
        for name, member in vars(torch_dist).items()
        if issubclass(type(member), type) and issubclass(member, torch_dist.Store)
    }

    assert theirs <= set(CLASSES)
    assert set(CLASSES) <= set(ours.__all__)


@pytest.mark.parametrize(("kind", "name"), cases())
def test_a_member_is_of_the_same_kind(kind: str, name: str) -> None:
    theirs = members(getattr(torch_dist, kind))[name]
    here = vars(getattr(ours, kind)).get(name)

    assert here is not None
    assert isinstance(here, property) == isinstance(theirs, property)
    assert callable(here) == callable(theirs)


@pytest.mark.parametrize(
    ("kind", "name"),
    [case for case in cases() if callable(members(getattr(torch_dist, case[0]))[case[1]])],
)
def test_a_method_takes_the_same_parameters(kind: str, name: str) -> None:
    theirs = overloads(getattr(getattr(torch_dist, kind), name))
    here = overloads(getattr(getattr(ours, kind), name))

    assert theirs
    assert len(here) == len(theirs)
    for our_form, their_form in zip(here, theirs, strict=True):
        assert len(our_form) == len(their_form)
        for our_parameter, their_parameter in zip(our_form, their_form, strict=True):
            assert our_parameter.default == their_parameter.default
            if not re.fullmatch(r"arg\d+", their_parameter.name):  # those have no name there
                assert our_parameter.name == their_parameter.name


def test_nothing_is_public_here_that_torch_does_not_have() -> None:
    for kind in CLASSES:
        extra = members(getattr(ours, kind)).keys() - members(getattr(torch_dist, kind)).keys()

        assert extra == set(), kind
