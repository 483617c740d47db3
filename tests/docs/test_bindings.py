"""docs/bindings.md says of every name of torch's bindings what unisono has for it."""

from __future__ import annotations

import pytest

from tests.cli.program import ROOT

pytest.importorskip("unisono")
pytest.importorskip("torch")


def test_the_page_is_what_the_tool_makes() -> None:
    import make_bindings

    written = (ROOT / "docs" / "bindings.md").read_text()

    assert written == make_bindings.page(), "run: .venv/bin/python tools/make_bindings.py"


def test_a_difference_that_is_explained_is_one() -> None:
    import make_bindings
    import torch._C._distributed_c10d as theirs

    for name in make_bindings.OTHER:
        thing, _, member = name.partition(".")
        assert hasattr(theirs, thing), name
        assert not member or member in make_bindings.members_of(getattr(theirs, thing)), name
