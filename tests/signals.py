"""Ctrl-C at the right moment: while a call waits, and never on the way there."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LOOKS = 0.05  # seconds between two

# What is promised is 200 ms; asserted is what no busy machine takes, and far less than any timeout.
CTRL_C_BOUND = 20.0


@contextmanager
def signal_inside(number: int = signal.SIGINT) -> Iterator[list[float]]:
    """Sends this process a signal when its main thread is inside a call that takes long.

    The list gets the time it was sent. A clock makes the main thread look again and again where it
    is: at the same instruction twice in a row means inside of what that one calls. However busy the
    machine is, the signal does not come before.
    """
    sent: list[float] = []
    seen: list[tuple[FrameType | None, int]] = []

    def look(_: int, frame: FrameType | None) -> None:
        here = (frame, frame.f_lasti if frame else -1)
        if seen != [here]:
            seen[:] = [here]
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        sent.append(time.monotonic())
        signal.raise_signal(number)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOKS, LOOKS)
    try:
        yield sent
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        seen.clear()  # frames keep everything
