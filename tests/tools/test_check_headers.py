from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import check_headers
import pytest
from check_headers import check

MakeTree = Callable[[dict[str, str]], Path]

GOOD = {
    "VERSION": "0.1.0\n",
    "cmake/version.hpp.in": '#pragma once\n#define V "@PROJECT_VERSION@"\n',
    "include/unisono/a.hpp": '#pragma once\n#include "unisono/version.hpp"\ninline auto v = V;\n',
    "src/base/p.hpp": '#pragma once\n#include "unisono/a.hpp"\ninline auto w = v;\n',
}


def complaints(root: Path) -> list[str]:
    return [str(complaint) for complaint in check(root, "c++", 2)]


def test_headers_that_stand_alone_are_good(tree: MakeTree) -> None:
    assert complaints(tree(GOOD)) == []


def test_bindings_are_compiled_where_nanobind_is(
    tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({**GOOD, "python/bindings/b.hpp": "#pragma once\nstd::string s();\n"})

    monkeypatch.setattr(check_headers, "binding_flags", lambda: [])
    assert complaints(root) == []
    monkeypatch.setattr(check_headers, "binding_flags", lambda: ["-DNANOBIND"])
    assert [line.partition(":")[0] for line in complaints(root)] == ["python/bindings/b.hpp"]


def test_a_header_that_leans_on_its_includer_is_named(tree: MakeTree) -> None:
    (complaint,) = complaints(tree({**GOOD, "src/base/q.hpp": "#pragma once\nstd::string s();\n"}))

    assert complaint.startswith("src/base/q.hpp:1: does not compile alone: ")
    assert "std" in complaint


def test_a_header_without_a_guard_is_named(tree: MakeTree) -> None:
    (complaint,) = complaints(tree({**GOOD, "src/base/q.hpp": "struct Q {};\n"}))

    assert "redefinition" in complaint


def test_what_its_own_source_includes_first_is_compiled_there(tree: MakeTree) -> None:
    leaning = {"src/base/q.hpp": "#pragma once\nstd::string s();\n"}
    first = {"src/base/q.cpp": '// Q.\n#include "base/q.hpp"\n\n#include <string>\n'}
    later = {"src/base/q.cpp": '#include <string>\n\n#include "base/q.hpp"\n'}

    assert complaints(tree({**GOOD, **leaning, **first})) == []
    assert len(complaints(tree({**GOOD, **leaning, **later}))) == 1


def test_what_is_compiled_elsewhere_needs_a_guard_too(tree: MakeTree) -> None:
    bad = {"src/base/q.hpp": "struct Q {};\n", "src/base/q.cpp": '#include "base/q.hpp"\n'}

    assert complaints(tree({**GOOD, **bad})) == ["src/base/q.hpp:1: has no #pragma once"]


def test_tests_are_not_compiled_elsewhere(tree: MakeTree) -> None:
    bad = {
        "tests/support/q.hpp": "#pragma once\nstd::string s();\n",
        "tests/support/q.cpp": '#include "support/q.hpp"\n',
    }

    assert len(complaints(tree({**GOOD, **bad}))) == 1


def test_a_public_header_sees_no_private_one(tree: MakeTree) -> None:
    bad = {"include/unisono/b.hpp": '#pragma once\n#include "base/p.hpp"\n'}

    (complaint,) = complaints(tree({**GOOD, **bad}))

    assert complaint.startswith("include/unisono/b.hpp:1: ")
