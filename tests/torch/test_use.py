"""What programs do with torch.distributed, over the backend "unisono": gloo is the reference."""

from __future__ import annotations

import pytest

from tests.torch.test_collectives import assert_same_on_all, same
from tests.torch.world import Ended, run_world

torch = pytest.importorskip("torch")

SIZE = 4  # a square of ranks
BUILT_ON = "tensors.spread tensors.functions tensors.gradients tensors.large_objects".split()
COMMON = [*BUILT_ON, "training.every_way"]
OURS = "training.untrained training.once_more training.divided".split()
WAYS = (
    *("float32", "bfloat16", "bfloat16, added as float32", "hsdp", "hsdp of bfloat16"),  # FSDP2
    *("unused", "static", "views", "sparse", "complex", "computed again"),  # DDP
    *("float16 on the way", "PowerSGD", "join", "ZeRO"),
)


@pytest.fixture(scope="module", params=[1, 2], ids=["one host", "two hosts"])
def ours(request: pytest.FixtureRequest) -> Ended:
    """One world for everything: it takes seconds to start one."""
    return run_world(",".join(COMMON + OURS), SIZE, hosts=request.param)


@pytest.fixture(scope="module")
def gloo() -> Ended:
    return run_world(",".join(COMMON), SIZE, "gloo")


@pytest.mark.parametrize("way", WAYS)
def test_training_gives_what_it_gives_with_gloo(ours: Ended, gloo: Ended, way: str) -> None:
    results, wanted = (world.of("training.every_way")[0] for world in (ours, gloo))
    assert set(results) == set(WAYS)
    far = 1e-2 if "16" in way else 1e-5  # the order of additions, with few digits and with many
    for name, value in results[way].items():
        torch.testing.assert_close(value, wanted[way][name], rtol=far, atol=far)


def test_training_ends_with_the_same_bits_on_all_ranks_and_in_two_runs(ours: Ended) -> None:
    every = ours.of("training.every_way") + ours.of("training.once_more")
    for name, first in every[0].items():
        for key, value in first.items():
            assert all(same(run[name][key], value) for run in every), f"{name}, {key}"


def test_training_changes_parameters(ours: Ended) -> None:
    """Or the tests above would say nothing."""
    begun = ours.of("training.untrained")[0]
    for name in ("float32", "hsdp", "static", "PowerSGD", "join", "ZeRO"):
        found = ours.of("training.every_way")[0][name]
        assert not any(same(found[key], value) for key, value in begun.items()), name


def test_compiled_ddp_trains_as_it_does_without() -> None:
    ended = run_world("training.untrained,training.compiled", 2)
    begun = ended.of("training.untrained")[0]
    for results in ended.of("training.compiled"):
        for name, value in results["eager"].items():
            torch.testing.assert_close(results["compiled"][name], value)
            assert not same(value, begun[name]), name


def test_gradients_of_fsdp_are_divided_by_what_the_user_says(ours: Ended) -> None:
    """Where gloo refuses."""
    for results in ours.of("training.divided"):
        for name, gradient in results["3"].items():
            torch.testing.assert_close(gradient * 3, results[str(SIZE)][name] * SIZE)


@pytest.mark.parametrize("scenario", BUILT_ON)
def test_gives_what_gloo_gives(ours: Ended, gloo: Ended, scenario: str) -> None:
    """Tensors spread over ranks, functional and differentiable collectives, large objects."""
    wanted = [dict(results) for results in gloo.of(scenario)]
    for results in wanted:
        if "backends" in results:
            results["backends"] = ["unisono", "unisono"]
    assert_same_on_all(ours.of(scenario), wanted)


def test_a_tensor_is_whole_again_after_having_been_spread(ours: Ended) -> None:
    for results in ours.of("tensors.spread"):
        pairs = {name: pair for name, pair in results.items() if name.endswith(" full")}
        assert len(pairs) == 11
        for name, (found, whole) in pairs.items():
            assert same(found, whole), name


def test_compiled_collectives_give_what_eager_ones_give(ours: Ended) -> None:
    for results in ours.of("tensors.functions"):
        assert len(results["eager"]) > 9 and same(results["compiled"], results["eager"])
