"""A rank of torch.distributed with gloo in `unisono bench`: does tasks of its board, in Python.

What bench/collective/member.hpp does for programs in C++, with the same elements and the same
checks. Python has no atomic additions: what all ranks count together, gloo adds up, and rank 0
writes it down for all.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

OPS = (
    *("quit", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "barrier"),
    *("ping_pong", "reduce", "gather", "scatter"),
)  # fmt: skip
CUT = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64)
# Each with what it makes of two numbers; of the sum of all, an average is its part.
REDUCTIONS = (
    (dist.ReduceOp.SUM, torch.add),
    (dist.ReduceOp.PRODUCT, torch.mul),
    (dist.ReduceOp.MIN, torch.minimum),
    (dist.ReduceOp.MAX, torch.maximum),
    (dist.ReduceOp.AVG, torch.add),
)
PERIOD = 61  # elements, after which a vector repeats itself
FACTORS = 8  # ranks that change a product
SYS_FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]
FUTEX_WAIT, FUTEX_WAKE = 0, 1
EVERYBODY = 2**31 - 1

RANK = int(os.environ["RANK"])
RANKS = int(os.environ["WORLD_SIZE"])
FOLDER = os.environ["UNISONO_COMPARE_FOLDER"]


def mapped(path: str, size: int = 0) -> mmap.mmap:
    """The file as memory that is shared; made if it is to have a size."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if size:
        os.ftruncate(file, size)
    memory = mmap.mmap(file, size)
    os.close(file)
    return memory


