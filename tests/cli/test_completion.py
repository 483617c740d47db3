"""`unisono completion`: the scripts, in the shells that they are for."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.program import NEEDS_PROGRAM, PROGRAM, assert_one_line, run

pytestmark = NEEDS_PROGRAM

LIMIT = 20.0


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason=f"{shell} is not installed: apt-get install {shell}"
    )


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program under its name, in a home without settings."""
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}:{os.environ['PATH']}")


class Terminal:
    """A shell that believes it talks to a person."""

    def __init__(self, home: Path, *command: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", HOME=str(home), ZDOTDIR=str(home))
            os.execvp(command[0], command)

    def until(self, text: bytes) -> bytes:
        seen = b""
        end = time.monotonic() + LIMIT
        while text not in seen:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} did not come: {seen!r}"
            if select.select([self.fd], [], [], left)[0]:
                seen += os.read(self.fd, 4096)
        return seen

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def test_bash_knows_commands_and_options() -> None:
    script = run("completion", "bash").stdout

    def offered(*words: str) -> set[str]:
        line = " ".join(f"'{word}'" for word in words)
        ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _unisono; echo ${{COMPREPLY[*]}}"
        bash = subprocess.run(
            ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
        )
        assert bash.stderr == ""
        return set(bash.stdout.split())

    assert {"store", "info"} <= offered("unisono", "")
    assert offered("unisono", "store", "wa") == {"wait", "watch"}
    assert "--force" in offered("unisono", "store", "load", "--f")
    assert offered("unisono", "store", "get", "key", "--he") == {"--help", "--hex"}
    assert {"--nproc-per-node", "--max-restarts"} <= offered("unisono", "run", "--")
    assert {"--compare", "--baseline", "--minbytes"} <= offered("unisono", "bench", "--")
    assert "--as-rank" not in offered("unisono", "bench", "--"), "it is not for people"


def test_every_command_and_option_of_the_help_is_completed() -> None:
    script = run("completion", "bash").stdout
    ways = re.findall(r"^    '(unisono[^']*)'\) commands='([^']*)' options='([^']*)'", script, re.M)
    assert len(ways) > 15
    for path, commands, options in ways:
        text = run(*path.split()[1:], "--help").stdout
        listed = text.split("Commands:\n")[1].split("\n\n")[0] if "Commands:\n" in text else ""
        assert re.findall(r"^  ([a-z]\w+)", listed, re.M) == commands.split(), path
        assert set(re.findall(r"^  (?:-\w,)?(--[a-z][\w-]*)", text, re.M)) <= set(
            options.split()
        ), path


@needs("zsh")
@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("prepared", ["autoload -U compinit && compinit -u -D", "true"])
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("unisono sto", "unisono store "),
        ("unisono store get k --js", "unisono store get k --json "),
    ],
)
def test_zsh_completes_what_is_typed(
    tmp_path: Path, prepared: str, typed: str, completed: str
) -> None:
    shell = Terminal(tmp_path, "zsh", "-f", "-i")
    try:
        shell.type(f"{prepared}; source <(unisono completion zsh); echo re''ady\n")
        loading = shell.until(b"\nready")
        assert b"not found" not in loading
        shell.type(f"{typed}\t")
        shell.until(completed.encode())
    finally:
        shell.end()


@needs("fish")
@pytest.mark.usefixtures("on_path")
def test_fish_knows_commands_and_options(tmp_path: Path) -> None:
    def offered(line: str) -> set[str]:
        fish = subprocess.run(
            ["fish", "-N", "-c", f"unisono completion fish | source; complete -C '{line}'"],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            check=True,
        )
        assert fish.stderr == ""
        return set(fish.stdout.split())

    assert {"run", "bench", "store", "doctor", "info", "completion"} == offered("unisono ")
    assert offered("unisono store wa") == {"wait", "watch"}
    assert offered("unisono store get k --he") == {"--help", "--hex"}
    assert offered("unisono store set --ve") == {"--verbose"}
    assert offered("unisono --ve") == {"--version"}


def test_an_unknown_shell_is_refused() -> None:
    assert_one_line(run("completion", "tcsh"), 2)
