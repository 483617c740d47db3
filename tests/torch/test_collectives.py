"""What operations of the backend "unisono" give: gloo is the reference where it can do the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.world import Ended, run_world

torch = pytest.importorskip("torch")


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal, to the last bit."""
    if isinstance(one, torch.Tensor):
        return bool(one.dtype == other.dtype and torch.equal(one, other))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


COMMON = "coalesced messages futures objects sparse ddp".split()
OURS = "groups brackets own_types strided odd_sizes averages profiled".split()


@pytest.fixture(scope="module")
def ours() -> Ended:
    """A world that does everything that does not end it: it takes seconds to start one."""
    return run_world(",".join(COMMON + OURS), 3)


@pytest.fixture(scope="module")
def gloo() -> Ended:
    return run_world(",".join(COMMON), 3, "gloo")


def assert_same_on_all(ours: list[Any], reference: list[Any]) -> None:
    for rank, (mine, wanted) in enumerate(zip(ours, reference, strict=True)):
        assert mine.keys() == wanted.keys()
        for name, result in mine.items():
            want = wanted[name]
            assert same(result, want), f"rank {rank}, {name}: {result} instead of {want}"


@pytest.mark.parametrize("size", [2, 4])
def test_every_collective_gives_what_gloo_gives(size: int) -> None:
    worlds = [run_world("all_collectives", size, backend) for backend in ("unisono", "gloo")]
    assert_same_on_all(*(world.of("all_collectives") for world in worlds))


@pytest.mark.parametrize("scenario", COMMON[:-1])
def test_gives_what_gloo_gives(ours: Ended, gloo: Ended, scenario: str) -> None:
    """Calls in one, messages by tag, futures and dropped works, objects, sparse tensors."""
    assert_same_on_all(ours.of(scenario), gloo.of(scenario))


def test_a_thousand_operations_may_be_under_way() -> None:
    worlds = [run_world("depth.stress", 3, backend) for backend in ("unisono", "gloo")]
    assert_same_on_all(*(world.of("depth.stress") for world in worlds))


def test_groups_of_some_ranks_work(ours: Ended) -> None:
    for rank, results in enumerate(ours.of("groups")):
        assert results.get("low", torch.tensor([1.0])) == torch.tensor([1.0])
        assert results.get("high", torch.tensor([3.0])) == torch.tensor([3.0])
        assert ("low" in results, "high" in results) == (rank < 2, rank > 0)
        assert results.get("split", torch.tensor([22.0])) == torch.tensor([22.0])
        assert all(results[key] == "unisono" for key in results if key.endswith("backend"))


def test_a_bracket_is_one_operation(ours: Ended) -> None:
    from tests.torch.scenarios import values

    for rank, results in enumerate(ours.of("brackets")):
        assert same(results["broadcast"], values(0, "float32", 3))
        assert same(results["recv"], values((rank - 1) % 3, "float32", 4))
        if rank == 0:
            assert same(results["reduce"], sum(values(r, "float32") for r in range(3)))


def test_types_that_gloo_lacks_are_moved_and_added(ours: Ended) -> None:
    from tests.torch.scenarios import OWN, values

    for rank, results in enumerate(ours.of("own_types")):
        for dtype in OWN:
            total = sum(values(r, dtype).to(torch.complex128) for r in range(3))
            assert same(results[f"all_reduce {dtype}"].to(torch.complex128), total), dtype
            assert same(results[f"broadcast {dtype}"], values(2, dtype))
            assert same(results[f"all_gather {dtype}"], [values(r, dtype) for r in range(3)])
            assert same(results[f"scatter {dtype}"], values(rank, dtype))
        for dtype in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "bool"):
            assert same(results[f"broadcast {dtype}"], values(1, dtype).to(torch.float32)), dtype
        assert results["sum of flags"].tolist() == [1, 0, 1]


def test_strided_tensors_are_as_good_as_others(ours: Ended) -> None:
    """Where gloo gives wrong results without a word."""
    from tests.torch.scenarios import values

    def columns(rank: int) -> Any:
        return values(rank, "float32", 12).reshape(3, 4)[:, ::2].contiguous()

    for results in ours.of("strided"):
        assert same(results["all_reduce"], columns(0) + columns(1) + columns(2))
        assert same(results["broadcast"], columns(0))
        assert same(results["all_gather"], [columns(r) for r in range(3)])
        assert same(results["scatter"], columns(0))


def test_sizes_may_be_nothing_or_differ_by_rank(ours: Ended) -> None:
    from tests.torch.scenarios import values

    for rank, results in enumerate(ours.of("odd_sizes")):
        assert results["scalar"] == torch.tensor(3.0)
        assert same(results["all_gather"], [values(r, "float32", r + 1) for r in range(3)])
        assert same(results["all_to_all"], [values(r, "float32", rank + r + 1) for r in range(3)])
        assert same(results["stacked"], torch.stack([values(r, "float32", 3) for r in range(3)]))
        rows = [values(r, "float32", 6).split([1, 2, 3])[rank] for r in range(3)]
        assert same(results["rows"], torch.cat(rows))


def test_averages_of_integers_and_factors_work(ours: Ended) -> None:
    for results in ours.of("averages"):
        assert results["avg"].tolist() == [2, 10]
        assert results["premul"].tolist() == [3.0]
        assert results["scattered"].tolist() == [6.0]


def test_profiles_show_operations_under_the_names_gloo_gives_them(ours: Ended) -> None:
    for results in ours.of("profiled"):
        assert results["names"] == ["unisono:all_reduce", "unisono:recvAnySource", "unisono:send"]


def test_ddp_trains_as_with_gloo_and_twice_the_same(ours: Ended, gloo: Ended) -> None:
    every = [run for rank in ours.of("ddp") for run in (rank["first"], rank["again"])]
    for name, value in every[0].items():
        assert all(torch.equal(other[name], value) for other in every), name
        torch.testing.assert_close(value, gloo.of("ddp")[0]["first"][name], rtol=1e-4, atol=1e-5)
