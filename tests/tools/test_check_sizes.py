from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from check_sizes import check
from cpp_functions import find_functions

MakeTree = Callable[[dict[str, str]], Path]

SOURCE = """\
#define TWO(x) { x; \\
  }
namespace a {
namespace {
constexpr int kTable[] = {
    1, 2,
};
}  // namespace

class Thing UNISONO_CAPABILITY("x") : public Base<int> {
 public:
  Thing() : first_(1), second_{2, {3}} {
    run([] { return 1; });
  }
  int get() const noexcept { return first_; }

 private:
  std::atomic<int> count_{0};
  alignas(64) int first_;
};

template <typename T, typename = std::enable_if_t<(sizeof(T) > 1)>>
[[nodiscard]] auto Thing::find(const std::map<T, int>& all) -> std::optional<int> {
  for (const auto& [key, value] : all) {
    if (key == '{') {
      return std::optional<int>{value};
    }
  }
  return "}}}";
}

bool operator==(const Thing& a, const Thing& b) {
  return true;
}

enum class Kind { A, B };

TEST(ThingTest, Works) {
  EXPECT_TRUE(true);
}
}  // namespace a
"""


def long_function(lines: int) -> str:
    return "void f() {\n" + "  g();\n" * (lines - 2) + "}\n"


def complaints(root: Path) -> list[str]:
    return [str(complaint) for complaint in check(root)]


def test_functions_are_found_with_their_lengths() -> None:
    found = {(function.name, function.lines) for function in find_functions(SOURCE)}

    assert found == {
        ("Thing", 3),
        ("get", 1),
        ("Thing::find", 9),
        ("operator==", 3),
        ("TEST(ThingTest, Works)", 3),
    }


def test_a_long_function_is_named(tree: MakeTree) -> None:
    root = tree({"src/a.cpp": long_function(60) + "\n" + long_function(61)})

    assert complaints(root) == ["src/a.cpp:62: f has 61 lines, 60 are allowed"]


def test_a_long_python_function_is_named(tree: MakeTree) -> None:
    root = tree({"tools/a.py": "def f():\n" + "    g()\n" * 60})

    assert complaints(root) == ["tools/a.py:1: f has 61 lines, 60 are allowed"]


def test_a_long_file_is_named_and_tests_may_be_longer(tree: MakeTree) -> None:
    text = "int a;\n" * 601
    root = tree({"src/a.hpp": text, "tests/base/a_test.cpp": text, "scripts/a.sh": text})

    assert [complaint.split(":")[0] for complaint in sorted(complaints(root))] == [
        "scripts/a.sh",
        "src/a.hpp",
    ]


def test_an_exemption_lifts_the_limit_and_must_be_needed(tree: MakeTree) -> None:
    root = tree(
        {
            "src/a.cpp": long_function(70),
            "tools/size_exemptions.txt": "src/a.cpp::f 70 one long table\n"
            "src/b.cpp 900 gone\nsrc/c.cpp no number\n",
        }
    )

    assert sorted(complaints(root)) == [
        "tools/size_exemptions.txt:2: src/b.cpp needs no exemption any more",
        "tools/size_exemptions.txt:3: must be: path limit reason",
    ]


def test_an_exemption_has_a_limit_too(tree: MakeTree) -> None:
    root = tree(
        {"src/a.cpp": long_function(71), "tools/size_exemptions.txt": "src/a.cpp::f 70 a table\n"}
    )

    assert complaints(root) == ["src/a.cpp:1: f has 71 lines, 70 are allowed"]
