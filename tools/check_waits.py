"""Finds blocking calls outside the few places that may block.

A thread waits through waitUntil() of src/base/wait.hpp, which has a deadline, obeys interrupts and
says what it waits for; or it is an event loop. A sleep or a lock-step wait anywhere else is a hang
that nobody can explain. What a Waitable does in its own sleep() is part of waitUntil().

Endless loops must show how they end: a deadline in the body, a call repeated after EINTR, or a
comment "// ends when …" on the line or the one before.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from cpp_functions import find_functions
from tree import CPP_SUFFIXES, Complaint, line_of, run_check, strip_cpp, walk


@dataclass(frozen=True)
class Rule:
    """A way to block, and the files that may use it, each with the reason."""

    pattern: str
    instead: str
    allowed: dict[str, str]


WAIT = "use waitUntil() of base/wait.hpp"

RULES = (
    Rule(
        r"\b(?:sleep_for|sleep_until|usleep|nanosleep|clock_nanosleep)\s*\(|(?<![\w>])::sleep\s*\(",
        "use pauseFor() of base/wait.hpp",
        {"src/base/wait.cpp": "is the place that sleeps"},
    ),
    Rule(
        r"(?:\.|->)\s*sleep\s*\(",
        WAIT,
        {
            "src/base/wait.cpp": "is the place that sleeps",
            "src/base/wait.hpp": "is the place that sleeps",
            "src/base/gate.hpp": "a destructor waits for calls that it has woken",
        },
    ),
    Rule(
        # As a call: after "::" alone, or where an expression begins. A timeout of 0 only looks.
        r"(?:(?<![\w>])::|(?:[;{}(=!,]|\breturn)\s*)(?:p?poll|p?select)\s*\((?![^;]*,\s*0\s*\))|"
        r"\bepoll_p?wait2?\s*\(",
        WAIT,
        {
            "src/base/wait.cpp": "waits on one descriptor in short turns",
            "src/net/poll_reactor.cpp": "is an event loop",
        },
    ),
    Rule(
        r"\buv_run\s*\(",
        "only the event loop turns libuv",
        {"src/net/uv_reactor.cpp": "is an event loop"},
    ),
    Rule(
        r"\bstd::(?:condition_variable(?:_any)?|future|shared_future|promise|latch|barrier|"
        r"counting_semaphore|binary_semaphore|async)\b|\bpthread_cond_\w+|\bsem_(?:timed)?wait\b",
        "use CondVar of base/mutex.hpp with waitUntil()",
        {"src/base/mutex.hpp": "wraps it, with a bound on every sleep"},
    ),
    Rule(
        r"(?:\.|->)\s*wait_(?:for|until)\s*\(",
        WAIT,
        {"src/base/mutex.hpp": "wraps it, with a bound on every sleep"},
    ),
    Rule(
        r"(?:\.|->)\s*join\s*\(\s*\)|\bpthread_join\s*\(",
        "use Thread of base/thread.hpp",
        {
            "src/base/thread.cpp": "is the joining thread",
            "src/store/tcp/server.cpp": "has told its loop to end before",
        },
    ),
    Rule(
        r"\bgetaddrinfo\s*\(",
        "it takes as long as the name server likes; use resolve() of net/resolve.hpp",
        {
            "src/net/resolve.cpp": "asks on a thread of its own, with a deadline",
            "src/net/address.cpp": "reads numeric addresses only, which asks nobody",
        },
    ),
    Rule(
        r"\b(?:getnameinfo|gethostbyaddr\w*)\s*\(",
        "it may ask a name server for a name that nobody needs; print the numbers",
        {},
    ),
    Rule(
        r"\b(?:waitpid|wait4|waitid|sigwait|sigwaitinfo)\s*\((?![^;]*WNOHANG)|"
        r"(?<![\w>])::(?:pause|sigsuspend)\s*\(|"
        r"\bF_(?:OFD_)?SETLKW\b|\bLOCK_(?:EX|SH)\b(?![^;]*\bLOCK_NB\b)",
        f"may block for ever; {WAIT} around the call that does not block",
        {
            "cli/verbs/serve.cpp": "a server runs until it is told to end",
            "python/bindings/gil.cpp": "parks a thread that must not run any more",
        },
    ),
)

ENDLESS = re.compile(r"\bwhile\s*\(\s*(?:true|1)\s*\)|\bfor\s*\([^;()]*;\s*(?:true)?\s*;[^;()]*\)")
BOUNDED = re.compile(r"deadline|\bturns\b|\bexpired\b|\bremaining\b|\bEINTR\b", re.IGNORECASE)
SAYS_HOW = re.compile(r"//.*\bends\b", re.IGNORECASE)


def waitable_sleeps(text: str) -> set[int]:
    """The lines of the sleep() functions that a file defines: those of its Waitables."""
    return {
        line
        for function in find_functions(text)
        if re.fullmatch(r"(?:\w+::)*sleep", function.name)
        for line in range(function.line, function.line + function.lines)
    }


def check_text(where: str, text: str) -> list[Complaint]:
    """The complaints about one file."""
    code = strip_cpp(text)
    complaints = []
    sleeps = waitable_sleeps(text)
    for rule in RULES:
        if where in rule.allowed:
            continue
        for match in re.finditer(rule.pattern, code):
            what = re.findall(r"\w+", match.group())[-1]
            line = line_of(code, match.end() - 1)
            if line in sleeps:
                continue
            complaints.append(Complaint(where, line, f"{what} blocks: {rule.instead}"))
    lines = text.splitlines()
    for match in ENDLESS.finditer(code):
        line = line_of(code, match.start())
        if not _says_how_it_ends(code, match.end(), lines[max(0, line - 2) : line]):
            text_ = "an endless loop: give it a deadline, or say how it ends: // ends when …"
            complaints.append(Complaint(where, line, text_))
    return complaints


def _says_how_it_ends(code: str, after: int, comments: list[str]) -> bool:
    if any(SAYS_HOW.search(comment) for comment in comments):
        return True
    depth = 0
    for i in range(after, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth == 0 and code[i] in "};":
            return BOUNDED.search(code[after:i]) is not None
    return False


def check(root: Path) -> list[Complaint]:
    return [
        complaint
        for path in walk(root, ("include", "src", "cli", "python", "torch"), CPP_SUFFIXES)
        for complaint in check_text(path.relative_to(root).as_posix(), path.read_text())
    ]


if __name__ == "__main__":
    sys.exit(run_check("waits", "Finds blocking calls outside the places that may block.", check))
