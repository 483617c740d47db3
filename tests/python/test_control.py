"""Control collectives: as torch's, and together with torch's over one store."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import unisono.distributed as ours
from tests.python.conftest import PATIENCE
from tests.signals import CTRL_C_BOUND, signal_inside

WORLD = 4
LONG = timedelta(seconds=PATIENCE)
MOMENT = timedelta(milliseconds=30)

Body = Callable[[Any, int], object]


def on_ranks(ranks: list[Any], body: Body) -> list[Any]:
    """What `body` gives on each rank; all of them run at once."""
    with ThreadPoolExecutor(len(ranks)) as pool:
        return [f.result() for f in [pool.submit(body, r, i) for i, r in enumerate(ranks)]]


@pytest.fixture
def ranks(dist: Any, store: Any) -> list[Any]:
    """Each with a client of its own: threads on one of torch's wait for each other."""
    return [dist._StoreCollectives(store.clone(), rank, WORLD) for rank in range(WORLD)]


@pytest.fixture(params=["tcp", "hash", "prefix-tcp"])
def patient(request: pytest.FixtureRequest, make: Callable[[str], Any]) -> Any:
    """For calls that give up: torch's FileStore takes a second more, and speaks otherwise."""
    return make(request.param)


@pytest.fixture
def waiting(dist: Any, patient: Any) -> list[Any]:
    return [dist._StoreCollectives(patient.clone(), rank, WORLD) for rank in range(WORLD)]


def everything(one: Any, rank: int) -> tuple[Any, ...]:
    """Every collective once, with str and bytes, by position and by name."""
    one.barrier("barrier", LONG)
    one.barrier(key="announced", timeout=LONG, block=rank != 0)
    if rank == 1:
        one.broadcast_send("broadcast", b"\x00\xff", LONG)
        heard = b"\x00\xff"
        gathered = one.gather_recv(key="gather", data="own", timeout=LONG)
        part = one.scatter_send("scatter", ["to 0", b"to 1", "to 2", b"\x03"], LONG)
    else:
        heard = one.broadcast_recv("broadcast", timeout=LONG)
        one.gather_send("gather", data=f"from {rank}", timeout=LONG)
        gathered = None
        part = one.scatter_recv(key="scatter", timeout=LONG)
    everyone = one.all_gather("all_gather", str(rank), LONG)
    return heard, gathered, part, everyone, one.all_sum("sum", data=rank - 5, timeout=LONG)


def expected(rank: int) -> tuple[Any, ...]:
    gathered = [b"from 0", b"own", b"from 2", b"from 3"] if rank == 1 else None
    parts = [b"to 0", b"to 1", b"to 2", b"\x03"]
    return b"\x00\xff", gathered, parts[rank], [b"0", b"1", b"2", b"3"], -14


def test_every_collective_gives_what_it_should(ranks: list[Any]) -> None:
    assert on_ranks(ranks, everything) == [expected(rank) for rank in range(WORLD)]


def test_who_has_not_come_is_named(waiting: list[Any]) -> None:
    waiting[2].barrier("barrier", MOMENT, False)
    waiting[3].gather_send("gather", "x")

    with pytest.raises(RuntimeError, match=r"barrier failed -- missing ranks: 0, 3, [Ww]ait timeo"):
        waiting[1].barrier("barrier", MOMENT)
    with pytest.raises(RuntimeError, match="gather failed -- missing ranks: 0, 2, "):
        waiting[1].gather_recv("gather", "x", MOMENT)
    with pytest.raises(RuntimeError, match="all_gather failed -- missing ranks: 0, 2, 3, "):
        waiting[1].all_gather("all_gather", "x", MOMENT)
    with pytest.raises(RuntimeError, match="barrier failed -- missing ranks: 0, 2, 3, "):
        waiting[1].all_sum("sum", 1, MOMENT)


def test_receiving_in_vain_is_an_error_of_the_store(dist: Any, waiting: list[Any]) -> None:
    with pytest.raises(dist.DistStoreError, match=r"(?i)wait timeout"):
        waiting[1].broadcast_recv("broadcast", MOMENT)
    with pytest.raises(dist.DistStoreError, match=r"(?i)wait timeout"):
        waiting[1].scatter_recv("scatter", MOMENT)


