"""torch.distributed 2.13 for arrays of NumPy and others: the same names, arguments and exceptions.

    import unisono.distributed as dist

replaces torch's import. What differs is in docs/python.md.
"""

from __future__ import annotations

from unisono import _core
from unisono._core import FakeStore, FileStore, HashStore, PrefixStore, Store, TCPStore
from unisono._errors import (
    AbortedError,
    DistAuthError,
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    DistTimeoutError,
    MismatchError,
    NotSupportedError,
    PeerDeadError,
    QueueEmptyError,
    StoreValueError,
    UsageError,
)
from unisono.distributed.rendezvous import register_rendezvous_handler, rendezvous

TYPE_CHECKING = False  # for type checkers only; typing itself takes milliseconds to import
if TYPE_CHECKING:
    from unisono._core import BuiltinCommHookType, GradBucket
    from unisono.distributed import (
        _ambient,
        _backends,
        _kinds,
        _logger,
        _native_backends,
        _options,
        _reducer,
        _registry,
        _special_works,
    )
    from unisono.distributed._collectives import (
        all_gather,
        all_gather_coalesced,
        all_gather_into_tensor,
        all_gather_single,
        all_reduce,
        all_reduce_coalesced,
        all_to_all,
        all_to_all_single,
        barrier,
        broadcast,
        gather,
        monitored_barrier,
        reduce,
        reduce_scatter,
        reduce_scatter_single,
        reduce_scatter_tensor,
        scatter,
        supports_complex,
    )
    from unisono.distributed._debug import (
        DebugLevel,
        get_debug_level,
        set_debug_level,
        set_debug_level_from_env,
    )
    from unisono.distributed._groups import (
        destroy_process_group,
        get_backend,
        get_backend_config,
        get_default_backend_for_device,
        get_global_rank,
        get_group_rank,
        get_node_local_rank,
        get_pg_count,
        get_process_group_ranks,
        get_rank,
        get_world_size,
        init_process_group,
        is_available,
        is_backend_available,
        is_gloo_available,
        is_initialized,
        is_mpi_available,
        is_nccl_available,
        is_torchelastic_launched,
        is_ucc_available,
        is_xccl_available,
        new_group,
        new_subgroups,
        new_subgroups_by_enumeration,
        split_group,
    )
    from unisono.distributed._kinds import Backend, ReduceOp
    from unisono.distributed._logger import Logger
    from unisono.distributed._making import default_pg_timeout
    from unisono.distributed._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
    from unisono.distributed._object_lists import (
        all_gather_object,
        broadcast_object_list,
        gather_object,
        recv_object_list,
        scatter_object_list,
        send_object_list,
    )
    from unisono.distributed._options import (
        AllreduceCoalescedOptions,
        AllreduceOptions,
        AllToAllOptions,
        BarrierOptions,
        BroadcastOptions,
        GatherOptions,
        ReduceOptions,
        ReduceScatterOptions,
        ScatterOptions,
    )
    from unisono.distributed._process_group import ProcessGroup
    from unisono.distributed._reducer import Reducer
    from unisono.distributed._state import GroupMember, group
    from unisono.distributed._works import Work

    _broadcast_coalesced = _reducer._broadcast_coalesced
    _compute_bucket_assignment_by_size = _reducer._compute_bucket_assignment_by_size
    _register_builtin_comm_hook = _reducer._register_builtin_comm_hook
    _register_comm_hook = _reducer._register_comm_hook
    _verify_params_across_processes = _reducer._verify_params_across_processes
    _DEFAULT_FIRST_BUCKET_BYTES = _reducer._DEFAULT_FIRST_BUCKET_BYTES
    AllgatherOptions = _options.AllgatherOptions
    ErrorType = _backends.ErrorType
    _Backend = _backends._Backend
    _DistributedBackendOptions = _backends._DistributedBackendOptions
    FakeProcessGroup = _native_backends.FakeProcessGroup
    FakeWork = _special_works.FakeWork
    PythonCallbackWork = _special_works.PythonCallbackWork
    _ProcessGroupWrapper = _native_backends._ProcessGroupWrapper
    _Work = Work
    _create_work_from_future = _special_works._create_work_from_future
    DDPLoggingData = _logger.DDPLoggingData
    OpType = _kinds.OpType
    WorkInfo = _kinds.WorkInfo
    WorkResult = _kinds.WorkResult
    _DEFAULT_NO_TIMEOUT = _ambient._DEFAULT_NO_TIMEOUT
    _DEFAULT_PG_TIMEOUT = _ambient._DEFAULT_PG_TIMEOUT
    _allow_inflight_collective_as_graph_input = _ambient._allow_inflight_collective_as_graph_input
    _current_process_group = _ambient._current_process_group
    _get_comm_profiling_name = _ambient._get_comm_profiling_name
    _set_allow_inflight_collective_as_graph_input = (
        _ambient._set_allow_inflight_collective_as_graph_input
    )
    _set_comm_profiling_name = _ambient._set_comm_profiling_name
    _set_global_rank = _ambient._set_global_rank
    _set_process_group = _ambient._set_process_group
    _get_work_registry_size = _registry._get_work_registry_size
    _register_process_group = _registry._register_process_group
    _register_work = _registry._register_work
    _resolve_process_group = _registry._resolve_process_group
    _set_thread_isolation_mode = _registry._set_thread_isolation_mode
    _unregister_all_process_groups = _registry._unregister_all_process_groups
    _unregister_process_group = _registry._unregister_process_group

