"""Writes docs/reference: the commands as --help shows them, and Python as its docstrings say it.

    .venv/bin/python tools/make_reference.py

Needs the program in build/release/bin and the installed package. tests/docs/test_reference.py holds
the pages to what this makes.
"""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "release" / "bin" / "unisono"
FOLDER = ROOT / "docs" / "reference"
NOTE = "Made by tools/make_reference.py; not to be edited.\n"


def help_of(*words: str) -> str:
    done = subprocess.run(
        [str(PROGRAM), *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
        timeout=60,
    )
    return done.stdout.rstrip()


def commands_in(text: str) -> list[str]:
    """The names below "Commands:"."""
    _, _, rest = text.partition("Commands:\n")
    lines = rest.partition("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]


def command_pages(*words: str) -> Iterator[str]:
    text = help_of(*words)
    yield f"## {' '.join(('unisono', *words))}\n\n```text\n{text}\n```\n"
    for name in commands_in(text):
        yield from command_pages(*words, name)


def command_line() -> str:
    head = f"# Commands\n\n{NOTE}\n[Command line](../command_line.md) says what they are for.\n"
    return "\n".join([head, *command_pages()])


def docstring(thing: object) -> str:
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def signature(thing: Callable[..., object]) -> str:
    """As in the source, without `self`."""
    found = inspect.signature(thing)
    kept = [each for name, each in found.parameters.items() if name != "self"]
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(found.replace(parameters=kept)))


def members(kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    """Public methods, those of bases of ours first, in the order of the source."""
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "unisono":
            for name, member in vars(base).items():
                if not name.startswith("_") and inspect.isfunction(member):
                    yield name, member


def entry(name: str, thing: object) -> str:
    if inspect.isclass(thing):
        is_error = issubclass(thing, BaseException)
        bases = ", ".join(base.__name__ for base in thing.__bases__) if is_error else ""
        parts = [f"### {name}{f'({bases})' if bases else ''}\n\n{docstring(thing)}\n"]
        for method, member in members(thing):
            if not is_error:
                parts.append(f"#### `{method}{signature(member)}`\n\n{docstring(member)}\n")
        return "\n".join(parts)
    if callable(thing):
        return f"### `{name}{signature(thing)}`\n\n{docstring(thing)}\n"
    return ""


def python() -> str:
    pages = [f"# Python\n\n{NOTE}\n[The Python package](../python.md) says what it is for.\n"]
    for module_name in ("unisono", "unisono.functional", "unisono.hooks", "unisono.testing"):
        module = importlib.import_module(module_name)
        pages.append(f"## {module_name}\n")
        for name in sorted(module.__all__, key=str.lower):
            thing = getattr(module, name)
            if not inspect.ismodule(thing) and not isinstance(thing, str):
                pages.append(entry(name, thing))
    return "\n".join(page for page in pages if page)


PAGES = {"command_line.md": command_line, "python.md": python}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make())
        print(f"docs/reference/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()
