from __future__ import annotations

from check_explored import EXEMPT, check

from tests.tools.conftest import MakeTree

LIST = """
  set(explored
    base/futex.cpp
    life/word.cpp transport/shm/pipe.cpp)
"""
FILES = {
    "tests/CMakeLists.txt": LIST,
    "src/base/futex.cpp": "int futexWait();",
    "src/base/other.cpp": "// futexWait() is elsewhere",
    "src/life/word.cpp": "",
    "src/transport/shm/pipe.cpp": "",
    "src/store/a.cpp": "",
}


def complaints(
    tree: MakeTree,
    more: dict[str, str] | None = None,
    exempt: dict[str, str] | None = None,
) -> list[str]:
    return [str(one) for one in check(tree({**FILES, **(more or {})}), exempt or {})]


def test_a_tree_whose_protocols_are_all_explored_is_good(tree: MakeTree) -> None:
    assert complaints(tree) == []


def test_a_new_file_of_a_protocol_is_named(tree: MakeTree) -> None:
    (complaint,) = complaints(tree, {"src/collective/new.cpp": "int x;"})

    assert complaint.startswith("src/collective/new.cpp:1: ")
    assert "tests/CMakeLists.txt" in complaint


def test_shared_memory_in_another_room_is_named(tree: MakeTree) -> None:
    (complaint,) = complaints(tree, {"src/store/b.cpp": "void f() { futexWake(word); }"})

    assert complaint.startswith("src/store/b.cpp:1: ")


def test_an_exemption_is_enough(tree: MakeTree) -> None:
    new = "src/collective/new.cpp"

    assert complaints(tree, {new: ""}, exempt={new: "does nothing"}) == []


def test_what_is_not_there_any_more_is_named(tree: MakeTree) -> None:
    (gone,) = complaints(tree, exempt={"src/life/old.cpp": "was good"})
    (stale,) = complaints(tree, exempt={"src/life/word.cpp": "is explored"})
    root = tree(FILES)
    (root / "src/life/word.cpp").unlink()
    (missing,) = (str(one) for one in check(root, {}))

    assert "src/life/old.cpp is exempt, but there is no such file" in gone
    assert "needs no exemption" in stale
    assert missing.startswith("tests/CMakeLists.txt:4: src/life/word.cpp")


def test_a_tree_without_a_list_is_bad(tree: MakeTree) -> None:
    assert len(check(tree({"tests/CMakeLists.txt": "set(other a.cpp)"}), {})) == 1


def test_every_exemption_has_a_reason() -> None:
    assert all(len(reason) > 10 for reason in EXEMPT.values())
