"""ping, stats, keys: a look at a server, ours or another's."""

from __future__ import annotations

from tests.cli.program import NEEDS_PROGRAM, Client, wait_until

pytestmark = NEEDS_PROGRAM


def test_ping_says_who_answers(any_store: Client) -> None:
    any_store.run("set", "k", "v")
    document = any_store.json("ping")

    assert document["schema"] == "unisono-store-ping/1"
    assert document["endpoint"] == any_store.endpoint
    family = any_store.kind.partition("-")[0]
    server = "file" if "file" in any_store.kind else {"torch": "other"}.get(family, family)
    assert document["server"] == server
    assert 0 < document["round_trip_ms"] < 5000
    assert any_store.out("ping").startswith(f"answers: {any_store.endpoint}")


def test_stats_tell_of_a_server_of_ours(store: Client) -> None:
    store.run("set", "k", "value")
    document = store.json("stats")

    assert document["schema"] == "unisono-store-stats/1"
    assert document["keys"] == 1
    assert document["bytes"] > 0
    assert document["connections"] == 1
    assert document["waits"] == 0
    assert document["uptime_ms"] >= 0
    assert document["requests"]["set"] == 1
    assert document["limits"]["value_bytes"] == 8 * 1024 * 1024
    text = store.out("stats")
    assert "keys         1 of " in text
    assert "set 1" in text


def test_stats_count_those_who_wait(store: Client) -> None:
    with store.started("wait", "never"):
        wait_until("its wait", lambda: store.json("stats")["waits"] == 1)


def test_stats_of_others_say_what_can_be_known(any_store: Client) -> None:
    any_store.run("set", "k", "value")
    result = any_store.run("stats")

    assert result.returncode == 0
    assert "keys " in result.stdout
    if any_store.kind.startswith("unisono"):
        assert result.stderr == ""
    else:
        assert "more is not known" in result.stderr
        assert any_store.json("stats")["keys"] >= 1


def test_keys_that_are_no_text_are_shown_safely(store: Client) -> None:
    store.run("set", "line\nbreak", "v")

    assert store.out("keys") == "line\\x0abreak\n"
    assert store.json("keys")["keys"] == ["line\nbreak"]


def test_nothing_matches_is_no_failure(store: Client) -> None:
    assert store.out("keys", "x*") == ""
    assert store.json("keys", "x*")["keys"] == []
