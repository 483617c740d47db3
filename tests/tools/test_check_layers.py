from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from check_layers import check, parse_rooms

MakeTree = Callable[[dict[str, str]], Path]

ROOMS = {
    "src/base/CMakeLists.txt": "unisono_room(base\n  SOURCES\n    a.cpp\n  LIBRARIES fmt::fmt)\n",
    "src/base/a.cpp": '#include "base/a.hpp"\n#include <fmt/format.h>\n#include <unistd.h>\n',
    "src/base/a.hpp": "#include <vector>\n",
    "src/store/CMakeLists.txt": "unisono_room(store SOURCES s.cpp DEPS base)\n",
    "src/store/s.cpp": '#include "unisono/store/s.hpp"\n#include "base/a.hpp"\n',
    "include/unisono/store/s.hpp": "#include <string>\n",
}


def complaints(tree: MakeTree, more: dict[str, str]) -> list[str]:
    return [str(complaint) for complaint in check(tree({**ROOMS, **more}))]


def test_rooms_are_read_from_cmake() -> None:
    (room,) = parse_rooms("unisono_room(net # why\n SOURCES a.cpp b.cpp\n DEPS base life)")

    assert (room.name, room.sources, room.deps) == ("net", ("a.cpp", "b.cpp"), ("base", "life"))


def test_a_good_tree_has_no_complaints(tree: MakeTree) -> None:
    assert complaints(tree, {}) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("src/base/b.hpp", '#include "store/s.hpp"', "'store' is not among its DEPS"),
        ("src/base/b.hpp", '#include "unisono/store/s.hpp"', "'store' is not among its DEPS"),
        ("src/store/b.hpp", "#include <fmt/format.h>", "may be used only in src/base/"),
        ("src/store/b.hpp", "#  include <uv.h>", "may be used only in src/net/"),
        ("src/store/b.hpp", "#include <boost/any.hpp>", "belongs to no known library"),
        ("src/store/b.hpp", '#include "s.hpp"', "write includes from the root"),
        ("src/store/b.hpp", '#include "../base/a.hpp"', "write includes from the root"),
        ("src/store/b.hpp", '#include "web/a.hpp"', "there is no room 'web'"),
        ("src/store/b.hpp", '#include "unisono/unisono.hpp"', "the umbrella header is for users"),
        ("include/unisono/store/b.hpp", '#include "base/a.hpp"', "cannot include the private"),
        ("include/unisono/store/b.hpp", "#include <uv.h>", "only the standard library"),
        ("include/unisono/store/b.hpp", "#include <unistd.h>", "only the standard library"),
        ("examples/e.cpp", '#include "store/s.hpp"', "examples use only public headers"),
        ("tests/store/t.cpp", '#include "nowhere/x.hpp"', "neither in a room"),
        ("cli/c.cpp", "#include <gtest/gtest.h>", "may be used only in tests/"),
        ("cli/c.cpp", "#include <nanobind/nanobind.h>", "may be used only in python/"),
        ("python/bindings/b.cpp", "#include <uv.h>", "may be used only in src/net/"),
        ("python/bindings/b.cpp", '#include "bindings/x.hpp"', "neither in a room"),
    ],
)
def test_a_wrong_include_is_named(tree: MakeTree, path: str, text: str, expected: str) -> None:
    (complaint,) = complaints(tree, {path: f"// first line\n{text}\n"})

    assert complaint.startswith(f"{path}:2: ")
    assert expected in complaint


def test_bindings_may_use_every_room_and_nanobind(tree: MakeTree) -> None:
    text = '#include "base/a.hpp"\n#include "bindings/x.hpp"\n#include <nanobind/nanobind.h>\n'
    more = {"python/bindings/b.cpp": text, "python/bindings/x.hpp": "#pragma once\n"}

    assert complaints(tree, more) == []


def test_fuzz_targets_may_use_what_the_tests_and_the_program_have(tree: MakeTree) -> None:
    both = {"tests/support/t.hpp": "", "cli/verbs/v.hpp": ""}
    text = '#include "support/t.hpp"\n#include "verbs/v.hpp"\n'

    assert complaints(tree, {**both, "fuzz/f.cpp": text}) == []
    assert len(complaints(tree, {**both, "fuzz/f.cpp": '#include "verbs/none.hpp"\n'})) == 1


def test_a_commented_include_does_not_count(tree: MakeTree) -> None:
    assert complaints(tree, {"src/base/b.hpp": '/*\n#include "store/s.hpp"\n*/\n'}) == []


def test_a_source_that_nobody_compiles_is_named(tree: MakeTree) -> None:
    (complaint,) = complaints(tree, {"src/store/tcp/lost.cpp": ""})

    assert "tcp/lost.cpp is not among the SOURCES" in complaint


def test_rooms_in_a_circle_are_refused(tree: MakeTree) -> None:
    circle = {"src/base/CMakeLists.txt": "unisono_room(base SOURCES a.cpp DEPS store)"}

    assert any("in a circle" in complaint for complaint in complaints(tree, circle))


def test_the_umbrella_holds_every_public_header(tree: MakeTree) -> None:
    (complaint,) = complaints(tree, {"include/unisono/unisono.hpp": "#pragma once\n"})

    assert 'does not include "unisono/store/s.hpp"' in complaint