def test_a_key_serves_once_even_if_it_failed(waiting: list[Any]) -> None:
    with pytest.raises(RuntimeError):
        waiting[0].broadcast_recv("k", MOMENT)
    calls: list[Callable[[], object]] = [
        partial(waiting[0].barrier, "k"),
        partial(waiting[0].broadcast_send, "k", "x"),
        partial(waiting[0].broadcast_recv, "k"),
        partial(waiting[0].gather_send, "k", "x"),
        partial(waiting[0].gather_recv, "k", "x"),
        partial(waiting[0].scatter_send, "k", ["x"] * WORLD),
        partial(waiting[0].scatter_recv, "k"),
        partial(waiting[0].all_gather, "k", "x"),
        partial(waiting[0].all_sum, "k", 1),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="Key k has already been used"):
            call()


def test_the_timeout_of_the_store_stays(dist: Any, patient: Any) -> None:
    patient.set_timeout(timedelta(seconds=77))
    one = dist._StoreCollectives(patient, 0, WORLD)

    with pytest.raises(RuntimeError):
        one.barrier("b", MOMENT)
    one.broadcast_send("k", "x", LONG)

    assert patient.timeout == timedelta(seconds=77)


def test_a_base_object_is_made_by_nobody(dist: Any) -> None:
    with pytest.raises(TypeError):
        dist._ControlCollectives()
    assert issubclass(dist._StoreCollectives, dist._ControlCollectives)


def test_both_have_the_same_signatures() -> None:
    torch_dist = pytest.importorskip("torch.distributed")

    def parameters(method: Any) -> list[tuple[str, str]]:
        """Names and defaults, from the first line of the help."""
        (inside,) = re.findall(r"^\w+\(self[^,]*, (.*)\) -> ", method.__doc__.splitlines()[0])
        return re.findall(r"(\w+): [^=]*?(?:= ([\w.]+(?:\([^)]*\))?))?(?:, (?=\w+: )|$)", inside)

    theirs = {
        name: member
        for name, member in vars(torch_dist._ControlCollectives).items()
        if not name.startswith("_")
    }
    assert len(theirs) == 9
    for name, method in theirs.items():
        assert parameters(getattr(ours._ControlCollectives, name)) == parameters(method), name
    assert parameters(ours._StoreCollectives.__init__) == parameters(
        torch_dist._StoreCollectives.__init__
    )


@pytest.mark.parametrize("server", ["unisono", "torch"])
def test_ranks_of_both_meet_over_one_server(server: str) -> None:
    torch_dist = pytest.importorskip("torch.distributed")
    libraries = {"unisono": ours, "torch": torch_dist}
    owner = libraries[server].TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks = []
    for rank in range(WORLD):
        library = libraries["unisono" if rank % 2 == 0 else "torch"]
        client = library.TCPStore("127.0.0.1", owner.port, wait_for_workers=False)
        ranks.append(library._StoreCollectives(client, rank, WORLD))

    assert on_ranks(ranks, everything) == [expected(rank) for rank in range(WORLD)]

    ranks[3].barrier("of torch", MOMENT, False)
    with pytest.raises(RuntimeError, match="barrier failed -- missing ranks: 0, 1, "):
        ranks[2].barrier("of torch", MOMENT)
    ranks[0].barrier("of ours", MOMENT, False)
    with pytest.raises(RuntimeError, match="barrier failed -- missing ranks: 2, 3, "):
        ranks[1].barrier("of ours", MOMENT)


def test_errors_say_who_in_fields_too() -> None:
    one = ours._StoreCollectives(ours.HashStore(), 1, 3)

    with pytest.raises(ours.DistStoreError) as caught:
        one.barrier("b", MOMENT)

    error = caught.value
    assert (error.reason, error.culprits, error.rank, error.world) == ("TIMEOUT", (0, 2), 1, 3)
    assert (error.op, error.elapsed_ms) == ("barrier", 30)


