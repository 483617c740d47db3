"""clang-tidy looks at every source that has changed, and only at those."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import check_tidy
import pytest
from marks import Marks

PROGRAM = "clang-tidy-14"
pytestmark = pytest.mark.skipif(
    shutil.which(PROGRAM) is None or shutil.which("clang++-14") is None,
    reason=f"{PROGRAM} is not installed: run scripts/setup.sh checks",
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with one source and its header, and marks of its own."""
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "build" / "tidy").mkdir(parents=True)
    (root / ".clang-tidy").write_text(
        "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\nHeaderFilterRegex: '/src/'\n"
    )
    (root / "src" / "one.hpp").write_text("inline int* none() { return nullptr; }\n")
    (root / "src" / "one.cpp").write_text('#include "one.hpp"\nint* other() { return none(); }\n')
    source = root / "src" / "one.cpp"
    command = f"clang++-14 -std=c++20 -o one.o -c {source}"
    entry = {"directory": str(root / "build" / "tidy"), "command": command, "file": str(source)}
    (root / "build" / "tidy" / "compile_commands.json").write_text(json.dumps([entry]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


def check(root: Path) -> int:
    return check_tidy.main(["--root", str(root), "-j", "1"])


def test_good_sources_are_good_and_marked(tree: Path, tmp_path: Path) -> None:
    assert check(tree) == 0
    assert len(list((tmp_path / "cache" / "unisono-tidy").iterdir())) == 1


def test_what_has_not_changed_is_not_looked_at_again(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(tree) == 0
    monkeypatch.setattr(
        Marks, "add", lambda marks, name: pytest.fail(f"{name} was looked at again")
    )

    assert check(tree) == 0


@pytest.mark.parametrize("name", ["one.cpp", "one.hpp"])
def test_a_mistake_in_a_source_or_its_header_is_found_after_a_good_run(
    tree: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tree) == 0
    path = tree / "src" / name
    path.write_text(path.read_text() + f"inline int* {path.suffix[1:]}Zero() {{ return 0; }}\n")

    assert check(tree) == 1
    assert check(tree) == 1, "a bad one is never marked"
    assert f"src/{name}:" in capsys.readouterr().out


def test_a_comment_for_clang_tidy_counts_as_a_change(tree: Path) -> None:
    path = tree / "src" / "one.cpp"
    path.write_text(path.read_text() + "int* zero() { return 0; }  // NOLINT\n")
    assert check(tree) == 0
    path.write_text(path.read_text().replace("  // NOLINT", ""))

    assert check(tree) == 1


def test_other_rules_look_at_everything_again(tree: Path) -> None:
    path = tree / "src" / "one.cpp"
    path.write_text(path.read_text() + "int  BadName() { return 1; }\n")
    assert check(tree) == 0
    rules = tree / ".clang-tidy"
    rules.write_text(
        rules.read_text().replace("nullptr'", "nullptr,readability-identifier-naming'")
        + "CheckOptions:\n  - {key: readability-identifier-naming.FunctionCase, value: camelBack}\n"
    )

    assert check(tree) == 1


@pytest.mark.parametrize("named", [[], ["one"], ["two"]])
def test_sources_that_are_compiled_as_one_are_looked_at_together(
    tree: Path, named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    build = tree / "build" / "tidy"
    (tree / "src" / "two.cpp").write_text("int* zero() { return 0; }\n")
    sources = [tree / "src" / f"{name}.cpp" for name in ("one", "two")]
    both = build / "both.cxx"
    both.write_text("".join(f'#include "{source}"\n' for source in sources))
    entries = [
        {
            "directory": str(build),
            "command": f"clang++-14 -std=c++20 -o {unit.stem}.o -c {unit}",
            "file": str(unit),
        }
        for unit in (both, build / "written_by_the_build.cpp")
    ]
    (build / "compile_commands.json").write_text(json.dumps(entries))
    files = [str(tree / "src" / f"{name}.cpp") for name in named]

    assert check_tidy.main(["--root", str(tree), "-j", "1", *files]) == 1
    assert "src/two.cpp:1:" in capsys.readouterr().out


def test_a_source_that_does_not_compile_is_a_complaint(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "src" / "one.cpp").write_text('#include "missing.hpp"\n')

    assert check(tree) == 1
    assert "missing.hpp" in capsys.readouterr().out
