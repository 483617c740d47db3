from __future__ import annotations

from proofs import TITLE, replace_section, table


def test_the_first_proof_makes_the_page() -> None:
    assert replace_section("", "kill", "good\n") == TITLE + "\n## kill\n\ngood\n"


def test_a_proof_replaces_only_its_own_section() -> None:
    page = replace_section(replace_section("", "a", "old a"), "b", "old b\n\n### part\n\nof b")

    page = replace_section(page, "a", "new a")
    page = replace_section(page, "b", "new b")

    assert page == TITLE + "\n## a\n\nnew a\n\n## b\n\nnew b\n"


def test_a_name_that_begins_another_is_another() -> None:
    page = replace_section(replace_section("", "kill", "1"), "kill-all", "2")

    assert replace_section(page, "kill", "3") == TITLE + "\n## kill\n\n3\n\n## kill-all\n\n2\n"


def test_figures_become_rows() -> None:
    figures: dict[str, object] = {"rounds": 10, "wait_ms": {"p50": 0.25, "max": 3.0}, "ok": True}

    assert table(figures).splitlines()[2:] == [
        "| rounds | 10 |",
        "| wait ms p50 | 0.25 |",
        "| wait ms max | 3 |",
        "| ok | true |",
    ]
