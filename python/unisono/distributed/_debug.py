"""The debug level of this process, as torch has it."""

from __future__ import annotations

from enum import Enum

from unisono import _core


class DebugLevel(Enum):
    """How much a process is asked to tell and check beyond what it always does."""

    OFF = 0
    INFO = 1
    DETAIL = 2

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


def get_debug_level() -> DebugLevel:
    """The level that was set; before that, the one that UNISONO_DEBUG or else
    TORCH_DISTRIBUTED_DEBUG names."""
    return DebugLevel(_core.debug_level())


def set_debug_level(level: DebugLevel, /) -> None:
    """Sets the level, whatever the environment says."""
    if not isinstance(level, DebugLevel):
        raise TypeError(f"level must be a DebugLevel, not {type(level).__name__}")
    _core.set_debug_level(level.value)


def set_debug_level_from_env() -> None:
    """Reads the environment anew; a word that names no level is a ValueError."""
    _core.set_debug_level_from_env()
