"""Checks every #include against the layering.

A room (a folder of src/ with its public headers in include/unisono/) may include itself, the
rooms named in the DEPS of its unisono_room() call, the standard library, and the system. Each
third-party library has one place that may include it. Public headers include only the standard
library and other public headers.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tree import CPP_SUFFIXES, Complaint, line_of, run_check, strip_cpp, walk

# Third-party headers, by how their names begin, and the places (path prefixes) that may use them.
THIRD_PARTY: dict[str, tuple[str, ...]] = {
    "fmt/": ("src/base/",),
    "spdlog/": ("src/base/",),
    "nlohmann/": ("src/base/json", "cli/"),
    "hwy/": ("src/reduction/",),
    "openssl/": ("src/net/secret",),
    "uv.h": ("src/net/",),
    "uv/": ("src/net/",),
    "CLI/": ("cli/",),
    "nanobind/": ("python/",),
    "pybind11/": ("torch/",),  # that which PyTorch brings along
    "torch/": ("torch/",),
    "ATen/": ("torch/",),
    "c10/": ("torch/",),
    "gtest/": ("tests/",),
    "gmock/": ("tests/",),
    "benchmark/": ("bench/",),
    "gloo/": ("bench/collective/peers/",),
    "mpi.h": ("bench/collective/peers/",),
    "fuzzer/": ("fuzz/",),
}

# Folders that are no rooms, and who may include from them: "bench/histogram.hpp".
NAMED_BY_USERS = {"bench": ("bench", "cli", "tests"), "fuzz": ("fuzz",)}

# Where fuzz targets may include from, beside the rooms.
BESIDE_FUZZ = ("tests", "cli")

STANDARD = frozenset(
    """
    algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts
    condition_variable coroutine deque exception execution filesystem forward_list fstream
    functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits
    list locale map memory memory_resource mutex new numbers numeric optional ostream queue random
    ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream
    stack stdexcept stop_token streambuf string string_view strstream syncstream system_error thread
    tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
    version cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal
    cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype
    """.split()
)

# What headers for C programs include of theirs.
STANDARD_OF_C = frozenset(("stddef.h", "stdint.h"))

SYSTEM = re.compile(
    r"(sys|linux|netinet|arpa|asm|sanitizer)/[\w/]+\.h|net/if\.h|"
    r"(unistd|fcntl|poll|signal|pthread|errno|netdb|ifaddrs|dirent|sched|time|dlfcn|spawn|limits|"
    r"pwd|grp|endian|link|elf|execinfo|cxxabi|termios|locale|stdlib|string|stdio|malloc|ucontext|"
    r"getopt|glob|fnmatch|ftw|mntent|resolv|syslog)\.h"
)

FOLDERS = ("include", "src", "bench", "cli", "python", "torch", "examples", "fuzz", "tests")
UMBRELLA = "include/unisono/unisono.hpp"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
ROOM_CALL = re.compile(r"\bunisono_room\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Room:
    """One unisono_room() call: what it compiles and which rooms it may include."""

    name: str
    sources: tuple[str, ...]
    deps: tuple[str, ...]


def parse_rooms(cmake_text: str) -> list[Room]:
    """The unisono_room() calls of a CMakeLists.txt."""
    rooms = []
    for call in ROOM_CALL.finditer(re.sub(r"#[^\n]*", "", cmake_text)):
        name, *words = call[1].split()
        lists: dict[str, list[str]] = {"SOURCES": [], "DEPS": [], "LIBRARIES": []}
        current: list[str] = []
        for word in words:
            if word in lists:
                current = lists[word]
            else:
                current.append(word)
        rooms.append(Room(name, tuple(lists["SOURCES"]), tuple(lists["DEPS"])))
    return rooms


class Layers:
    """The rooms of a tree and the complaints about its includes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rooms: dict[str, Room] = {}
        self.complaints: list[Complaint] = []

    def check(self) -> list[Complaint]:
        self._read_rooms()
        for path in walk(self.root, FOLDERS, CPP_SUFFIXES):
            self._check_file(path)
        self._check_umbrella()
        return self.complaints

    def _complain(self, path: str, line: int, text: str) -> None:
        self.complaints.append(Complaint(path, line, text))

    def _read_rooms(self) -> None:
        for folder in sorted((self.root / "src").iterdir()):
            listing = folder / "CMakeLists.txt"
            where = listing.relative_to(self.root).as_posix()
            if not any(walk(self.root, (f"src/{folder.name}",), CPP_SUFFIXES)):
                continue
            found = parse_rooms(listing.read_text()) if listing.is_file() else []
            if [room.name for room in found] != [folder.name]:
                self._complain(where, 1, f"must call unisono_room({folder.name} …) once")
                continue
            self.rooms[folder.name] = found[0]
            self._check_sources(folder, where, found[0])
        for room in self.rooms.values():
            self._check_deps(room)

    def _check_sources(self, folder: Path, where: str, room: Room) -> None:
        there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.cpp")}
        for name in sorted(there - set(room.sources)):
            self._complain(where, 1, f"{name} is not among the SOURCES, so nobody compiles it")

    def _check_deps(self, room: Room) -> None:
        where = f"src/{room.name}/CMakeLists.txt"
        for dep in room.deps:
            if dep not in self.rooms:
                self._complain(where, 1, f"room '{room.name}' depends on '{dep}', which is no room")
        if room.name in self._below(room):
            self._complain(where, 1, f"room '{room.name}' depends on itself in a circle")

    def _below(self, room: Room) -> set[str]:
        """All rooms that `room` stands on, directly or not."""
        seen: set[str] = set()
        todo = list(room.deps)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo.extend(self.rooms[name].deps if name in self.rooms else ())
        return seen

    def _check_file(self, path: Path) -> None:
        where = path.relative_to(self.root).as_posix()
        text = strip_cpp(path.read_text(), keep_strings=True)
        for match in INCLUDE.finditer(text):
            problem = self._problem(where, match[1] == "<", match[2])
            if problem:
                self._complain(where, line_of(text, match.start(1)), problem)

    def _problem(self, where: str, angled: bool, name: str) -> str:
        if ".." in Path(name).parts:
            return f'"{name}": write includes from the root, without ".."'
        if angled and not name.startswith("unisono/"):
            return self._library_problem(where, name)
        return self._own_problem(where, name)

    def _library_problem(self, where: str, name: str) -> str:
        if name in STANDARD or (where.endswith(".h") and name in STANDARD_OF_C):
            return ""
        if where.startswith("include/"):
            return f"public headers include only the standard library and unisono/, not <{name}>"
        if SYSTEM.fullmatch(name):
            return ""
        for prefix, places in THIRD_PARTY.items():
            if name.startswith(prefix):
                allowed = where.startswith(places)
                return "" if allowed else f"<{name}> may be used only in {', '.join(places)}"
        return f"<{name}> belongs to no known library; see THIRD_PARTY in tools/check_layers.py"

    def _own_problem(self, where: str, name: str) -> str:
        public = name.startswith("unisono/")
        parts = Path(name).parts[1:] if public else Path(name).parts
        if public and len(parts) == 1:  # unisono/version.hpp, unisono/unisono.hpp
            inside = where.startswith(("src/", "include/")) and name == "unisono/unisono.hpp"
            return "the umbrella header is for users, include what is needed" if inside else ""
        room = parts[0]
        place = where.split("/")
        if place[0] == "include":
            if not public:
                return f'public headers cannot include the private "{name}"'
            return "" if where == UMBRELLA else self._dep_problem(place[2], room, name)
        if place[0] == "src":
            if len(parts) == 1:
                return f'"{name}": write includes from the root, as "{place[1]}/{name}"'
            return self._dep_problem(place[1], room, name)
        if place[0] == "examples":
            return "" if public else f'examples use only public headers, not "{name}"'
        beside = (self.root / where).parent / name
        known = room in self.rooms or beside.is_file() or (self.root / place[0] / name).is_file()
        users = NAMED_BY_USERS.get(room)
        if users is not None:
            known = place[0] in users and (self.root / name).is_file()
        elif place[0] == "fuzz":  # uses what the tests and the program have, too
            known = known or any((self.root / folder / name).is_file() for folder in BESIDE_FUZZ)
        return "" if known else f'"{name}" is neither in a room nor below {place[0]}/'

    def _dep_problem(self, here: str, there: str, name: str) -> str:
        if there not in self.rooms:
            return f"\"{name}\": there is no room '{there}'"
        if here == there or (here in self.rooms and there in self.rooms[here].deps):
            return ""
        return f"room '{here}' may not include \"{name}\": '{there}' is not among its DEPS"

    def _check_umbrella(self) -> None:
        umbrella = self.root / UMBRELLA
        if not umbrella.is_file():
            return
        text = umbrella.read_text()
        for path in walk(self.root, ("include",), (".hpp",)):
            name = path.relative_to(self.root / "include").as_posix()
            if path != umbrella and f'#include "{name}"' not in text:
                self._complain(UMBRELLA, 1, f'does not include "{name}"')


def check(root: Path) -> list[Complaint]:
    return Layers(root).check()


if __name__ == "__main__":
    sys.exit(run_check("layers", "Checks every #include against the rooms' DEPS.", check))