def test_wrong_arguments_are_refused() -> None:
    store = ours.HashStore()
    one = ours._StoreCollectives(store, 0, 3)

    with pytest.raises(ours.UsageError, match="one value for each of the 3 ranks, but got 2"):
        one.scatter_send("k", ["a", "b"])
    with pytest.raises(ours.UsageError, match="rank 3 is not one of the 3 ranks"):
        ours._StoreCollectives(store, 3, 3)
    with pytest.raises(ours.UsageError, match="world size is 0"):
        ours._StoreCollectives(store, 0, 0)
    with pytest.raises(TypeError, match="store must be a Store, not str"):
        ours._StoreCollectives("store", 0, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="data must be"):
        one.all_gather("k", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout must be"):
        one.barrier("k", 1)
    with pytest.raises(ours.UsageError, match="must not be negative"):
        one.barrier("k", timedelta(seconds=-1))
    assert store.list_keys() == []


def test_a_store_written_in_python_will_do() -> None:
    class Mine(ours.Store):
        def __init__(self) -> None:
            super().__init__()
            self.below = ours.HashStore()

        def set(self, key: str, value: bytes) -> None:  # type: ignore[override]
            self.below.set(key, value)

        def get(self, key: str) -> bytes:  # type: ignore[override]
            return self.below.get(key)

        def add(self, key: str, amount: int) -> int:  # type: ignore[override]
            return self.below.add(key, amount)

        def wait(self, keys: list[str], timeout: timedelta = LONG) -> None:  # type: ignore[override]
            self.below.wait(keys, timeout)

    store = Mine()
    ranks = [ours._StoreCollectives(store, rank, 2) for rank in range(2)]
    del store

    assert on_ranks(ranks, lambda one, rank: one.all_sum("n", rank + 1, LONG)) == [3, 3]


def test_ctrl_c_ends_every_wait(tmp_path: Path) -> None:
    stores = {
        "tcp": ours.TCPStore("127.0.0.1", 0, is_master=True),
        "hash": ours.HashStore(),
        "file": ours.FileStore(str(tmp_path / "f")),
    }
    for name, store in stores.items():
        one = ours._StoreCollectives(store, 0, 2)
        calls: dict[str, Callable[[], object]] = {
            "barrier": partial(one.barrier, "barrier"),
            "broadcast_recv": partial(one.broadcast_recv, "broadcast"),
            "gather_recv": partial(one.gather_recv, "gather", "x"),
            "scatter_recv": partial(one.scatter_recv, "scatter"),
            "all_gather": partial(one.all_gather, "all_gather", "x"),
            "all_sum": partial(one.all_sum, "sum", 1),
        }
        for call_name, call in calls.items():
            with signal_inside() as sent, pytest.raises(KeyboardInterrupt):
                call()
            assert time.monotonic() - sent[0] < CTRL_C_BOUND, (name, call_name)


def test_other_threads_run_while_one_waits() -> None:
    store = ours.HashStore()
    first, second = (ours._StoreCollectives(store, rank, 2) for rank in range(2))
    heard: list[bytes] = []
    thread = threading.Thread(target=lambda: heard.append(first.broadcast_recv("k", LONG)))
    thread.start()

    second.broadcast_send("k", "x", LONG)  # never, were the lock held by the one that waits
    thread.join()

    assert heard == [b"x"]


RANK = """
import json, sys
from datetime import timedelta
import unisono.distributed as dist

port, rank, world = map(int, sys.argv[1:])
store = dist.TCPStore("127.0.0.1", port, is_master=False)
one = dist._StoreCollectives(store, rank, world)
everyone = one.all_gather("who", f"rank {rank}", timedelta(seconds=60))
print(json.dumps([[name.decode() for name in everyone], one.all_sum("sum", rank)]))
one.barrier("end")
"""


def test_ranks_may_be_processes() -> None:
    server = ours.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(server.port), str(rank), "3"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        for process in started:
            out, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
            assert json.loads(out) == [["rank 0", "rank 1", "rank 2"], 3]
    finally:
        for process in started:
            process.kill()
            process.wait()
