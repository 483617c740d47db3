"""What all Python tests share."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Lets programs under test see Ctrl-C also when the tests run in the background.

    A shell starts background jobs with SIGINT ignored, and programs inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
