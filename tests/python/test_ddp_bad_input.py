"""What a data-parallel program can get wrong: each is told in a sentence, and nobody hangs.

SHOWN says which tests show it, here and elsewhere; that there are such tests is a test, too.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unisono
import unisono.distributed as dist
from tests.python.test_reducer import everywhere as with_groups
from unisono.distributed._state import ProcessGroup
from unisono.testing import local_world

np = pytest.importorskip("numpy")

TESTS = Path(__file__).resolve().parents[1]

# By mistake, the files and in each the names of tests; of tests in C++, without that of the suite.
SHOWN: dict[str, dict[str, str]] = {
    "parameters that differ between ranks": {
        "ddp/params_test.cpp": """TellsAllRanksWhoHasAnotherNumberOfThem
            TellsAllRanksWhichParameterDiffersInWhat BlamesTheFew""",
        "python/test_ddp_bad_input.py": "test_parameters_that_differ_are_named_on_all_ranks",
    },
    "a gradient that is ready twice": {
        "ddp/step_errors_test.cpp": "AGradientThatComesTwiceIsNamed",
        "ddp/unused_test.cpp": "WhatWasSaidToBeUnusedCannotBeReady AStepThatDiffersIsTold",
        "python/test_data_parallel.py": "test_a_gradient_that_is_marked_twice_is_left_as_it_was",
        "python/test_ddp_bad_input.py": "test_a_gradient_that_is_ready_twice_is_named",
    },
    "a gradient that is never ready": {
        "ddp/step_errors_test.cpp": """AGradientThatNeverCameIsNamedOnAllRanks
            WhatAllRanksMissEachOfThemNames AStepThatWasNotFinishedIsToldWhenTheNextBegins""",
        "python/test_data_parallel.py": "test_a_missing_gradient_is_named_on_all_ranks",
    },
    "a hook that returns the wrong size": {
        "ddp/comm_hook_test.cpp": "AWrongSizeOrTypeIsToldAndTheRanksStayInStep",
        "python/test_comm_hooks.py": """test_a_value_that_does_not_fit_is_refused
            test_an_answer_that_is_none_is_refused""",
        "python/test_ddp_bad_input.py": "test_a_hook_of_one_rank_that_gives_too_little_is_named",
    },
    "a hook that raises": {
        "ddp/comm_hook_test.cpp": """AHookThatThrowsEndsTheStepOnAllRanks
            AfterAHookThrewAReducerGoesOnWithANewGroup AFutureThatFailsFailsTheStep""",
        "python/test_comm_hooks.py": """test_what_a_future_fails_with_names_the_bucket
            test_what_a_hook_raises_ends_the_step_on_all_ranks_and_names_the_bucket""",
    },
    "a hook that never completes": {
        "ddp/comm_hook_test.cpp": "AFutureThatNobodyCompletesIsNotWaitedForForever",
        "python/test_comm_hooks.py": "test_a_future_that_nobody_can_complete_is_no_wait",
        "python/test_ddp_bad_input.py": "test_a_hook_that_never_completes_is_named_with_its_rank",
    },
    "a bucket larger than memory": {
        "ddp/step_errors_test.cpp": "ABucketLargerThanMemoryIsTold",
    },
    "a Logger that is set twice": {
        "ddp/logger_test.cpp": "CanBeSetOnlyOnce",
        "python/test_logger.py": "test_a_second_logger_is_refused",
    },
    "missing names": {
        "python/test_ddp_bad_input.py": """test_parameters_without_names_are_called_by_number
            test_a_name_that_is_none_is_refused test_who_gave_no_names_cannot_use_them""",
    },
    "an unknown name of a group": {
        "group/group_registry_test.cpp": "FindsGroupsByName",
        "group/functional_test.cpp": "AGroupIsFoundByItsName",
        "python/test_functional.py": """test_a_group_is_found_by_its_name_until_it_is_destroyed
            test_a_mistake_is_told_in_a_sentence""",
    },
    "waiting for a tensor that has no work": {
        "group/work_registry_test.cpp": "ATensorThatNothingWritesToIsNotWaitedFor",
        "python/test_functional.py": "test_an_array_that_nothing_writes_to_is_not_waited_for",
    },
    "control collectives with too few ranks": {
        "control/store_collectives_test.cpp": """WhoHasNotComeIsNamed WhoReceivesInVainIsToldTheKey
            FindsFewMissingRanksAmongManyAndNamesAll""",
        "control/control_processes_test.cpp": "ARankThatDiedOnTheWayIsNamed",
        "python/test_control.py": """test_who_has_not_come_is_named
            test_receiving_in_vain_is_an_error_of_the_store""",
    },
    "control collectives whose store vanishes": {
        "control/store_collectives_test.cpp": "AStoreThatIsDestroyedEndsWaits",
        "control/control_processes_test.cpp": """AServerThatIsKilledEndsEveryWaitAtOnce
            AServerThatDoesNotAnswerHoldsNobodyBeyondTheTimeout""",
    },
    "a rank that dies, raises, or never calls": {
        "ddp/step_errors_test.cpp": "ARankThatDiesInAStepIsNamedToTheOthers",
        "python/test_ddp_failures.py": """test_a_rank_that_is_killed_is_named_to_the_others
            test_a_rank_that_raises_is_named_to_the_others
            test_a_rank_that_never_calls_is_named_when_the_time_is_over
            test_ctrl_c_that_nobody_catches_ends_the_rank_and_is_told_to_the_others""",
    },
}


@pytest.mark.parametrize("mistake", SHOWN)
def test_every_mistake_is_shown_by_tests(mistake: str) -> None:
    for file, names in SHOWN[mistake].items():
        text = (TESTS / file).read_text()
        for name in names.split():
            pattern = rf"\bdef {name}\b|\bTEST(_P|_F)?\(\w+,\s*{name}\)"
            assert re.search(pattern, text), f"{file} has no {name}"


def everywhere(function: Callable[[unisono.Group], Any], size: int = 2) -> list[Any]:
    with local_world(size) as worlds:
        return worlds.run(function)


DIFFERENT: dict[str, Callable[[int], dict[str, Any]]] = {
    "rank 1 has inconsistent 1 params": lambda rank: {
        name: np.zeros(2) for name in ("a" if rank == 1 else "ab")
    },
    r"b \(parameter 1\)": lambda rank: {
        "a": np.zeros(2),
        "b": np.zeros(2, "float32" if rank == 1 else "float64"),
    },
    "other": lambda rank: {"a": np.zeros(2), "other" if rank == 1 else "b": np.zeros(2)},
    r"b \(parameter 1\) .*rank 1": lambda rank: {
        "a": np.zeros(2),
        "b": np.zeros((2, 3)) if rank != 1 else np.zeros((3, 2)).T,
    },
}


@pytest.mark.parametrize("text", DIFFERENT)
def test_parameters_that_differ_are_named_on_all_ranks(text: str) -> None:
    def train(world: unisono.Group) -> Any:
        with pytest.raises(unisono.MismatchError, match=text) as caught:
            unisono.DataParallel(DIFFERENT[text](world.rank), world)
        return caught.value.culprits

    assert everywhere(train, size=3) == [(1,)] * 3


def test_a_gradient_that_is_ready_twice_is_named() -> None:
    def train(world: unisono.Group) -> tuple[str, Any]:
        model = unisono.DataParallel({"weights": np.zeros(2), "bias": np.zeros(1)}, world)
        model.begin()
        model.ready("bias", [1.0])
        with pytest.raises(unisono.UsageError) as caught:
            model.ready("bias", [2.0])
        model.ready("weights", [1.0, 2.0])
        model.finish()  # nothing has happened
        return str(caught.value), caught.value.culprits

    for rank, (text, culprits) in enumerate(everywhere(train)):
        assert "index 1 with name bias has been marked as ready twice" in text
        assert culprits == (rank,)


def test_a_hook_of_one_rank_that_gives_too_little_is_named() -> None:
    """The others, whose part of the operation was in order, go on; and so does it."""
    is_wrong = threading.Event()
    is_wrong.set()

    def train(world: unisono.Group) -> str:
        def reduce(bucket: dist.GradBucket) -> Any:
            done = world.all_reduce(bucket.buffer(), "avg", async_op=True).get_future()
            cut = world.rank == 1 and is_wrong.is_set()
            return done.then(lambda done: done.value()[:1] if cut else done.value())

        model = unisono.DataParallel([np.zeros(3, "float32")], world, hook=reduce)
        text = ""
        try:
            with model.step():
                model.ready(0, np.ones(3))
        except unisono.UsageError as error:
            text = str(error)
            assert error.culprits == (1,)
            is_wrong.clear()
            model.zero_grad()  # what it has written was not reduced, and would be added to
        with model.step():
            model.ready(0, np.full(3, 1.0 + world.rank))
        assert model.grad(0).tolist() == [1.5] * 3
        return text

    first, second = everywhere(train)
    assert first == ""
    assert "gave float32[1] for bucket 0, which is float32[3]" in second


def test_a_hook_that_never_completes_is_named_with_its_rank() -> None:
    kept: list[unisono.Future] = []

    def forget(_: dist.GradBucket) -> unisono.Future:
        kept.append(unisono.Future())  # somebody could complete it
        return kept[-1]

    with local_world(1, timeout=0.2) as worlds:
        model = unisono.DataParallel({"weights": np.zeros(3)}, worlds[0], hook=forget)
        with pytest.raises(unisono.DistTimeoutError) as caught, model.step():
            model.ready("weights", np.ones(3))
    assert "has not completed bucket 0 within" in str(caught.value)
    assert caught.value.culprits == (0,)


def test_parameters_without_names_are_called_by_number() -> None:
    def train(world: unisono.Group) -> str:
        model = unisono.DataParallel([np.zeros(2), np.zeros(1)], world)
        with pytest.raises(unisono.DistError) as caught, model.step():
            model.ready(0, [1.0, 2.0])
        world._leave()
        return str(caught.value)

    for text in everywhere(train):
        assert re.search(r"did not receive grad for rank [01]: parameter 1\.", text), text

    def reduce(group: ProcessGroup) -> str:
        reducer = dist.Reducer(
            [np.zeros(2), np.zeros(2), np.zeros(2)],
            [[0, 1, 2]],
            [1 << 20],
            group,
            param_to_name_mapping={1: "named"},
        )
        reducer.prepare_for_backward([])
        reducer._autograd_hook(0)
        with pytest.raises(dist.UsageError) as caught:
            reducer.finish()
        return str(caught.value)

    (text,) = with_groups(reduce, size=1)
    assert "did not receive grad for rank 0: named, parameter 2." in text


def test_a_name_that_is_none_is_refused() -> None:
    def make(group: ProcessGroup) -> None:
        with pytest.raises(TypeError, match="the name of a parameter"):
            dist.Reducer(
                [np.zeros(2)],
                [[0]],
                [1 << 20],
                group,
                param_to_name_mapping={0: 5},  # type: ignore[dict-item]
            )
        with pytest.raises(TypeError, match="the name of a parameter"):
            unisono.DataParallel({5: np.zeros(2)}, group._group)  # type: ignore[dict-item]

    with_groups(make, size=1)


def test_who_gave_no_names_cannot_use_them() -> None:
    with local_world(1) as worlds:
        model = unisono.DataParallel([np.zeros(2)], worlds[0])
        with pytest.raises(unisono.UsageError, match=r"'weights'.*not given by name"):
            model.grad("weights")
