from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tree import Complaint, run_check, strip_cpp, walk

MakeTree = Callable[[dict[str, str]], Path]


def test_comments_and_literals_are_blanked_and_lines_stay() -> None:
    code = 'int a = 1; // sleep()\n/* sleep()\n */ f("sleep()", \'"\', R"x(sleep()\n)x"); g();\n'

    stripped = strip_cpp(code)

    assert "sleep" not in stripped
    assert stripped.count("\n") == code.count("\n")
    assert "int a = 1;" in stripped
    assert stripped.rstrip().endswith("g();")


def test_digit_separators_do_not_begin_a_literal() -> None:
    assert strip_cpp("int a = 1'000'000; f('x');") == "int a = 1'000'000; f(' ');"


def test_strings_can_be_kept() -> None:
    assert strip_cpp('#include "a//b.hpp" // c', keep_strings=True).strip() == '#include "a//b.hpp"'


def test_walk_leaves_out_what_is_not_ours(tree: MakeTree) -> None:
    root = tree({"src/a.cpp": "", "src/a.txt": "", "build/b.cpp": "", ".venv/c.cpp": ""})

    assert [path.name for path in walk(root, (".",), (".cpp",))] == ["a.cpp"]


def test_the_exit_code_tells_whether_there_were_complaints(tmp_path: Path) -> None:
    arguments = ["--root", str(tmp_path)]

    assert run_check("x", "", lambda root: [], arguments) == 0
    assert run_check("x", "", lambda root: [Complaint("a", 1, "bad")], arguments) == 1
