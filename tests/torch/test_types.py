"""docs/pytorch.md says which types each operation takes; here it is asked, of gloo too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.torch.world import ROOT, run_world

torch = pytest.importorskip("torch")

TYPES = {  # the columns of the table
    "float32, float64": "float32 float64",
    "float16, bfloat16": "float16 bfloat16",
    "int8, uint8, int32, int64": "int8 uint8 int32 int64",
    "int16, uint16, uint32, uint64": "int16 uint16 uint32 uint64",
    "complex64, complex128": "complex64 complex128",
    "bool": "bool",
    "float8 (e4m3fn, e5m2)": "float8_e4m3fn float8_e5m2",
}


def rows() -> Iterator[tuple[list[str], list[str]]]:
    """The operations of each row, and its cells."""
    text = (ROOT / "docs" / "pytorch.md").read_text()
    _, _, table = text.partition("| | float32, float64 |")
    head, _, *lines = table.partition("\n\n")[0].splitlines()
    assert [cell.strip() for cell in head.strip(" |").split("|")] == list(TYPES)[1:]
    for line in lines:
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = re.findall(r"`(\w+)`", first)
        yield (["copy"] if "broadcast" in names else names), cells


def test_the_page_says_which_types_are_taken() -> None:
    ours, gloo = (run_world("accepted", 2, name).of("accepted")[0] for name in ("unisono", "gloo"))
    wrong = []
    for names, cells in rows():
        for cell, types in zip(cells, TYPES.values(), strict=True):
            for what in [f"{name} {dtype}" for name in names for dtype in types.split()]:
                taken = ours[what] == "not refused"
                there = gloo.get(what, "") == "not refused"
                shown = (not cell.startswith("-"), "(-)" not in cell and not cell.startswith("-"))
                if (taken, there) != shown and "no `PRODUCT`" not in cell:
                    wrong.append(f"{what}: ours {ours[what]}; gloo {gloo.get(what, 'unasked')}")
    assert not wrong, "\n".join(wrong)
