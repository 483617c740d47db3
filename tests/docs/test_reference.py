"""docs/reference is what the program and the package say of themselves."""

from __future__ import annotations

import pytest

from tests.cli.program import PROGRAM, ROOT

pytest.importorskip("unisono")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} has not been built")


@pytest.mark.parametrize("page", ["command_line.md", "python.md"])
def test_a_page_is_what_the_tool_makes(page: str) -> None:
    import make_reference

    written = (ROOT / "docs" / "reference" / page).read_text()

    assert written == make_reference.PAGES[page](), "run: .venv/bin/python tools/make_reference.py"


def test_nothing_is_left_out() -> None:
    commands = (ROOT / "docs" / "reference" / "command_line.md").read_text()
    python = (ROOT / "docs" / "reference" / "python.md").read_text()

    for name in ("run", "bench", "doctor", "info", "completion", "store serve", "store watch"):
        assert f"## unisono {name}\n" in commands
    for name in ("all_reduce(array", "batch_isend_irecv(", "get_future(", "init(", "kill(rank"):
        assert f"`{name}" in python
