"""Training where some ranks have more inputs than others: unisono.DataParallel.join()."""

from __future__ import annotations

from typing import Any

import pytest

import unisono
from tests.python.test_data_parallel import everywhere

np = pytest.importorskip("numpy")


def train(world: unisono.Group, steps: list[int], **options: Any) -> tuple[list[float], Any]:
    """What the weights are after so many steps of each rank, and the averages that it has seen."""
    weights = np.zeros(4, "float32")
    model = unisono.DataParallel({"weights": weights}, world)
    seen: list[float] = []
    with model.join(**options):
        for step in range(steps[world.rank]):
            with model.step():
                model.ready("weights", np.full(4, 1.0 + world.rank + 10 * step, "float32"))
            seen.append(float(model.grad("weights")[0]))
            weights -= model.grad("weights")
    return seen, weights.tolist()


@pytest.mark.parametrize(
    ("by_all", "averages"), [(True, [1.5, 5.5, 10.5]), (False, [1.5, 11.0, 21.0])]
)
def test_who_has_no_more_inputs_gives_zeros(by_all: bool, averages: list[float]) -> None:
    longest, shortest = everywhere(
        lambda world: train(world, [3, 1], divide_by_initial_world_size=by_all)
    )

    assert longest[0] == averages
    assert shortest[0] == averages[:1]
    assert longest[1] == shortest[1] == [-sum(averages)] * 4, "all end with the same parameters"


@pytest.mark.parametrize("steps", [[0, 2, 5], [4, 4, 4], [0, 0, 0], [1, 0, 3]])
def test_any_numbers_of_inputs_end_with_the_same_parameters(steps: list[int]) -> None:
    ends = [weights for _, weights in everywhere(lambda world: train(world, steps), size=3)]

    assert ends[0] == ends[1] == ends[2]


def test_one_epoch_may_follow_another_and_is_noted() -> None:
    def epochs(world: unisono.Group) -> Any:
        weights = np.zeros(4, "float32")
        model = unisono.DataParallel({"weights": weights}, world)
        for _ in range(2):
            with model.join():
                for _ in range(2 + world.rank):
                    with model.step():
                        model.ready("weights", np.ones(4, "float32"))
                    weights -= model.grad("weights")
        with model.step():
            model.ready("weights", np.ones(4, "float32"))
        return weights.tolist(), model.logging_data()

    (first, data), (second, _) = everywhere(epochs)
    assert first == second
    assert data["join_uneven_inputs"] == 1
    assert data["world_size"] == 2
    assert int(data["avg_backward_comm_time"]) > 0


def test_where_that_is_asked_for_all_are_told_of_the_first_without_inputs() -> None:
    def refused(world: unisono.Group) -> str:
        with pytest.raises(unisono.DistError, match="exhausted") as told:
            train(world, [1, 3], throw_on_early_termination=True)
        return str(told.value)

    first, other = everywhere(refused)
    assert "Rank 0 exhausted all inputs" in first
    assert "rank 0" in other


def test_a_join_inside_another_is_refused() -> None:
    def nested(world: unisono.Group) -> bool:
        model = unisono.DataParallel([np.zeros(2, "float32")], world)
        with model.join(), pytest.raises(unisono.UsageError, match="inside another"), model.join():
            pass
        return True

    assert everywhere(nested) == [True, True]


def test_an_error_of_the_body_is_told_as_it_is() -> None:
    def broken(world: unisono.Group) -> bool:
        model = unisono.DataParallel([np.zeros(2, "float32")], world)
        with pytest.raises(ZeroDivisionError), model.join():
            raise ZeroDivisionError
        return True

    assert everywhere(broken) == [True, True]
