from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import check_headers
import pytest
from check_headers import check
from marks import Marks

MakeTree = Callable[[dict[str, str]], Path]

GOOD = {
    "VERSION": "0.1.0\n",
    "cmake/version.hpp.in": '#pragma once\n#define V "@PROJECT_VERSION@"\n',
    "include/unisono/a.hpp": '#pragma once\n#include "unisono/version.hpp"\ninline auto v = V;\n',
    "src/base/p.hpp": '#pragma once\n#include "unisono/a.hpp"\ninline auto w = v;\n',
}


@pytest.fixture(autouse=True)
def own_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "unisono-headers"


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

    (complaint,) = complaints(tree({**GOOD, **leaning, **first}))
    assert complaint.startswith("src/base/q.cpp:1: does not compile alone: ")
    (complaint,) = complaints(tree({**GOOD, **leaning, **later}))
    assert complaint.startswith("src/base/q.hpp:1: does not compile alone: ")


def test_a_source_that_leans_on_another_is_named(tree: MakeTree) -> None:
    (complaint,) = complaints(tree({**GOOD, "src/base/q.cpp": "std::string s();\n"}))

    assert complaint.startswith("src/base/q.cpp:1: does not compile alone: ")


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


def test_what_was_good_is_not_compiled_again_until_it_changes(
    tree: MakeTree, own_marks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(GOOD)
    assert complaints(root) == []
    assert len(list(own_marks.iterdir())) == 2

    with monkeypatch.context() as patch:
        patch.setattr(Marks, "add", lambda marks, name: pytest.fail("once more"))
        assert complaints(root) == []
    (root / "src/base/p.hpp").write_text("#pragma once\nstd::string s();\n")
    assert len(complaints(root)) == 1
