"""PyTorch's own process groups (gloo), formed over our stores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.interop.conftest import OUR_SERVERS, Server, World
from tests.interop.driver import torch_processes
from tests.interop.gloo_ranks import (
    WAYS,
    Seat,
    joined_beside_rpc,
    joined_through_a_file,
    met_by_rendezvous,
)

RANKS = 4
# Forming a group takes a second; a rank that waits for another gives up after 30.
PATIENCE = 60.0


def run_ranks(
    rank: Callable[[Seat], dict[str, object]], port: int = 0, path: Path | None = None
) -> list[dict[str, object]]:
    """Runs every rank in a process of its own; returns what they got, by rank."""
    seats = [Seat(i, RANKS, port, str(path or "")) for i in range(RANKS)]
    with ProcessPoolExecutor(RANKS, mp_context=torch_processes()) as pool:
        return list(pool.map(rank, seats, timeout=PATIENCE))


def check_results(results: list[dict[str, object]]) -> None:
    for rank, result in enumerate(results):
        assert result == {
            "total": [10.0, 1111.0],
            "product": 1 * 2 if rank < 2 else 3 * 4,
            "names": [f"rank {i}" for i in range(RANKS)],
            "word": "from 2",
        }


@pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
@pytest.mark.parametrize("way", WAYS)
def test_a_group_forms_over_our_server(server: Server, way: str) -> None:
    check_results(run_ranks(WAYS[way], server.port))


@pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
def test_our_client_sees_the_group_form(server: Server) -> None:
    """Our client meets the ranks through keys, while they use the same store for their group."""
    ours = server.client("unisono")
    ours.set("before", "1")

    check_results(run_ranks(WAYS["prefix"], server.port))

    used = ours.list_keys()
    assert "before" in used
    assert any(key.startswith("job/") for key in used)
    assert ours.delete_prefix("job/") == sum(key.startswith("job/") for key in used)


def test_a_group_forms_over_a_file_that_is_ours_first(world: World, tmp_path: Path) -> None:
    path = tmp_path / "store"
    ours = world.peer("unisono").file(path)
    ours.set("k", "v")

    check_results(run_ranks(joined_through_a_file, path=path))

    assert ours.get("k") == b"v"


def check_calls(results: list[dict[str, object]]) -> None:
    """What each rank was answered by RPC, when its group had gone; and what the group did."""
    for rank, result in enumerate(results):
        assert result.pop("sums") == [1.0 + rank, 1.0 + rank]
    check_results(results)


@pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
def test_a_group_and_rpc_share_the_address_of_our_server(server: Server) -> None:
    check_calls(run_ranks(joined_beside_rpc, server.port))


def test_a_group_and_rpc_share_a_file_that_is_ours_first(world: World, tmp_path: Path) -> None:
    """The file stays when the group is destroyed: RPC goes on with it, and so do we."""
    path = tmp_path / "store"
    ours = world.peer("unisono").file(path)
    ours.set("k", "v")

    check_calls(run_ranks(joined_beside_rpc, path=path))

    assert ours.get("k") == b"v"


@pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
def test_elastic_agents_agree_on_ranks_over_our_server(server: Server) -> None:
    results = run_ranks(met_by_rendezvous, server.port)

    assert {result["rank"] for result in results} == set(range(RANKS))
    assert {result["world_size"] for result in results} == {RANKS}
