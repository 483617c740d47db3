"""Checks that every file of the protocols in shared memory is explored, or says why not.

tests/CMakeLists.txt lists the sources whose atomic accesses the explorer (tests/explore) lets
happen in every order. A new file of these rooms that nobody lists would be linked from the library
instead, and its steps would be taken for one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tree import Complaint, line_of, run_check, strip_cpp, walk

WHERE = "tests/CMakeLists.txt"

# Rooms in which ranks talk to each other through memory.
ROOMS = ("src/life", "src/transport", "src/collective")

# Folders of theirs in which they talk by messages.
ELSEWHERE = ("src/collective/links/", "src/transport/mesh/", "src/transport/communicator.cpp")

# Ways to do so anywhere else.
SHARED = re.compile(r"\b(?:futexWait|futexWake|atomic_ref|__atomic_\w+|SharedMapping)\b")

# Files that need not be in the list, each with the reason.
EXEMPT = {
    "src/life/monitor.cpp": "is a thread with sockets; tests/explore/stand_ins.cpp has another one",
    "src/collective/selection.cpp": "chooses an algorithm before anything is shared",
    "src/collective/thresholds.cpp": "only holds the numbers by which selection.cpp chooses",
    "src/collective/tuning.cpp": "reads the settings of the user, before anything is shared",
    "src/collective/allreduce/direct.cpp": "has no atomic access: each step is one of arena.cpp",
}

_LIST = re.compile(r"\bset\(\s*explored\b(?P<files>[^)]*)\)")


def listed_in(text: str) -> dict[str, int]:
    """The sources in the list of the explorer, with the line of each."""
    found = _LIST.search(text)
    if found is None:
        return {}
    return {
        f"src/{name.group()}": line_of(text, found.start("files") + name.start())
        for name in re.finditer(r"[\w/.]+\.cpp\b", found["files"])
    }


def check(root: Path, exempt: dict[str, str] | None = None) -> list[Complaint]:
    exempt = EXEMPT if exempt is None else exempt
    listed = listed_in((root / WHERE).read_text())
    if not listed:
        return [Complaint(WHERE, 1, "has no list set(explored …) of sources to explore")]
    complaints = [
        Complaint(WHERE, line, f"{name} is to be explored, but there is no such file")
        for name, line in listed.items()
        if not (root / name).is_file()
    ]
    here = "tools/check_explored.py"
    for name in exempt:
        if name in listed:
            complaints.append(Complaint(here, 1, f"{name} is explored: it needs no exemption"))
        elif not (root / name).is_file():
            complaints.append(Complaint(here, 1, f"{name} is exempt, but there is no such file"))
    for path in walk(root, ("src",), (".cpp",)):
        name = path.relative_to(root).as_posix()
        if name in listed or name in exempt:
            continue
        inside = name.startswith(ROOMS) and not name.startswith(ELSEWHERE)
        if inside or SHARED.search(strip_cpp(path.read_text())):
            complaints.append(
                Complaint(
                    name,
                    1,
                    f"is part of a protocol in shared memory, but the explorer does not know it: "
                    f"list it in {WHERE}, or say in {here} why not",
                )
            )
    return complaints


def main(argv: list[str] | None = None) -> int:
    return run_check("explored", "Checks what the explorer of interleavings covers.", check, argv)


if __name__ == "__main__":
    sys.exit(main())
