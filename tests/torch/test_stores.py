"""Ranks meet by whatever store PyTorch gives: also one that is written in Python."""

from __future__ import annotations

import pytest

from tests.torch.test_failures import run_python

torch = pytest.importorskip("torch")

# Two ranks as threads of one process, and a store that asks for the interpreter's lock.
THREADS = """
import threading, torch, torch.distributed as dist, unisono.torch as ut
from datetime import timedelta

class Written(dist.Store):
    def __init__(self, inner):
        super().__init__()
        self.kept, self.asked = inner, 0
    @property
    def inner(self):
        self.asked += 1
        return self.kept
    def set(self, key, value):
        self.inner.set(key, value)
    def get(self, key):
        return self.inner.get(key)
    def add(self, key, value):
        return self.inner.add(key, value)
    def check(self, keys):
        return self.inner.check(keys)
    def compare_set(self, key, expected, desired):
        return self.inner.compare_set(key, expected, desired)
    def delete_key(self, key):
        return self.inner.delete_key(key)
    def num_keys(self):
        return self.inner.num_keys()
    def wait(self, keys, timeout=timedelta(seconds=60)):
        self.inner.wait(keys, timeout)

def world(store):
    sums = {}
    def rank_main(rank):
        backend = ut._extension().create(
            store, rank, 2, timedelta(seconds=60), "threads", [0, 1])
        x = torch.full((1000,), rank + 1.0)
        for _ in range(3):
            backend.allreduce([x]).wait()
        sums[rank] = x[0].item()
        backend.barrier().wait()
        backend.shutdown()
    ranks = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(2)]
    for rank in ranks: rank.start()
    for rank in ranks: rank.join()
    print(sums == {0: 12.0, 1: 12.0})

written = Written(dist.HashStore())
world(written)
print(written.asked > 0)
world(dist.HashStore())
world(dist.PrefixStore("inside", dist.HashStore()))
"""


def test_ranks_may_be_threads_that_meet_by_any_store() -> None:
    ended = run_python(THREADS)
    assert (ended.returncode, ended.stdout) == (0, "True\n" * 4), ended
