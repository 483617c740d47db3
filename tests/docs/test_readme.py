"""The README: what it shows of an example is in that example, and what is started there is run.

An example stands between `<!-- example:begin: … -->`, which may name a file of examples/, and
`<!-- example:end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.program import NEEDS_PROGRAM, ROOT
from tests.docs.test_pages import FENCE, environment, shell
from tests.torch.conftest import BUILT

MARKED = re.compile(r"<!-- example:begin: (.*?) -->\n(.*?)<!-- example:end -->", re.DOTALL)
SHOWN = [
    (named[0], FENCE.findall(body))
    for comment, body in MARKED.findall((ROOT / "README.md").read_text())
    if (named := re.search(r"examples/[\w.]+", comment))
]


def test_every_language_has_an_example() -> None:
    assert {Path(name).suffix for name, _ in SHOWN} == {".py", ".cpp"}


@pytest.mark.parametrize(("name", "blocks"), SHOWN, ids=[name for name, _ in SHOWN])
def test_what_is_shown_of_an_example_is_in_it(name: str, blocks: list[tuple[str, str]]) -> None:
    lines = {line.strip() for line in (ROOT / name).read_text().splitlines()}
    (shown,) = [text for language, text in blocks if language in ("python", "cpp")]

    assert {line.strip() for line in shown.splitlines()} <= lines | {""}


@NEEDS_PROGRAM
def test_what_is_started_prints_what_is_shown() -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("unisono")
    sessions = [
        text
        for name, blocks in SHOWN
        for language, text in blocks
        if language == "console" and (BUILT or "torch" not in name)
    ]

    assert sessions
    for session in sessions:
        shell(session, ROOT, environment())
