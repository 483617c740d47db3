"""A small tree of files for the checks to look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MakeTree = Callable[[dict[str, str]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> MakeTree:
    """tree({"src/a/x.cpp": "text"}) makes the files and returns their root."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make
