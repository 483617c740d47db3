"""Wrong types and sizes: the same exception classes as in torch.distributed, in plain words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import unisono.distributed as ours

Call = Callable[[], object]

WRONG_TEXTS = [None, 1, 1.5, ["k"], ...]
WRONG_LISTS = ["key", b"key", None, 1, [1], [None]]
WRONG_DURATIONS = [None, 1, "1", True, [1.0]]


@pytest.mark.parametrize("wrong", WRONG_TEXTS, ids=repr)
def test_a_key_or_value_of_another_type_is_a_type_error(dist: Any, wrong: object) -> None:
    store = dist.HashStore()
    calls: list[Call] = [
        lambda: store.set(wrong, "v"),
        lambda: store.set("k", wrong),
        lambda: store.get(wrong),
        lambda: store.add(wrong, 1),
        lambda: store.compare_set("k", wrong, "v"),
        lambda: store.append("k", wrong),
        lambda: store.delete_key(wrong),
        lambda: store.queue_push("q", wrong),
        lambda: store.queue_len(wrong),
        lambda: store.barrier(wrong, 1),
        lambda: dist.PrefixStore(wrong, store),
        lambda: dist.FileStore(wrong),
        lambda: dist.TCPStore(wrong, 1),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("wrong", WRONG_LISTS, ids=repr)
def test_keys_that_are_no_list_of_keys_are_a_type_error(dist: Any, wrong: object) -> None:
    store = dist.HashStore()
    calls: list[Call] = [
        lambda: store.check(wrong),
        lambda: store.wait(wrong),
        lambda: store.multi_get(wrong),
        lambda: store.multi_set(wrong, ["v"]),
        lambda: store.multi_set(["k"], wrong),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("wrong", WRONG_DURATIONS, ids=repr)
def test_a_duration_is_a_timedelta_or_a_float(dist: Any, wrong: object) -> None:
    store = dist.HashStore()
    calls: list[Call] = [
        lambda: store.set_timeout(wrong),
        lambda: store.wait(["k"], wrong),
        lambda: dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=wrong),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("wrong", [-1, 65536, 1 << 80, "80", 80.0, None], ids=repr)
def test_a_port_is_an_int_of_16_bits(dist: Any, wrong: object) -> None:
    with pytest.raises(TypeError):
        dist.TCPStore("127.0.0.1", wrong, is_master=True)


@pytest.mark.parametrize("wrong", [1, 0, None, "yes"], ids=repr)
def test_is_master_is_a_real_bool(dist: Any, wrong: object) -> None:
    with pytest.raises(TypeError):
        dist.TCPStore("127.0.0.1", 0, None, wrong)


def test_other_flags_take_truth_values(dist: Any) -> None:
    store = dist.TCPStore(
        "127.0.0.1", 0, None, True, wait_for_workers=None, multi_tenant=0, use_libuv=1
    )

    assert store.libuvBackend is True
    with pytest.raises(TypeError):
        dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers="yes")


def test_a_world_of_nobody_is_a_value_error(dist: Any) -> None:
    with pytest.raises(ValueError, match="TCPStore world size cannot be 0"):
        dist.TCPStore("127.0.0.1", 0, 0, True)
    dist.TCPStore("127.0.0.1", 0, -1, True)


def test_a_prefix_of_no_store_is_a_value_error(dist: Any) -> None:
    with pytest.raises(ValueError, match="store argument cannot be None"):
        dist.PrefixStore("p", None)
    with pytest.raises(TypeError):
        dist.PrefixStore("p", "no store")


@pytest.mark.parametrize("wrong", ["1", None, 1.5, 1 << 63, -(1 << 63) - 1], ids=repr)
def test_an_amount_is_an_int_of_64_bits(dist: Any, wrong: object) -> None:
    with pytest.raises(TypeError):
        dist.HashStore().add("n", wrong)


def test_adding_to_text_is_a_value_error(dist: Any) -> None:
    store = dist.HashStore()
    store.set("k", "text")
    with pytest.raises(ValueError):
        store.add("k", 1)


def test_a_lone_surrogate_is_a_type_error(dist: Any) -> None:
    with pytest.raises(TypeError):
        dist.HashStore().set("\ud800", "v")


def test_values_without_keys_are_refused(dist: Any) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        dist.TCPStore("127.0.0.1", 0, is_master=True).multi_set(["a", "b"], ["1"])


@pytest.mark.filterwarnings("ignore:nanobind")
def test_forgetting_super_init_is_a_type_error(dist: Any) -> None:
    class Bare(dist.Store):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError):
        Bare().set("k", "v")


def test_a_prefix_of_a_store_without_super_init_is_a_type_error(dist: Any) -> None:
    class Bare(dist.Store):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError):
        dist.PrefixStore("p", Bare())


def test_the_words_say_what_is_wrong_in_one_line() -> None:
    class Bare(ours.Store):
        def __init__(self) -> None:
            pass

    store = ours.HashStore()
    wrong: Any = 7
    for call, words in (
        (lambda: ours.PrefixStore("p", Bare()), "Bare whose __init__() did not call super()"),
        (lambda: store.set(wrong, "v"), "key must be str, bytes or bytearray, not int"),
        (lambda: store.check("abc"), "keys must be a list of str, bytes or bytearray, not str"),
        (lambda: store.wait(["k"], wrong), "timeout must be a timedelta or a float of seconds"),
        (lambda: ours.TCPStore("h", 70000), "port must be from 0 to 65535, but is 70000"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_documented_names_are_taken_as_keywords() -> None:
    store = ours.HashStore()
    store.set(key="k", value="v")

    assert store.get(key="k") == b"v"
    assert store.compare_set(key="k", expected_value="v", desired_value="w") == b"w"
    assert store.add(key="n", amount=2) == 2
    assert store.check(keys=["k"])
    store.wait(keys=["k"], timeout=timedelta(seconds=1))
    store.set_timeout(timeout=1.0)
    store.multi_set(keys=["a"], values=["1"])
    assert store.multi_get(keys=["a"]) == [b"1"]
    assert store.delete_key(key="k")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), 1e300], ids=repr)
def test_no_number_of_seconds_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="timeout is not a number of seconds"):
        ours.HashStore().set_timeout(wrong)


def test_negative_timeouts_are_refused_and_zero_is_one_look() -> None:
    store = ours.HashStore()
    with pytest.raises(ValueError, match="negative") as caught:
        store.set_timeout(-1.0)
    assert isinstance(caught.value, ours.UsageError)
    store.set("k", "v")
    store.wait(["k"], 0.0)
    with pytest.raises(ours.DistStoreError):
        store.wait(["missing"], 0.0)


def test_the_longest_timedelta_can_be_waited() -> None:
    store = ours.HashStore()
    store.set_timeout(timedelta.max)
    store.set("k", "v")

    assert store.get("k") == b"v"
    store.wait(["k"], timedelta.max)
