"""One FileStore file, used by our and PyTorch's processes at the same time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.conftest import LIBRARIES, OTHER, World
from tests.interop.driver import DistStoreError, Store, later

BINARY = bytes(range(256)) * 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(params=LIBRARIES)
def pair(request: pytest.FixtureRequest, world: World, path: Path) -> tuple[Store, Store]:
    """Two stores on one file; the first made the file, the second is of the other library."""
    library: str = request.param
    first = world.peer(library).file(path)
    return first, world.peer(OTHER[library]).file(path)


def records(path: Path) -> list[tuple[bytes, bytes]]:
    """The keys and values in the file, in the order in which they were written."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        parts = []
        for _ in range(2):
            (size,) = struct.unpack_from("<I", data, at)
            parts.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        found.append((parts[0], parts[1]))
    assert at == len(data)
    return found


WRITES: dict[str, tuple[Callable[[Store], object], bytes]] = {
    "set": (lambda store: store.set("k", BINARY), BINARY),
    "empty": (lambda store: store.set("k", ""), b""),
    "compare_set": (lambda store: store.compare_set("k", "", "new"), b"new"),
    "add": (lambda store: store.add("k", -5), b"-5"),
    "append": (lambda store: store.append("k", "end"), b"end"),
    "multi_set": (lambda store: store.multi_set(["a", "k", "b"], ["1", "2", "3"]), b"2"),
    "large": (lambda store: store.set("k", bytes(1_000_000)), bytes(1_000_000)),
}


@pytest.mark.parametrize("write", WRITES)
def test_what_one_writes_the_other_reads(pair: tuple[Store, Store], write: str) -> None:
    operation, expected = WRITES[write]
    for writer, reader in (pair, pair[::-1]):
        operation(writer)

        assert reader.check(["k"])
        assert reader.get("k") == expected
        assert reader.multi_get(["k", "k"]) == [expected, expected]
        assert reader.delete_key("k")
        assert not writer.check(["k"])


def test_a_change_builds_on_the_others(pair: tuple[Store, Store]) -> None:
    first, second = pair

    first.set("k", "a")
    second.append("k", "b")
    first.append("k", "c")
    assert second.compare_set("k", "abc", "done") == b"done"
    assert first.compare_set("k", "abc", "late") == b"done"

    assert [first.add("n", 2), second.add("n", 3), first.add("n", -10)] == [2, 5, -5]
    assert second.get("n") == b"-5"


def test_keys_are_any_bytes(pair: tuple[Store, Store]) -> None:
    first, second = pair

    for key in (b"", b"-k", b"/", b"refcount/", b"unisono1/open", BINARY):
        first.set(key, b"of " + key)
        assert second.get(key) == b"of " + key
        assert second.delete_key(key)
        assert not first.check([key])


@pytest.mark.parametrize("waiter", LIBRARIES)
def test_a_wait_ends_when_the_other_writes(world: World, path: Path, waiter: str) -> None:
    store = world.peer(waiter).file(path)
    other = world.peer(OTHER[waiter]).file(path)
    values = later(store.multi_get, ["a", "b"])

    other.set("b", "2")
    other.add("a", 1)

    assert values.result() == [b"1", b"2"]


def test_sums_of_many_processes_are_one_sum(world: World, path: Path) -> None:
    stores = [world.peer(library).file(path) for library in LIBRARIES for _ in range(2)]

    def count(store: Store) -> None:
        for _ in range(100):
            store.add("n", 1)

    for each in [later(count, store) for store in stores]:
        each.result()

    assert [store.add("n", 0) for store in stores] == [400] * 4


def test_appends_of_ours_are_never_lost(world: World, path: Path) -> None:
    stores = [world.peer("unisono").file(path) for _ in range(2)]
    theirs = world.peer("torch").file(path)

    def append(store: Store) -> None:
        for _ in range(50):
            store.append("log", "x")

    for each in [later(append, store) for store in stores]:
        each.result()

    assert theirs.get("log") == b"x" * 100


def test_both_count_the_same_keys(world: World, path: Path) -> None:
    ours, theirs = world.peer("unisono").file(path), world.peer("torch").file(path)
    assert (ours.num_keys(), theirs.num_keys()) == (1, 1)  # refcount/

    ours.multi_set(["a", "b"], ["1", "2"])
    theirs.set("c", "3")
    ours.delete_key("b")
    assert (ours.num_keys(), theirs.num_keys()) == (3, 3)
    assert sorted(ours.list_keys()) == ["a", "c"]

    ours.clone().destroy()
    assert (ours.num_keys(), theirs.num_keys()) == (4, 4)  # cleanup/


