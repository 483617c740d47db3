"""What the ranks of test_gloo_group.py do, each in a process that has PyTorch loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True)
class Seat:
    """Which rank a process is, and where its store is."""

    rank: int
    world_size: int
    port: int = 0
    path: str = ""


def joined_through_a_store(seat: Seat) -> dict[str, object]:
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", seat.port, timeout=TIMEOUT)
    _init(store=store, rank=seat.rank, world_size=seat.world_size)
    return _communicate(seat)


def joined_through_a_prefix(seat: Seat) -> dict[str, object]:
    import torch.distributed as dist

    store = dist.PrefixStore("job", dist.TCPStore("127.0.0.1", seat.port, timeout=TIMEOUT))
    _init(store=store, rank=seat.rank, world_size=seat.world_size)
    return _communicate(seat)


def joined_through_an_address(seat: Seat) -> dict[str, object]:
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # no rank starts a server
    url = f"tcp://127.0.0.1:{seat.port}"
    _init(init_method=url, rank=seat.rank, world_size=seat.world_size)
    return _communicate(seat)


def joined_through_the_environment(seat: Seat) -> dict[str, object]:
    """As under torchrun, whose agent runs the server."""
    os.environ.update(
        TORCHELASTIC_USE_AGENT_STORE="True",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(seat.port),
        RANK=str(seat.rank),
        WORLD_SIZE=str(seat.world_size),
    )
    _init()
    return _communicate(seat)


def joined_through_a_file(seat: Seat) -> dict[str, object]:
    _init(init_method=f"file://{seat.path}", rank=seat.rank, world_size=seat.world_size)
    return _communicate(seat)


def joined_beside_rpc(seat: Seat) -> dict[str, object]:
    """A group and PyTorch's RPC through one file, or one address; RPC outlives the group."""
    import torch
    import torch.distributed.rpc as rpc

    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # no rank starts a server
    os.environ["TP_SOCKET_IFNAME"] = "lo"
    url = f"file://{seat.path}" if seat.path else f"tcp://127.0.0.1:{seat.port}"
    _init(init_method=url, rank=seat.rank, world_size=seat.world_size)
    rpc.init_rpc(
        f"worker{seat.rank}",
        rank=seat.rank,
        world_size=seat.world_size,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            init_method=url, rpc_timeout=TIMEOUT.total_seconds()
        ),
    )
    results = _communicate(seat)  # and destroys the group
    neighbour = f"worker{(seat.rank + 1) % seat.world_size}"
    sums = rpc.rpc_sync(neighbour, torch.add, args=(torch.ones(2), seat.rank))
    rpc.shutdown()
    return {**results, "sums": sums.tolist()}


WAYS: dict[str, Callable[[Seat], dict[str, object]]] = {
    "store": joined_through_a_store,
    "prefix": joined_through_a_prefix,
    "address": joined_through_an_address,
    "environment": joined_through_the_environment,
}


def _init(**how: object) -> None:
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", timeout=TIMEOUT, **how)


def _communicate(seat: Seat) -> dict[str, object]:
    """Uses the group and two parts of it; returns what this rank got."""
    import torch
    import torch.distributed as dist

    total = torch.tensor([seat.rank + 1.0, 10.0**seat.rank])
    dist.all_reduce(total)
    dist.barrier()

    half = dist.new_group([0, 1])
    others = dist.new_group(list(range(2, seat.world_size)))
    mine = half if seat.rank < 2 else others
    product = torch.tensor([seat.rank + 1])
    dist.all_reduce(product, op=dist.ReduceOp.PRODUCT, group=mine)
    dist.monitored_barrier()

    names: list[object] = [None] * seat.world_size
    dist.all_gather_object(names, f"rank {seat.rank}")
    word = [f"from {seat.rank}" if seat.rank == 2 else None]
    dist.broadcast_object_list(word, src=2)
    dist.destroy_process_group()
    return {
        "total": total.tolist(),
        "product": product.item(),
        "names": names,
        "word": word[0],
    }


def met_by_rendezvous(seat: Seat) -> dict[str, object]:
    """Torchrun's rendezvous: agents that agree on ranks through compare_set on one key."""
    import torch.distributed as dist
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler

    store = dist.TCPStore("127.0.0.1", seat.port, timeout=TIMEOUT)
    handler = DynamicRendezvousHandler.from_backend(
        "run",
        store,
        C10dRendezvousBackend(store, "run"),
        min_nodes=seat.world_size,
        max_nodes=seat.world_size,
        local_addr="127.0.0.1",
    )
    agreed = handler.next_rendezvous()
    agreed.store.set(f"agent {agreed.rank}", "here")
    agreed.store.wait([f"agent {i}" for i in range(seat.world_size)])
    handler.shutdown()
    return {"rank": agreed.rank, "world_size": agreed.world_size}
