"""FakeStore, which torch 2.13 does not have yet."""

from __future__ import annotations

from typing import Any

import pytest

import unisono.distributed as dist


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: dist.PrefixStore("p", s)])
def test_answers_at_once_and_keeps_nothing(wrap: Any) -> None:
    store = wrap(dist.FakeStore())
    store.set("k", "v")

    assert store.get("k") == b""
    assert store.add("n", 4) == 4
    assert store.check(["k", "other"])
    assert store.delete_key("k")
    assert store.num_keys() == 0
    store.wait(["k"])
    store.barrier("b", 1000)


def test_a_clone_is_another_fake_store() -> None:
    store = dist.FakeStore()
    twin = store.clone()

    assert type(twin) is dist.FakeStore
    assert twin is not store


def test_refuses_what_not_every_store_offers() -> None:
    with pytest.raises(dist.NotSupportedError):
        dist.FakeStore().queue_push("q", "v")