def test_our_own_records_are_deletions_to_torch(world: World, path: Path) -> None:
    ours = world.peer("unisono").file(path)
    ours.multi_set(["a", "b"], ["1", "2"])
    theirs = world.peer("torch").file(path)

    private = {key for key, _ in records(path) if key.startswith(b"-unisono1")}
    assert private, "nothing in this file is only for us; then this test is about nothing"

    # PyTorch replays "-x" as the deletion of "x", which no user can have set: theirs begin with /.
    assert theirs.multi_get(["a", "b"]) == [b"1", b"2"]
    assert theirs.num_keys() == 3
    assert not [key for key in theirs.list_keys() if "unisono" in key]


@pytest.mark.parametrize("leaver", LIBRARIES)
def test_the_last_one_to_leave_removes_the_file(world: World, path: Path, leaver: str) -> None:
    first = world.peer(leaver).file(path, world_size=2)
    last = world.peer(OTHER[leaver]).file(path, world_size=2)
    first.set("k", "v")

    first.destroy()
    assert path.exists()
    assert last.get("k") == b"v"
    last.destroy()

    assert not path.exists()


@pytest.mark.parametrize("leaver", LIBRARIES)
def test_the_file_stays_for_those_who_come_later(world: World, path: Path, leaver: str) -> None:
    early = world.peer(leaver).file(path, world_size=3)
    early.set("k", "v")
    world.peer(OTHER[leaver]).file(path, world_size=3).destroy()
    assert path.exists()

    late = world.peer(OTHER[leaver]).file(path, world_size=3)
    early.destroy()
    assert path.exists(), "one of three has not left yet"
    assert late.get("k") == b"v"
    late.destroy()

    assert not path.exists()


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_a_world_size_the_file_stays(world: World, path: Path, library: str) -> None:
    world.peer(library).file(path).destroy()
    world.peer(OTHER[library]).file(path).destroy()

    assert path.exists()
    last = {key: value for key, value in records(path) if not key.startswith(b"-")}
    assert last == {b"refcount/": b"0", b"cleanup/": b"2"}


def test_a_barrier_joins_both(world: World, path: Path) -> None:
    stores = [world.peer(library).file(path) for library in LIBRARIES for _ in range(2)]

    for each in [later(store.barrier, "b", 4) for store in stores]:
        each.result()


def test_prefixes_nest_alike(pair: tuple[Store, Store]) -> None:
    first, second = (store.prefixed("job").prefixed("7") for store in pair)

    first.set("k", "v")

    assert second.get("k") == b"v"
    assert pair[1].get("job/7/k") == b"v"


def test_a_killed_process_of_ours_does_not_cost_torch_its_file(world: World, path: Path) -> None:
    victim = world.peer("unisono").file(path, world_size=2)
    theirs = world.peer("torch").file(path, world_size=2)
    theirs.set("k", "v")
    victim.peer.kill()

    newcomer = world.peer("unisono").file(path, world_size=2)

    assert newcomer.get("k") == b"v"
    assert theirs.add("n", 1) == 1


def test_what_a_killed_torch_writer_left_unfinished_is_cut_off(world: World, path: Path) -> None:
    ours = world.peer("unisono").file(path)
    theirs = world.peer("torch").file(path)
    theirs.set("k", "v")
    theirs.peer.kill()
    with path.open("ab") as file:  # PyTorch writes a record in four pieces; this is one and a half
        file.write(struct.pack("<I", 5) + b"/wor")

    assert ours.get("k") == b"v"
    assert ours.add("n", 1) == 1

    assert world.peer("torch").file(path).multi_get(["k", "n"]) == [b"v", b"1"]


def test_torch_writes_what_we_would_not_and_we_read_it(world: World, path: Path) -> None:
    ours, theirs = world.peer("unisono").file(path), world.peer("torch").file(path)
    long_key, large = "k" * 20_000, bytes(9 * 1024 * 1024)

    theirs.set(long_key, "v")
    theirs.set("large", large)

    assert ours.get(long_key) == b"v"
    assert ours.get("large") == large
    with pytest.raises(DistStoreError, match="too long"):
        ours.set(long_key, "v")
