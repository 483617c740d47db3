"""python -m unisono.torch build: builds the backend for the PyTorch that is installed now."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import urllib.parse
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """What the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m unisono.torch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build and install unisono for the PyTorch here")
    build.add_argument("source", nargs="?", type=Path, help="unisono's source folder, if it moved")
    given = parser.parse_args(arguments)
    source = given.source or installed_from()
    if source is None or not (source / "pyproject.toml").is_file():
        where = "is not known" if source is None else f"is not in {source}"
        print(
            f"unisono: the source that it was installed from {where}. DO: python -m unisono.torch "
            "build <unisono's source folder>. [CONFIG]",
            file=sys.stderr,
        )
        return 2
    # Without isolation: an isolated build sees no torch, and leaves the backend out.
    options = ["--no-build-isolation", "--no-deps", "--force-reinstall"]
    return subprocess.call([sys.executable, "-m", "pip", "install", *options, str(source)])


def installed_from() -> Path | None:
    """The folder that pip installed this package from, if it was one."""
    record = importlib.metadata.distribution("unisono").read_text("direct_url.json")
    url = urllib.parse.urlsplit(json.loads(record)["url"]) if record else None
    return Path(urllib.parse.unquote(url.path)) if url and url.scheme == "file" else None
