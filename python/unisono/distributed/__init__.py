"""torch.distributed 2.13 for arrays of NumPy and others: the same names, arguments and exceptions.

    import unisono.distributed as dist

replaces torch's import. What differs is in docs/python.md.
"""

from __future__ import annotations

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
    from unisono.distributed._groups import (
        default_pg_timeout,
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
    from unisono.distributed._kinds import Backend, ReduceOp, Work
    from unisono.distributed._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
    from unisono.distributed._object_lists import (
        all_gather_object,
        broadcast_object_list,
        gather_object,
        recv_object_list,
        scatter_object_list,
        send_object_list,
    )
    from unisono.distributed._state import GroupMember, ProcessGroup, group

__all__ = [
    "AbortedError",
    "Backend",
    "DistAuthError",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "DistTimeoutError",
    "FakeStore",
    "FileStore",
    "GroupMember",
    "HashStore",
    "MismatchError",
    "NotSupportedError",
    "P2POp",
    "PeerDeadError",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
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
    "split_group",
    "supports_complex",
]

# Loaded when they are asked for: who uses a store alone need not wait for them.
_HOMES = {
    "_collectives": """
        all_gather all_gather_coalesced all_gather_into_tensor all_gather_single all_reduce
        all_reduce_coalesced all_to_all all_to_all_single barrier broadcast gather
        monitored_barrier reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor
        scatter supports_complex
    """,
    "_groups": """
        default_pg_timeout destroy_process_group get_backend get_backend_config
        get_default_backend_for_device get_global_rank get_group_rank get_node_local_rank
        get_pg_count get_process_group_ranks get_rank get_world_size init_process_group
        is_available is_backend_available is_gloo_available is_initialized is_mpi_available
        is_nccl_available is_torchelastic_launched is_ucc_available is_xccl_available
        new_group new_subgroups new_subgroups_by_enumeration split_group
    """,
    "_kinds": """
        Backend ReduceOp Work
    """,
    "_messages": """
        P2POp batch_isend_irecv irecv isend recv send
    """,
    "_object_lists": """
        all_gather_object broadcast_object_list gather_object recv_object_list
        scatter_object_list send_object_list
    """,
    "_state": """
        GroupMember ProcessGroup group
    """,
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "_make_nccl_premul_sum":  # torch's name, though nothing of it is NCCL's here
        from unisono.distributed._kinds import make_premul_sum

        return make_premul_sum
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


# The names under which users know the classes, in tracebacks and help().
for _class in (FakeStore, FileStore, HashStore, PrefixStore, Store, TCPStore):
    _class.__module__ = __name__
del _class
