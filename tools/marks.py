"""What a check has found good, kept on disk, so that no clone of this tree is checked twice for it.

A mark is a name that changes whenever the outcome might, such as a hash of all that a compiler
reads. Marks are kept in ~/.cache (XDG_CACHE_HOME) for a month after they were last of use.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

KEPT_SECONDS = 30 * 24 * 3600


class Marks:
    """The marks of one check."""

    def __init__(self, check: str) -> None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = cache / f"unisono-{check}"
        self.folder.mkdir(parents=True, exist_ok=True)
        for mark in self.folder.iterdir():
            if time.time() - mark.stat().st_mtime > KEPT_SECONDS:
                mark.unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        mark = self.folder / name
        if mark.exists():
            mark.touch()  # one that is used stays
            return True
        return False

    def add(self, name: str) -> None:
        (self.folder / name).touch()
