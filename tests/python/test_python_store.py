"""Stores written in Python, used wherever a store is taken."""

from __future__ import annotations

import gc
import threading
import traceback
import weakref
from datetime import timedelta
from typing import Any

import pytest

import unisono.distributed as ours


def dict_store(dist: Any) -> type:
    """A store over a dict, with as little as torch asks for."""

    class DictStore(dist.Store):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.data: dict[str, bytes] = {}
            self.waits: list[timedelta] = []

        def set(self, key: str, value: bytes) -> None:
            assert type(value) is bytes
            self.data[key] = value

        def get(self, key: str) -> bytes:
            return self.data[key]

        def add(self, key: str, value: int) -> int:
            total = int(self.data.get(key, b"0")) + value
            self.data[key] = str(total).encode()
            return total

        def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
            if self.data.get(key, b"") == expected:
                self.data[key] = desired
            return self.data.get(key, expected)

        def check(self, keys: list[str]) -> bool:
            return all(key in self.data for key in keys)

        def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
            if timeout is not None:
                self.waits.append(timeout)
            if not self.check(keys):
                raise LookupError(f"nobody sets {keys}")

        def deleteKey(self, key: str) -> bool:  # noqa: N802 (torch's name)
            return self.data.pop(key, None) is not None

        def getNumKeys(self) -> int:  # noqa: N802 (torch's name)
            return len(self.data)

    return DictStore


@pytest.fixture
def below(dist: Any) -> Any:
    return dict_store(dist)()


def test_a_prefix_store_calls_the_python_methods(dist: Any, below: Any) -> None:
    store = dist.PrefixStore("p", below)
    store.set("k", "v")

    assert below.data == {"p/k": b"v"}
    assert store.get("k") == b"v"
    assert store.add("n", 3) == 3
    assert store.compare_set("k", "v", "w") == b"w"
    assert store.check(["k", "n"]) is True
    assert store.num_keys() == 2
    assert store.delete_key("n") is True
    assert store.underlying_store is below
    store.wait(["k"], timedelta(seconds=3))
    assert below.waits[-1] == timedelta(seconds=3)


def test_methods_under_torchs_other_names_are_called_directly_too(below: Any) -> None:
    below.set("k", b"v")

    assert below.num_keys() == 1
    assert below.delete_key("k") is True
    assert below.num_keys() == 0


def test_a_wait_without_a_timeout_is_called_without_one(dist: Any) -> None:
    class Patient(dist.Store):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.waited: list[list[str]] = []

        def wait(self, keys: list[str]) -> None:
            self.waited.append(keys)

        def get(self, key: str) -> bytes:
            return key.encode()

    below = Patient()
    store = dist.PrefixStore("a", dist.PrefixStore("b", below))
    store.wait(["k", "l"])

    assert below.waited == [["b/a/k", "b/a/l"]]
    assert store.multi_get(["k"]) == [b"b/a/k"]
    assert below.multi_get(["k"]) == [b"k"]


def test_what_the_class_does_not_define_falls_back(dist: Any, below: Any) -> None:
    store = dist.PrefixStore("p", below)
    store.multi_set(["a", "b"], ["1", "2"])
    store.append("a", "+")
    store.barrier("met", 1)
    below.barrier("here", 1, timedelta(seconds=1))

    assert store.multi_get(["a", "b"]) == [b"1+", b"2"]
    assert store.has_extended_api() is False
    assert below.data["here/last_member"] == b"1"


def test_an_exception_comes_out_as_itself(dist: Any) -> None:
    class Broken(dist.Store):  # type: ignore[misc]
        def get(self, key: str) -> bytes:
            raise KeyError(key)

    below = Broken()  # torch forgets a store that nobody else keeps
    store = dist.PrefixStore("a", dist.PrefixStore("b", below))
    with pytest.raises(KeyError) as caught:
        store.get("k")

    assert caught.value.args == ("b/a/k",)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "get"


def test_an_operation_nobody_defined_is_a_runtime_error(dist: Any) -> None:
    class Empty(dist.Store):  # type: ignore[misc]
        pass

    for store in (Empty(), dist.PrefixStore("p", Empty())):
        for name, arguments in (
            ("set", ("k", "v")),
            ("get", ("k",)),
            ("add", ("k", 1)),
            ("check", (["k"],)),
            ("wait", (["k"], 1.0)),
            ("num_keys", ()),
            ("delete_key", ("k",)),
            ("compare_set", ("k", "a", "b")),
            ("queue_push", ("q", "v")),
            ("list_keys", ()),
            ("clone", ()),
        ):
            with pytest.raises(RuntimeError):
                getattr(store, name)(*arguments)


