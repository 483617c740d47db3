"""Backends of C++ as objects: the fake one, and the one in which ranks compare their calls."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import unisono.distributed as ours
from unisono.distributed._native_backends import NativeBackend
from unisono.testing import local_world

np = pytest.importorskip("numpy")


def test_a_fake_group_pretends_to_be_one_of_many() -> None:
    fake = ours.FakeProcessGroup._create_internal(1, 4)
    outputs = [np.zeros(2) for _ in range(4)]

    fake.allgather([outputs], [np.full(2, 5.0)]).wait()

    assert (fake.rank(), fake.size(), fake.name()) == (1, 4, "fake")
    assert [output.tolist() for output in outputs] == [[5, 5]] * 4
    assert isinstance(fake, ours._Backend)
    with pytest.raises(ours.UsageError, match=r"rank \(4\) >= world_size \(4\)"):
        ours.FakeProcessGroup._create_internal(4, 4)


def test_a_fake_group_fails_on_demand() -> None:
    options = ours.FakeProcessGroup.Options()
    options.error_on_collective = True
    fake = ours.FakeProcessGroup._create_internal(0, 2, options)

    with pytest.raises(ours.DistError, match="error_on_collective=true"):
        fake.allreduce([np.zeros(1)])
    fake.send([np.zeros(1)], 1, 0).wait()
    assert fake.options is options


def test_a_fake_group_is_the_backend_of_a_process_group() -> None:
    group = ours.ProcessGroup(ours.HashStore(), 0, 2)
    group._register_backend("cpu", group.BackendType.CUSTOM, ours.FakeProcessGroup(0, 2))
    output = np.zeros(4)

    ours.all_gather_single(output, np.ones(2), group=group)

    assert output.tolist() == [1] * 4
    with pytest.raises(ours.UsageError, match="rank 1 of 2 is not for rank 0 of 2"):
        group._register_backend("cpu", group.BackendType.CUSTOM, ours.FakeProcessGroup(1, 2))
    with pytest.raises(TypeError, match="backend must be a _Backend, not int"):
        group._register_backend("cpu", group.BackendType.CUSTOM, 3)  # type: ignore[arg-type]


def test_ranks_compare_calls_before_they_begin() -> None:
    def run(world: Any) -> Any:
        inner = NativeBackend(world, "unisono")
        checked = ours._ProcessGroupWrapper(inner)
        values = np.ones(3)
        checked.allreduce([values]).wait()
        with pytest.raises(ours.MismatchError) as caught:
            checked.allreduce([np.ones(3 + world.rank)])
        assert checked.wrapped_pg is inner
        return checked.name(), values.tolist(), str(caught.value)

    with local_world(2) as worlds:
        (name, values, text), other = worlds.run(run)

    assert (name, values) == ("unisono", [2, 2, 2])
    assert "Tensor shapes: [3] vs [4]" in text
    assert "Rank 1 is running collective" in other[2]


def test_calls_of_a_backend_in_python_are_compared_at_the_store() -> None:
    class Nothing(ours._Backend):
        def allreduce(self, tensors: list[Any], opts: Any) -> Any:
            tensors[0] += 1

    class AtStore:
        _store = ours.HashStore()

    def run(rank: int) -> Any:
        checked = ours._ProcessGroupWrapper(Nothing(rank, 2), AtStore())
        values = np.ones(3)
        checked.allreduce([values]).wait()
        with pytest.raises(ours.MismatchError):
            checked.allreduce([np.ones(3 + rank)])
        return values.tolist()

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, range(2))) == [[2, 2, 2]] * 2
