"""What is noted of a training: torch's Logger, for the Reducer of unisono.distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unisono import _core
from unisono.distributed._reducer import Reducer


@dataclass(slots=True)
class DDPLoggingData:
    """Texts and numbers by their names, which are torch's."""

    strs_map: dict[str, str] = field(default_factory=dict)
    ints_map: dict[str, int] = field(default_factory=dict)


class Logger:
    """Notes what a Reducer does, and how long the parts of a step take.

    logger = Logger(reducer)
    reducer.set_logger(logger)
    logger.set_construction_data_and_log("net", [], -1, False, False, False)
    for ... :
        logger.set_runtime_stats_and_log()     # of the step before
        reducer.prepare_for_forward()
        ...
    logger._get_ddp_logging_data().ints_map["avg_backward_comm_time"]   # nanoseconds
    """

    def __init__(self, reducer: Reducer) -> None:
        if not isinstance(reducer, Reducer):
            raise TypeError(f"reducer must be a Reducer, not {type(reducer).__name__}")
        self._core = _core.Logger(reducer._core)
        self._construction: tuple[Any, ...] | None = None
        reducer._note(self)

    def set_construction_data_and_log(
        self,
        module_name: str,
        device_ids: Sequence[int],
        output_device: int,
        broadcast_buffers: bool,
        has_sync_bn: bool,
        static_graph: bool,
    ) -> None:
        """What the Reducer does not know of its training."""
        self._construction = (
            module_name,
            list(device_ids),
            output_device,
            broadcast_buffers,
            has_sync_bn,
            static_graph,
        )
        self._core.set_construction_data(*self._construction)

    def set_runtime_stats_and_log(self) -> None:
        """Notes the last step, if it is one of those that are: the first ten, then one in many."""
        self._core.set_runtime_stats()

    def set_error_and_log(self, error: str) -> None:
        self._core.set_error(error)

    def _get_ddp_logging_data(self) -> DDPLoggingData:
        return DDPLoggingData(*self._core.data())

    def _set_comm_hook_name(self, comm_hook: str) -> None:
        self._core.set_comm_hook(comm_hook)

    def _set_uneven_input_join(self) -> None:
        self._core.set_uneven_input_join()

    def _set_static_graph(self) -> None:
        self._core.set_static_graph()

    def _attach(self) -> None:
        self._core.attach()

    def _follow(self, reducer: _core.Reducer, is_attached: bool) -> None:
        """Goes on with what takes the place of its Reducer before the first step."""
        self._core.leave()
        self._core = _core.Logger(reducer)
        if is_attached:
            self._attach()
        if self._construction is not None:
            self._core.set_construction_data(*self._construction)

    def _leave(self) -> None:
        self._core.leave()
