from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from check_docs import anchor, check

MakeTree = Callable[[dict[str, str]], Path]

GOOD = {
    "src/base/a.cpp": 'UNISONO_KNOB(double, kTime, "UNISONO_TIME", "1",\n  "seconds");\n',
    "src/base/a.hpp": '// UNISONO_KNOB(int, kOther, "UNISONO_OTHER", "1", "an example");\n',
    "docs/environment.md": "# Environment\n\n| `UNISONO_TIME` | 1 | seconds |\n",
    "include/unisono/base/error.hpp": "enum class Reason {\n  TIMEOUT,  // PASSED\n  LIMIT,\n};\n",
    "docs/errors.md": "# Errors\n\n## `TIMEOUT`\n\n### LIMIT: too much\n",
    "README.md": "[a](docs/errors.md#limit-too-much), [b](#here), [c](https://a.b)\n# Here\n",
}


def complaints(tree: MakeTree, more: dict[str, str]) -> list[str]:
    return [str(complaint) for complaint in check(tree({**GOOD, **more}))]


def test_a_good_tree_has_no_complaints(tree: MakeTree) -> None:
    assert complaints(tree, {}) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "cli/b.cpp",
            'UNISONO_KNOB(int, kB,\n  "UNISONO_B", "1", "doc");\n',
            "cli/b.cpp:1: UNISONO_B is not in docs/environment.md",
        ),
        (
            "docs/environment.md",
            "| `UNISONO_TIME` |\n| `UNISONO_GONE` |\n",
            "docs/environment.md:2: no code reads UNISONO_GONE",
        ),
        (
            "src/store/b.cpp",
            'throw DistStoreError(\n  {.reason = Reason::LIMIT, .what = str("{", f({1}))});\n',
            "src/store/b.cpp:1: an error that does not say what to do",
        ),
        ("docs/errors.md", "# LIMIT too much\n", "docs/errors.md:1: reason TIMEOUT has no heading"),
        ("docs/a.md", "\nsee [b](b.md)\n", "docs/a.md:2: the link b.md leads nowhere"),
        ("docs/a.md", "[b](../../b.md)\n", "leads out of the repository"),
        ("docs/a.md", "[b](errors.md#nothing)\n", "leads to no heading"),
        ("docs/a.md", "pypi" + ".org\n", "names a package registry"),
        ("scripts/a.sh", "pip install --index" + "-url x\n", "names a package index"),
        ("src/a.cpp", "// see /" + "work/main\n", "is a path of somebody's machine"),
        ("src/a.cpp", "// see ../" + "shared/spec\n", "leads out of the repository"),
    ],
)
def test_a_wrong_word_is_named(tree: MakeTree, path: str, text: str, expected: str) -> None:
    more = {} if path != "docs/errors.md" else {"README.md": ""}
    (complaint,) = complaints(tree, {**more, path: text})

    assert expected in complaint


def test_an_error_that_says_what_to_do_is_good(tree: MakeTree) -> None:
    text = 'throw UsageError({.reason = Reason::LIMIT, .what = f({1}), .hint = "use less"});\n'

    assert complaints(tree, {"src/net/b.cpp": text}) == []


def test_a_room_called_work_is_no_path_of_a_machine(tree: MakeTree) -> None:
    assert (
        complaints(tree, {"a.txt": "src/work/options.hpp and include/unisono/work/work.hpp"}) == []
    )


def test_links_in_code_do_not_count(tree: MakeTree) -> None:
    assert complaints(tree, {"docs/a.md": "`[a](b)`\n```\n[c](d)\n```\n"}) == []


def test_anchors_are_those_of_the_usual_hosts() -> None:
    assert anchor("`LIMIT`: too much, [really](x.md)!") == "limit-too-much-really"
