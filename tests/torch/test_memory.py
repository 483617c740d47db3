"""Tensors in memory that ranks share, by whatever way: results are the same, and nothing fails."""

from __future__ import annotations

import pytest

from tests.torch.memory import LAYERS, MANY
from tests.torch.test_failures import ALONE, run_python
from tests.torch.world import Ended, run_world

torch = pytest.importorskip("torch")

OURS = "memory.hundred_buckets memory.used_up memory.shared memory.loader memory.sharded".split()


@pytest.fixture(scope="module")
def ours() -> Ended:
    return run_world(",".join(OURS), 2)


@pytest.fixture(scope="module")
def gloo() -> Ended:
    return run_world("memory.hundred_buckets", 2, "gloo")


@pytest.mark.parametrize("way", ["100", "100 in view", "many in view"])
def test_ddp_has_as_many_buckets_as_it_wants(ours: Ended, gloo: Ended, way: str) -> None:
    wanted = gloo.of("memory.hundred_buckets")[0][way]
    for results in ours.of("memory.hundred_buckets"):
        assert results[way]["buckets"] == wanted["buckets"] >= 100
        torch.testing.assert_close(results[way]["last"], wanted["last"])


def test_there_are_more_buckets_than_blocks(ours: Ended) -> None:
    """Or the test above would not come to the end of them."""
    assert ours.of("memory.hundred_buckets")[0]["many in view"]["buckets"] == MANY


def test_a_rank_without_blocks_has_ordinary_memory(ours: Ended) -> None:
    for results in ours.of("memory.used_up"):
        assert torch.equal(results["sum"], torch.full((1000,), 3.0))


def test_ranks_may_give_the_same_memory(ours: Ended) -> None:
    for results in ours.of("memory.shared"):
        assert all(torch.equal(output, torch.arange(8.0)) for output in results["gathered"])
        assert torch.equal(results["own"], torch.full((8,), 3.0))
        assert torch.equal(results["same"], torch.arange(8.0))


def test_forked_workers_of_a_loader_read_gradients(ours: Ended) -> None:
    for results in ours.of("memory.loader"):
        assert results["seen"] == [6.0] * 4  # the average of 4 and 8
        assert not results["own"] and results["after"] == 12.0


def test_ddp_and_fsdp_use_registered_memory_at_every_step(ours: Ended) -> None:
    """Of every layer FSDP2 gathers the weights, at least once, and scatters the gradients."""
    for results in ours.of("memory.sharded"):
        assert min(results["ddp"]["uses"]) >= 1, results
        assert min(results["as it is"]["uses"]) >= 2 * LAYERS, results
        assert results["told not to"]["uses"] == [0] * 4, results


def test_where_buffers_lie_changes_no_weight(ours: Ended) -> None:
    for results in ours.of("memory.sharded"):
        assert torch.equal(results["as it is"]["weights"], results["told not to"]["weights"])
        torch.testing.assert_close(results["as it is"]["weights"], results["ddp"]["weights"])


def test_fsdp_may_be_imported_after_the_first_group() -> None:
    program = (
        ALONE + "import sys; assert not any('fsdp' in name for name in sys.modules)\n"
        "from torch.distributed.fsdp import fully_shard\n"
        "group = fully_shard(torch.nn.Linear(2, 2))._get_fsdp_state()._fsdp_param_group\n"
        "print(*(type(of).__name__ for of in (group._all_gather_comm, group._reduce_scatter_comm)))"
    )
    ended = run_python(program)
    wanted = "ProcessGroupAllocAllGather ProcessGroupAllocReduceScatter\n"
    assert ended.stdout == wanted, ended


def test_fsdp_over_gloo_is_left_alone() -> None:
    program = (
        "import torch, torch.distributed as dist, unisono.torch\n"
        "from torch.distributed.fsdp import fully_shard\n"
        "from torch.distributed.device_mesh import DeviceMesh\n"
        "dist.init_process_group('unisono', store=dist.HashStore(), rank=0, world_size=1)\n"
        "mesh = DeviceMesh.from_group(dist.new_group([0], backend='gloo'), 'cpu')\n"
        "state = fully_shard(torch.nn.Linear(2, 2), mesh=mesh)._get_fsdp_state()\n"
        "print(type(state._fsdp_param_group._all_gather_comm).__name__)"
    )
    ended = run_python(program)
    assert ended.stdout == "DefaultAllGather\n", ended