def test_a_get_must_return_bytes(dist: Any) -> None:
    class Texts(dist.Store):  # type: ignore[misc]
        def get(self, key: str) -> str:
            return "text"

        def add(self, key: str, value: int) -> str:
            return "one"

    below = Texts()
    store = dist.PrefixStore("p", below)
    with pytest.raises(TypeError):
        store.get("k")
    if dist is ours:  # torch says RuntimeError here
        with pytest.raises(TypeError, match=r"what add\(\) returns must be an int, not str"):
            store.add("k", 1)


@pytest.mark.parametrize("values", [[], [b"1"], [b"1", b"2", b"3"]], ids=len)
def test_a_multi_get_must_return_a_value_for_each_key(values: list[bytes]) -> None:
    class Some(ours.Store):
        def multi_get(self, keys: object) -> list[bytes]:
            return values

    store = ours.PrefixStore("p", Some())
    with pytest.raises(ValueError, match=f"must be 2 values, .* but is {len(values)}"):
        store.multi_get(["a", "b"])


def test_the_python_object_lives_as_long_as_it_is_used() -> None:
    store = ours.PrefixStore("p", ours.PrefixStore("q", dict_store(ours)()))
    gc.collect()
    store.set("k", "v")

    assert store.get("k") == b"v"
    reference = weakref.ref(store._underlying_non_prefix_store)  # type: ignore[attr-defined]
    assert reference() is not None
    del store
    assert reference() is None


def test_super_reaches_the_default_and_not_itself() -> None:
    class Polite(dict_store(ours)):  # type: ignore[misc]
        def append(self, key: str, value: bytes) -> None:
            super().append(key, value)

        def multi_get(self, keys: list[str]) -> list[bytes]:
            values: list[bytes] = super().multi_get(keys)
            return values

        def barrier(self, key: str, world_size: int, timeout: Any = None) -> None:
            super().barrier(key, world_size, timeout)

        def queue_len(self, key: str) -> int:
            length: int = super().queue_len(key)
            return length

    store = ours.PrefixStore("p", Polite())
    store.append("k", "ab")
    store.append("k", "cd")
    store.barrier("met", 1)

    assert store.multi_get(["k"]) == [b"abcd"]
    with pytest.raises(NotImplementedError):
        store.queue_len("q")


def test_snake_case_names_and_queues_are_called_too() -> None:
    class Full(dict_store(ours)):  # type: ignore[misc]
        def num_keys(self) -> int:
            return 42

        def delete_key(self, key: str) -> bool:
            return key == "p/yes"

        def list_keys(self) -> list[str]:
            return ["p/a", "other"]

        def queue_push(self, key: str, value: bytes) -> None:
            self.data[key] = value

        def queue_pop(self, key: str, block: bool = True) -> bytes:
            return bytes(self.data.pop(key))

        def queue_len(self, key: str) -> int:
            return int(key in self.data)

        def clone(self) -> ours.Store:
            twin = Full()
            twin.data = self.data
            return twin

        def has_extended_api(self) -> bool:
            return True

    store = ours.PrefixStore("p", Full())
    store.queue_push("q", "v")

    assert store.num_keys() == 42
    assert store.delete_key("yes")
    assert not store.delete_key("no")
    assert store.list_keys() == ["a"]
    assert store.queue_len("q") == 1
    assert store.queue_pop("q", False) == b"v"
    assert store.has_extended_api()
    twin = store.clone()
    twin.set("k", "v")
    assert store.get("k") == b"v"
    assert isinstance(twin.underlying_store, Full)  # type: ignore[attr-defined]


def test_the_timeout_is_shared_with_the_python_object() -> None:
    below = dict_store(ours)()
    store = ours.PrefixStore("p", below)
    store.set_timeout(timedelta(seconds=7))

    assert below.timeout == timedelta(seconds=7)
    store.barrier("met", 1)
    assert below.waits == [timedelta(seconds=7)]


def test_many_threads_may_call_it_through_cpp() -> None:
    store = ours.PrefixStore("p", dict_store(ours)())
    failures = []

    def work(number: int) -> None:
        try:
            for turn in range(200):
                store.set(f"{number}/{turn}", "v")
                assert store.get(f"{number}/{turn}") == b"v"
        except BaseException as error:  # shown by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert store.num_keys() == 800
