"""Last words: what an uncaught exception was, left in the file that a launcher reads.

torchrun and `unisono run` name a file in TORCHELASTIC_ERROR_FILE, and show what it says of the rank
that failed first. torch's `record` decorator writes it; init() sees to it without one.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from types import TracebackType

_VARIABLE = "TORCHELASTIC_ERROR_FILE"
_installed = threading.Lock()  # held once the hook is there
_noted: list[BaseException] = []  # what we have written last


def leave_last_words() -> None:
    """Where a launcher asks for it, has uncaught exceptions of the main thread written down.

    What else is done with them stays as it is.
    """
    if not os.environ.get(_VARIABLE) or not _installed.acquire(blocking=False):
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        note(error)
        before(kind, error, trace)

    sys.excepthook = hook


def note(error: BaseException) -> None:
    """Writes down what this rank is about to fail with.

    A group that is left by an exception does so before its peers are told: who fails because of
    that is later. When the exception is caught after all, the next one takes its place.
    """
    path = os.environ.get(_VARIABLE, "")
    if not path or not isinstance(error, Exception) or any(error is known for known in _noted):
        return
    with suppress(OSError):  # the exception itself is more important
        _write(path, error)


def _write(path: str, error: BaseException) -> None:
    """Writes `error` to `path` as torch does; an account that another has written stays."""
    import json
    import time
    import traceback
    from pathlib import Path

    if not _noted and Path(path).exists():
        return

    account = {
        "message": {
            "message": f"{type(error).__name__}: {error}",
            "extraInfo": {
                "py_callstack": "".join(traceback.format_exception(error)),
                "timestamp": str(int(time.time())),
            },
        }
    }
    beside = Path(f"{path}.{os.getpid()}")
    beside.write_text(json.dumps(account), encoding="ascii")
    beside.replace(path)  # whoever reads sees all of it
    _noted[:] = [error]