class Board:
    """The memory in which the comparison leaves tasks, and the ranks their times."""

    def __init__(self) -> None:
        self.memory = mapped(os.environ["UNISONO_COMPARE_BOARD"])
        self.at: dict[str, int] = json.loads(os.environ["UNISONO_COMPARE_LAYOUT"])
        self.turn = self.word("turn")
        self.finished = self.word("finished")
        self.libc = ctypes.CDLL(None, use_errno=True)
        row = self.at["nanoseconds"] + RANK * self.at["row"]
        self.times = (ctypes.c_uint64 * (self.at["row"] // 8)).from_buffer(self.memory, row)

    def word(self, name: str) -> ctypes.c_uint32:
        return ctypes.c_uint32.from_buffer(self.memory, self.at[name])

    def long(self, name: str, index: int = 0) -> ctypes.c_uint64:
        return ctypes.c_uint64.from_buffer(self.memory, self.at[name] + 8 * index)

    def flag(self, name: str) -> bool:
        return self.memory[self.at[name]] != 0

    def futex(self, word: ctypes.c_uint32, what: int, value: int) -> None:
        address = ctypes.c_void_p(ctypes.addressof(word))
        self.libc.syscall(SYS_FUTEX, address, what, ctypes.c_uint32(value), None, None, 0)

    def say_hello(self) -> None:
        self.long("start_ns", RANK).value = time.monotonic_ns()
        dist.barrier()
        if RANK == 0:
            version = f"torch {torch.__version__}".encode()
            self.memory[self.at["version"] : self.at["version"] + len(version)] = version
            self.word("ready").value = RANKS

    def next_turn(self, seen: int) -> int:
        """Sleeps until there is a task, and returns its number."""
        while self.turn.value == seen:
            self.futex(self.turn, FUTEX_WAIT, seen)
        return self.turn.value

    def finish(self, wrong: int | None) -> None:
        """All ranks come here, when their times are written; None: nothing could be done."""
        counts = torch.tensor([wrong or 0, int(wrong is None)])
        dist.all_reduce(counts)
        if RANK == 0:
            self.long("wrong").value, self.word("lacking").value = counts.tolist()
            self.finished.value = RANKS
            self.futex(self.finished, FUTEX_WAKE, EVERYBODY)


class Meeting:
    """Ranks that begin together: each counts for itself, and looks at the others."""

    def __init__(self) -> None:
        self.words = memoryview(mapped(f"{FOLDER}/torch_gloo.meeting", 8 * RANKS)).cast("Q")

    def __call__(self) -> None:
        self.words[RANK] += 1
        mine = self.words[RANK]
        while min(self.words) < mine:
            os.sched_yield()


class Task:
    """What the board asks for: the tensors of an operation, and how it is called."""

    def __init__(self, board: Board) -> None:
        self.op = OPS[board.word("op").value]
        self.dtype = TYPES[board.word("element").value]
        self.count = board.long("count").value
        self.in_a_row = board.flag("in_a_row")
        self.is_checked = board.flag("is_checked")
        self.root = board.word("root").value
        reduction = board.word("reduction").value if self.op in REDUCING else 0
        self.how, self.combine = REDUCTIONS[reduction]
        elements = board.long("bytes").value // self.dtype.itemsize
        self.part = elements // RANKS
        self.whole = self.part * RANKS if self.op in CUT else elements
        self.given = torch.zeros(0)
        self.got = torch.zeros(0)

    def allocate(self) -> None:
        self.given = torch.zeros(self.whole, dtype=self.dtype)
        self.got = torch.zeros(self.whole, dtype=self.dtype)

    def row(self, rank: int, start: int = 0) -> torch.Tensor:
        """One period of what a rank has, from an element on; as member.hpp has it."""
        values = (torch.arange(start, start + PERIOD) % PERIOD + rank).double()
        if self.how == dist.ReduceOp.PRODUCT:
            values = 1 + values % 2 if rank < FACTORS else torch.ones(PERIOD).double()
        return values

    def reduced(self, start: int = 0) -> torch.Tensor:
        values = self.row(0, start)
        for rank in range(1, RANKS):
            values = self.combine(values, self.row(rank, start))
        return values / RANKS if self.how == dist.ReduceOp.AVG else values

    def fill(self) -> None:
        """Writes all of what is given, as before every operation."""
        row = self.row(RANK).to(self.dtype)
        periods = self.whole // PERIOD
        self.given[: periods * PERIOD].view(periods, PERIOD).copy_(row)
        self.given[periods * PERIOD :].copy_(row[: self.whole - periods * PERIOD])

    def calling(self) -> Callable[[], object]:
        given, got, root, how = self.given, self.got, self.root, self.how
        mine, here = given[: self.part], got[: self.part]
        to_root = list(got.chunk(RANKS)) if root == RANK and self.op == "gather" else None
        of_root = list(given.chunk(RANKS)) if root == RANK and self.op == "scatter" else None
        calls: dict[str, Callable[[], object]] = {
            "all_reduce": lambda: dist.all_reduce(given, how),
            "reduce": lambda: dist.reduce(given, root, how),
            "broadcast": lambda: dist.broadcast(given, root),
            "all_gather": lambda: dist.all_gather_into_tensor(got, mine),
            "gather": lambda: dist.gather(mine, to_root, root),
            "scatter": lambda: dist.scatter(here, of_root, root),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(here, given, how),
            "all_to_all": lambda: dist.all_to_all_single(got, given),
            "ping_pong": self.ping_pong,
            "barrier": dist.barrier,
        }
        return calls[self.op]

    def ping_pong(self) -> None:
        if RANK == 0:
            dist.send(self.given, 1)
            dist.recv(self.got, 1)
        elif RANK == 1:
            dist.recv(self.got, 0)
            dist.send(self.got, 0)

    def wrong(self, got: torch.Tensor, row: torch.Tensor) -> int:
        """How many elements are not what the row says, over and over; halves may be rounded."""
        right = row.to(self.dtype)
        tolerance = 1 / 50 if self.dtype.itemsize == 2 else 0
        periods = len(got) // PERIOD
        body = got[: periods * PERIOD].view(periods, PERIOD)
        rest = got[periods * PERIOD :]
        return sum(
            some.numel() - int(torch.isclose(some, wanted, rtol=tolerance, atol=0).sum())
            for some, wanted in ((body, right), (rest, right[: len(rest)]))
        )

    def check(self) -> int:
        before, got = RANK * self.part, self.got
        if self.op == "all_reduce" or (self.op == "reduce" and self.root == RANK):
            return self.wrong(self.given, self.reduced())
        if self.op == "broadcast":
            return self.wrong(self.given, self.row(self.root))
        if self.op == "all_gather" or (self.op == "gather" and self.root == RANK):
            return sum(self.wrong(p, self.row(r)) for r, p in enumerate(got.chunk(RANKS)))
        if self.op == "all_to_all":
            return sum(self.wrong(p, self.row(r, before)) for r, p in enumerate(got.chunk(RANKS)))
        if self.op == "scatter":
            return self.wrong(got[: self.part], self.row(self.root, before))
        if self.op == "reduce_scatter":
            return self.wrong(got[: self.part], self.reduced(before))
        if self.op == "ping_pong" and RANK < 2:
            return self.wrong(got, self.row(0))
        return 0


def can(call: Callable[[], object]) -> bool:
    """Whether gloo has such an operation; all ranks are told so alike, before anything is sent."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


def perform(task: Task, meet: Meeting, times: ctypes.Array[ctypes.c_uint64]) -> int | None:
    """Does the task, writes down how long each operation took, and counts wrong elements.

    None where gloo has no such operation.
    """
    task.allocate()
    call = task.calling()
    if not can(call):
        return None
    wrong = 0
    for i in range(1 if task.in_a_row else task.count):
        task.fill()
        meet()
        start = time.perf_counter_ns()
        call()
        times[i] = time.perf_counter_ns() - start
        if task.is_checked and i in (0, task.count - 1):
            wrong += task.check()
    if task.in_a_row:
        task.given.zero_()  # sums that stay what they are
        meet()
        start = time.perf_counter_ns()
        for _ in range(task.count):
            call()
        times[0] = (time.perf_counter_ns() - start) // max(task.count, 1)
    return wrong


def main() -> None:
    meet = Meeting()
    board = Board()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{FOLDER}/torch_gloo.store", rank=RANK, world_size=RANKS
    )
    turn = board.turn.value
    board.say_hello()
    while True:
        turn = board.next_turn(turn)
        task = Task(board)
        if task.op == "quit":
            os._exit(0)  # the folder in which gloo would say good-bye is gone
        board.finish(perform(task, meet, board.times))


if __name__ == "__main__":
    main()
