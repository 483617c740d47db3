"""TCPStores of processes that have the job's secret."""

from __future__ import annotations

from pathlib import Path

import pytest

import unisono.distributed as dist

SECRET = "UNISONO_AUTH_SECRET"


def test_a_store_takes_the_secret_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("known to nobody else\n")
    file.chmod(0o600)
    monkeypatch.setenv("UNISONO_AUTH_SECRET_FILE", str(file))
    monkeypatch.setenv("UNISONO_STORE_ADMIT_LOCAL", "0")
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    monkeypatch.delenv("UNISONO_AUTH_SECRET_FILE")

    monkeypatch.setenv(SECRET, "known to nobody else")
    client = dist.TCPStore("127.0.0.1", server.port)
    client.set("k", "v")
    assert server.get("k") == b"v"

    monkeypatch.setenv(SECRET, "known to somebody else")
    with pytest.raises(dist.DistAuthError, match="another secret") as caught:
        dist.TCPStore("127.0.0.1", server.port)
    assert caught.value.reason == "AUTH_FAILED"

    monkeypatch.delenv(SECRET)
    with pytest.raises(dist.DistNetworkError, match="UNISONO_AUTH_SECRET_FILE"):
        dist.TCPStore("127.0.0.1", server.port, timeout=0.3)


def test_with_a_secret_a_server_may_be_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNISONO_ALLOW_UNAUTHENTICATED", raising=False)
    monkeypatch.setenv(SECRET, "known to nobody else")
    assert dist.TCPStore("0.0.0.0", 0, is_master=True).port > 0


def test_a_file_that_others_may_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("known to everybody\n")
    file.chmod(0o644)
    monkeypatch.setenv("UNISONO_AUTH_SECRET_FILE", str(file))
    with pytest.raises(dist.DistError, match="open to others") as caught:
        dist.TCPStore("127.0.0.1", 0, is_master=True)
    assert caught.value.reason == "CONFIG"