__all__ = [
    "AbortedError",
    "AllToAllOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "Backend",
    "BarrierOptions",
    "BroadcastOptions",
    "BuiltinCommHookType",
    "DebugLevel",
    "DistAuthError",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "DistTimeoutError",
    "FakeStore",
    "FileStore",
    "GatherOptions",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "Logger",
    "MismatchError",
    "NotSupportedError",
    "P2POp",
    "PeerDeadError",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "Reducer",
    "ScatterOptions",
    "Store",
    "StoreValueError",
    "TCPStore",
    "UsageError",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "split_group",
    "supports_complex",
]

# Loaded when they are asked for: who uses a store alone need not wait for them.
_HOMES = {
    "_ambient": """
        _DEFAULT_NO_TIMEOUT _DEFAULT_PG_TIMEOUT _allow_inflight_collective_as_graph_input
        _current_process_group _get_comm_profiling_name
        _set_allow_inflight_collective_as_graph_input _set_comm_profiling_name _set_global_rank
        _set_process_group
    """,
    "_backends": """
        ErrorType _Backend _DistributedBackendOptions
    """,
    "_collectives": """
        all_gather all_gather_coalesced all_gather_into_tensor all_gather_single all_reduce
        all_reduce_coalesced all_to_all all_to_all_single barrier broadcast gather
        monitored_barrier reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor
        scatter supports_complex
    """,
    "_debug": """
        DebugLevel get_debug_level set_debug_level set_debug_level_from_env
    """,
    "_groups": """
        destroy_process_group get_backend get_backend_config
        get_default_backend_for_device get_global_rank get_group_rank get_node_local_rank
        get_pg_count get_process_group_ranks get_rank get_world_size init_process_group
        is_available is_backend_available is_gloo_available is_initialized is_mpi_available
        is_nccl_available is_torchelastic_launched is_ucc_available is_xccl_available
        new_group new_subgroups new_subgroups_by_enumeration split_group
    """,
    "_kinds": """
        Backend OpType ReduceOp WorkInfo WorkResult
    """,
    "_logger": """
        DDPLoggingData Logger
    """,
    "_making": """
        default_pg_timeout
    """,
    "_messages": """
        P2POp batch_isend_irecv irecv isend recv send
    """,
    "_native_backends": """
        FakeProcessGroup _ProcessGroupWrapper
    """,
    "_object_lists": """
        all_gather_object broadcast_object_list gather_object recv_object_list
        scatter_object_list send_object_list
    """,
    "_options": """
        AllToAllOptions AllgatherOptions AllreduceCoalescedOptions AllreduceOptions BarrierOptions
        BroadcastOptions GatherOptions ReduceOptions ReduceScatterOptions ScatterOptions
    """,
    "_process_group": """
        ProcessGroup
    """,
    "_reducer": """
        BuiltinCommHookType GradBucket Reducer _DEFAULT_FIRST_BUCKET_BYTES _broadcast_coalesced
        _compute_bucket_assignment_by_size _register_builtin_comm_hook _register_comm_hook
        _verify_params_across_processes
    """,
    "_registry": """
        _get_work_registry_size _register_process_group _register_work _resolve_process_group
        _set_thread_isolation_mode _unregister_all_process_groups _unregister_process_group
    """,
    "_state": """
        GroupMember group
    """,
    "_special_works": """
        FakeWork PythonCallbackWork _create_work_from_future
    """,
    "_works": """
        Work
    """,
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "_make_nccl_premul_sum":  # torch's name, though nothing of it is NCCL's here
        from unisono.distributed._kinds import make_premul_sum

        return make_premul_sum
    if name == "_Work":  # torch's other name for it
        name = "Work"
    if name not in _HOME_OF:
        raise AttributeError(f"module 'unisono.distributed' has no attribute {name!r}")
    import importlib

    home = importlib.import_module(f"unisono.distributed.{_HOME_OF[name]}")
    found: object = getattr(home, name)
    if getattr(found, "__module__", None) == home.__name__:
        found.__module__ = __name__  # under which users know it
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Under torch's names, which say that they are for those who know them.
_ControlCollectives = _core.ControlCollectives
_StoreCollectives = _core.StoreCollectives

# The names under which users know the classes, in tracebacks and help().
for _class in (
    *(FakeStore, FileStore, HashStore, PrefixStore, Store, TCPStore),
    *(_ControlCollectives, _StoreCollectives),
):
    _class.__module__ = __name__
del _class
_ControlCollectives.__name__ = _ControlCollectives.__qualname__ = "_ControlCollectives"
_StoreCollectives.__name__ = _StoreCollectives.__qualname__ = "_StoreCollectives"
