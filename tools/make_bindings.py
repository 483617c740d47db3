"""Writes docs/bindings.md: every name of torch 2.13's C++ bindings, and what unisono has for it.

    .venv/bin/python tools/make_bindings.py

Needs PyTorch and the installed package. tests/docs/test_bindings.py holds the page to what this
makes.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bindings.md"

# What is meant to differ from torch, and why; members with their class: "Work.boxed".
OTHER = {
    "Backend": "a name with c10d's rules, as `torch.distributed.Backend` is; what carries a group "
    "out is C++ (`unisono/backend/backend.hpp`)",
    "ProcessGroupGloo": "`gloo` is a name of unisono's own backend here",
    "_make_nccl_premul_sum": "for every backend, not only NCCL",
    "_test_python_store": "a test of torch's own",
    "_detect_dma_connectivity": "of graphics processors",
    "_DMAConnectivity": "of graphics processors",
    "Backend.memory_stats": "of graphics processors",
    "Backend.resume": "of graphics processors",
    "Backend.shrink": "of communicators of graphics processors",
    "Backend.suspend": "of graphics processors",
    "Reducer._install_post_backward_futures": "of autograd",
    "Reducer._push_all_rebuilt_params": "buckets are rebuilt from what `mark_ready` tells",
    "Reducer._remove_autograd_hooks": "of autograd",
    "Reducer._set_forward_pass_work_handle": "of autograd",
    "Reducer._set_mixed_precision_param_dtype": "of autograd",
    "Reducer._set_optimizer_in_backward": "of autograd",
    "Reducer._delay_all_reduce": "of autograd",
    "Work.block_current_stream": "of graphics processors",
    "Work.boxed": "for TorchScript",
    "Work.unbox": "for TorchScript",
    "ProcessGroup.boxed": "for TorchScript",
    "ProcessGroup.unbox": "for TorchScript",
}

HEAD = """# The names of torch's bindings

Made by tools/make_bindings.py; not to be edited.

`torch._C._distributed_c10d` is what PyTorch shows of c10d to its own Python layer. Here is every
name of it in version {version}, and whether `unisono.distributed` has it: **same**, with all of its
members and the names of its arguments; **in part**, with what is missing; **other**, on purpose; or
**not yet**. It has {same} that are the same, {part} in part, {other} that differ, and {missing} to
come.

| name | here | |
|---|---|---|
"""


def names_of(module: ModuleType) -> list[str]:
    return sorted((n for n in dir(module) if not n.startswith("__")), key=str.lower)


def members_of(thing: type) -> set[str]:
    """What torch has put into a class, without what its way of binding puts into all of them."""
    own = (base for base in thing.__mro__ if base.__module__.startswith("torch"))
    return {
        name
        for base in own
        for name in vars(base)
        if not name.startswith("__") and name != "_pybind11_conduit_v1_"
    }


def arguments_in(doc: str) -> list[str] | None:
    """The names of arguments as the first line of a docstring tells them, where it does."""
    text = re.match(r"\w+\((.*)\) -> ", doc.partition("\n")[0])
    if text is None:
        return None
    # What is left when types are taken out: they may have commas and colons in brackets.
    flat = text[1]
    while "[" in flat:
        shorter = re.sub(r"\[[^\[\]]*\]", "", flat)
        if shorter == flat:
            return None
        flat = shorter
    names = [part.partition(":")[0].strip() for part in flat.split(",") if part.strip()]
    return [name for name in names if name not in {"*", "/"}]


def same_arguments(theirs: object, ours: object) -> bool:
    told = arguments_in(getattr(theirs, "__doc__", None) or "")
    if told is None or not callable(ours):
        return True
    here = inspect.signature(ours).parameters
    nameless = {index for index, name in enumerate(told) if re.fullmatch(r"arg\d+", name)}
    known = list(here)
    return len(known) == len(told) and all(
        index in nameless or known[index] == name for index, name in enumerate(told)
    )


def reason_for(kind: type, member: str) -> str | None:
    """Why a member is left out; what is said of a class holds for those that derive from it."""
    told = (OTHER.get(f"{base.__name__}.{member}") for base in kind.__mro__)
    return next((reason for reason in told if reason), None)


def why_other(kind: type, members: set[str]) -> str:
    reasons: dict[str, list[str]] = {}
    for member in sorted(members):
        if reason := reason_for(kind, member):
            reasons.setdefault(reason, []).append(f"`{member}`")
    return "; ".join(f"left out, {reason}: {', '.join(each)}" for reason, each in reasons.items())


def row_of(name: str, theirs: object, ours: ModuleType) -> tuple[str, str]:
    """The word for one name, and what there is to say about it."""
    if name in OTHER:
        return "other", OTHER[name]
    if not hasattr(ours, name):
        return "not yet", ""
    here = getattr(ours, name)
    if not isinstance(theirs, type):
        if not same_arguments(theirs, here):
            sys.exit(f"{name} takes other arguments than torch's: say why in OTHER, or mend it")
        return "same", ""
    # What its members have counts as well: an enumeration shows their name and value only there.
    looked = [here, *here] if isinstance(here, enum.EnumMeta) else [here]
    missing = {m for m in members_of(theirs) if not any(hasattr(each, m) for each in looked)}
    explained = {member for member in missing if reason_for(theirs, member)}
    told = why_other(theirs, missing)
    if lacking := sorted(missing - explained):
        words = "not yet: " + ", ".join(f"`{member}`" for member in lacking)
        return "in part", f"{words}; {told}" if told else words
    return ("other", told) if told else ("same", "")


def rows(theirs: ModuleType, ours: ModuleType) -> Iterator[tuple[str, str, str]]:
    for name in names_of(theirs):
        word, remark = row_of(name, getattr(theirs, name), ours)
        yield name, word, remark


def page() -> str:
    import torch
    import torch._C._distributed_c10d as theirs

    import unisono.distributed as ours

    table = list(rows(theirs, ours))
    count = {word: sum(row[1] == word for row in table) for word in ("same", "in part", "other")}
    head = HEAD.format(
        version=torch.__version__.partition("+")[0],
        same=count["same"],
        part=count["in part"],
        other=count["other"],
        missing=len(table) - sum(count.values()),
    )
    return head + "".join(f"| `{name}` | {word} | {remark} |\n" for name, word, remark in table)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE.relative_to(PAGE.parents[1]))
