"""unisono.distributed beside torch.distributed: the same names, signatures and results."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

import unisono.distributed as ours
from tests.python.conftest import PATIENCE, run_python
from tests.python.distributed_cases import CASES

np = pytest.importorskip("numpy")
torch_dist = pytest.importorskip("torch.distributed")

ROOT = Path(__file__).resolve().parents[2]
SIZE = 3

# Public names of torch.distributed that are not here, by the reason.
LEFT_OUT = {
    "which backend is for which device; there is one here": "BackendConfig",
    "for tensors on several devices": "DeviceMesh init_device_mesh device_mesh shrink_group",
    "for torch's debugger and its own log": "breakpoint log record_comm",
    "a backend of torch's own, or made without one": "ProcessGroupGloo",
    "deprecated there": "reduce_op",
    "names for type checkers": "GroupName RankType",
    "modules that torch keeps there, or has merely imported": """
        algorithms autograd c10d_logger config constants distributed_c10d logging
        logging_handlers remote_device rpc sys timedelta torch traceback typing utils
    """,
}

# Public names here that torch does not have: what its Python layer shows of them is elsewhere.
OURS = """
    AbortedError DistAuthError DistTimeoutError FakeStore MismatchError NotSupportedError
    PeerDeadError StoreValueError UsageError
"""


def public_names(module: ModuleType) -> set[str]:
    names = (name for name in dir(module) if not name.startswith("_"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: getattr(module, name) for name in names}
        modules = {name for name, value in found.items() if inspect.ismodule(value)}
    # Submodules appear when somebody imports them; only those named in the table count.
    known = {name for text in LEFT_OUT.values() for name in text.split()}
    return found.keys() - (modules - known)


def functions() -> list[str]:
    return [
        name for name in sorted(ours.__all__) if inspect.isfunction(getattr(torch_dist, name, None))
    ]


def test_every_public_name_of_torch_is_here_or_left_out_for_a_reason() -> None:
    left_out = {name for text in LEFT_OUT.values() for name in text.split()}
    theirs = public_names(torch_dist)

    assert theirs - left_out == set(ours.__all__) & theirs
    assert left_out & set(ours.__all__) == set()
    assert set(ours.__all__) - theirs == set(OURS.split())


@pytest.mark.parametrize("name", functions())
def test_a_function_takes_the_same_arguments(name: str) -> None:
    def form(module: Any) -> list[tuple[str, Any, str]]:
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        return [(each.name, each.kind, repr(each.default)) for each in parameters]

    assert form(ours) == form(torch_dist)


@pytest.mark.parametrize("name", ["P2POp", "GroupMember", "Backend", "ReduceOp"])
def test_a_class_has_the_same_constants_and_arguments(name: str) -> None:
    theirs, here = getattr(torch_dist, name), getattr(ours, name)
    for constant, value in vars(theirs).items():
        if constant.isupper() and not callable(value):
            assert str(getattr(here, constant)) == str(value), constant
    if name == "P2POp":
        mine = list(inspect.signature(here.__init__).parameters.values())
        other = list(inspect.signature(theirs.__init__).parameters.values())
        assert [(each.name, each.default) for each in mine] == [
            (each.name, each.default) for each in other
        ]


def test_a_work_has_what_programs_ask_of_torchs() -> None:
    asked = {"wait", "is_completed", "is_success", "exception", "result", "source_rank"}
    asked |= {"synchronize", "get_future", "_source_rank"}

    assert asked <= set(dir(torch_dist.Work))
    assert asked <= set(dir(ours.Work))


def run_cases(kind: str, file: Path) -> list[dict[str, Any]]:
    """What every rank of a world of that kind printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("LOCAL_RANK", None)
    ranks = [
        subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore", "-m", "tests.python.distributed_cases"),
                *(kind, str(rank), str(SIZE), str(file)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        for rank in range(SIZE)
    ]
    try:
        said = [rank.communicate(timeout=2 * PATIENCE) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * SIZE, said
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """By kind and rank, all cases; both worlds at once, as most of the time is torch's import."""
    folder = tmp_path_factory.mktemp("stores")
    found: dict[str, list[dict[str, Any]]] = {}

    def run(kind: str) -> None:
        found[kind] = run_cases(kind, folder / kind)

    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(run, kind) for kind in ("torch", "unisono")]
    for each in runs:
        each.result()
    return found


@pytest.mark.parametrize("name", [*CASES, "around"])
def test_a_program_of_torch_gives_the_same_here(
    name: str, results: dict[str, list[dict[str, Any]]]
) -> None:
    for rank in range(SIZE):
        assert results["unisono"][rank][name] == results["torch"][rank][name], f"rank {rank}"


@pytest.fixture
def alone() -> Any:
    """A world of one in this process."""
    ours.init_process_group(store=ours.HashStore(), rank=0, world_size=1)
    yield
    if ours.is_initialized():
        ours.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_every_refusal_names_its_token() -> None:
    with pytest.raises(ours.UsageError, match=r"\[USAGE\]"):
        ours.broadcast(np.zeros(1), 5)
    with pytest.raises(ours.UsageError, match=r"both group_rank and global_rank.*\[USAGE\]"):
        ours.broadcast(np.zeros(1), 0, group_src=0)


@pytest.mark.usefixtures("alone")
def test_a_premultiplied_sum_is_there() -> None:
    values = np.array([2.0, 4.0])
    make_premul_sum: Any = ours._make_nccl_premul_sum

    ours.all_reduce(values, op=make_premul_sum(0.5))

    assert values.tolist() == [1.0, 2.0]


@pytest.mark.usefixtures("alone")
def test_an_average_divides_by_the_number_of_ranks() -> None:
    values = np.array([3.0])

    ours.all_reduce(values, ours.ReduceOp.AVG)

    assert values.tolist() == [3.0]


@pytest.mark.usefixtures("alone")
def test_a_failing_callback_of_a_future_is_raised_by_what_follows_it() -> None:
    work: Any = ours.all_reduce(np.zeros(1), async_op=True)
    future = work.get_future()
    after = future.then(lambda _: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        after.wait()


@pytest.mark.usefixtures("alone")
def test_a_world_can_be_left_and_made_again_at_the_same_store() -> None:
    store = ours.HashStore()
    ours.destroy_process_group()
    for _ in range(2):
        ours.init_process_group(store=store, rank=0, world_size=1, timeout=timedelta(seconds=30))
        held: Any = ours.group.WORLD
        ours.destroy_process_group()
        with pytest.raises(ours.DistError):
            held.barrier()


@pytest.mark.parametrize("backend", ["nccl", "cuda:nccl", "xccl", "nonsense"])
def test_a_backend_that_is_not_for_the_cpu_is_refused(backend: str) -> None:
    with pytest.raises(ValueError, match=backend):
        ours.init_process_group(backend, store=ours.HashStore(), rank=0, world_size=1)
    assert not ours.is_initialized()
    assert not ours.is_backend_available(backend)


@pytest.mark.parametrize("backend", [None, "gloo", "GLOO", "mpi", "cpu:gloo,cuda:nccl", "unisono"])
def test_the_names_of_torchs_backends_for_the_cpu_mean_ours(backend: str | None) -> None:
    ours.init_process_group(backend, store=ours.HashStore(), rank=0, world_size=1)
    try:
        assert ours.get_backend() == (backend or "unisono").lower()
        values = np.ones(2)
        ours.all_reduce(values)
        assert values.tolist() == [1.0, 1.0]
    finally:
        ours.destroy_process_group()


def test_splitting_gives_each_rank_its_group() -> None:
    program = """
        import os, sys, numpy as np
        import unisono.distributed as dist

        rank, size, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
        dist.init_process_group(init_method=f"file://{file}", rank=rank, world_size=size)
        pair = dist.split_group(split_ranks=[[2, 0]])
        values = np.array([rank])
        if pair is not None:
            dist.all_reduce(values, group=pair)
            one = dist.split_group(pair, [[1], [0]])
            print(values[0], pair.rank(), dist.get_process_group_ranks(one))
        else:
            print(values[0])
        dist.destroy_process_group()
    """
    with TemporaryDirectory() as folder:
        said: dict[int, str] = {}

        def run(rank: int) -> None:
            ended = run_python(program, str(rank), "3", f"{folder}/store")
            said[rank] = ended.stdout + ended.stderr

        with ThreadPoolExecutor(SIZE) as threads:
            list(threads.map(run, range(SIZE)))

    assert said == {0: "2 0 [0]\n", 1: "1\n", 2: "2 1 [2]\n"}


def test_the_functions_are_loaded_when_they_are_asked_for() -> None:
    program = """
        import sys
        import unisono.distributed as dist
        assert "unisono.distributed._collectives" not in sys.modules
        assert "all_reduce" in dir(dist)
        from unisono.distributed import all_reduce, TCPStore
        assert all_reduce.__module__ == "unisono.distributed"
        try:
            dist.nothing
        except AttributeError as error:
            print(error)
    """
    ended = run_python(program)

    assert ended.stdout == "module 'unisono.distributed' has no attribute 'nothing'\n", ended


def test_every_name_can_be_imported() -> None:
    assert importlib.import_module("unisono.distributed") is ours
    for name in ours.__all__:
        assert getattr(ours, name) is not None
