"""Checks that the documents say what the code does.

Every environment variable that code reads is in docs/environment.md, and nothing else is; every
reason of an error has a heading in docs/errors.md, and errors of the store say what to do; relative
links between documents lead somewhere; nothing in the tree names a package registry or a path of
somebody's machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from tree import CPP_SUFFIXES, Complaint, line_of, run_check, strip_cpp, walk

ENVIRONMENT = "docs/environment.md"
ERRORS = "docs/errors.md"
REASONS = "include/unisono/base/error.hpp"

KNOB = re.compile(r'\bUNISONO_KNOB\s*\([^"]*"(UNISONO_\w+)"')
DOCUMENTED = re.compile(r"^(?:#+|\|)\s*`(UNISONO_\w+)`", re.MULTILINE)
REASON_ENUM = re.compile(r"enum\s+class\s+Reason\b[^{]*\{([^}]*)\}")
THROWN = re.compile(r"\bthrow\s+\w+Error\s*\(\s*(?=\{\s*\.reason\b)")
# Rooms whose errors reach users as they are; in others somebody adds to them on their way.
REMEDIED = ("src/net", "src/store", "cli/verbs", "bench/store")
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^()\s]+)\)|!\[[^\]\n]*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.MULTILINE)

# Never in the tree. Written so that this file does not contain what it looks for.
FORBIDDEN = {
    r"\bpypi[.]org\b|\bpythonhosted[.]org\b|\bnpmjs[.](?:org|com)\b": "names a package registry",
    r"\b(?:deb|security|snapshot|ftp)[.]debian[.]org\b": "names a package registry",
    r"\bdownload[.]pytorch[.]org\b": "names a package registry",
    r"--(?:extra-)?index-url\b": "names a package index; pip's own configuration does",
    r"(?<![\w.*-])/[w]ork/": "is a path of somebody's machine",
    r"(?:[.][.]/)+shared\b": "leads out of the repository",
}


def known_knobs(root: Path) -> Iterator[tuple[str, str, int]]:
    """The variables that code reads: name, file, line."""
    for path in walk(root, ("src", "cli"), CPP_SUFFIXES):
        text = strip_cpp(path.read_text(), keep_strings=True)
        for match in KNOB.finditer(text):
            yield match[1], path.relative_to(root).as_posix(), line_of(text, match.start())


def check_environment(root: Path) -> list[Complaint]:
    page = root / ENVIRONMENT
    text = page.read_text() if page.is_file() else ""
    knobs = list(known_knobs(root))
    complaints = [
        Complaint(where, line, f"{name} is not in {ENVIRONMENT}")
        for name, where, line in knobs
        if not re.search(rf"`{name}`", text)
    ]
    names = {name for name, _, _ in knobs}
    for match in DOCUMENTED.finditer(text):
        if match[1] not in names:
            text_ = f"no code reads {match[1]}"
            complaints.append(Complaint(ENVIRONMENT, line_of(text, match.start()), text_))
    return complaints


def check_reasons(root: Path) -> list[Complaint]:
    header = root / REASONS
    if not header.is_file():
        return []
    found = REASON_ENUM.search(strip_cpp(header.read_text()))
    tokens = re.findall(r"\b[A-Z][A-Z0-9_]+\b", found[1]) if found else []
    page = root / ERRORS
    headings = " ".join(HEADING.findall(page.read_text())) if page.is_file() else ""
    return [
        Complaint(ERRORS, 1, f"reason {token} has no heading")
        for token in tokens
        if not re.search(rf"\b{token}\b", headings)
    ]


def braced(text: str, start: int) -> str:
    """What is between the brace at `start` and the one that closes it."""
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[start:end]
    return text[start:]


def check_remedies(root: Path) -> list[Complaint]:
    complaints = []
    for path in walk(root, REMEDIED, CPP_SUFFIXES):
        text = strip_cpp(path.read_text())
        for match in THROWN.finditer(text):
            if ".hint" not in braced(text, match.end()):
                where = path.relative_to(root).as_posix()
                text_ = "an error that does not say what to do: give it a .hint"
                complaints.append(Complaint(where, line_of(text, match.start()), text_))
    return complaints


def anchor(heading: str) -> str:
    """The anchor that a heading gets on the usual hosts."""
    text = re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose(text: str) -> str:
    """Markdown without its code, line by line."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return INLINE_CODE.sub(blank, FENCE.sub(blank, text))


def link_problem(root: Path, page: Path, target: str) -> str:
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return ""
    name, _, fragment = unquote(target).partition("#")
    goal = (page.parent / name).resolve() if name else page
    if not goal.is_relative_to(root):
        return f"the link {target} leads out of the repository"
    if not goal.exists():
        return f"the link {target} leads nowhere"
    if fragment and goal.suffix == ".md":
        headings = HEADING.findall(FENCE.sub("", goal.read_text()))
        if fragment not in {anchor(heading) for heading in headings}:
            return f"the link {target} leads to no heading"
    return ""


def check_links(root: Path) -> list[Complaint]:
    complaints = []
    for page in walk(root, (".",), (".md",)):
        text = prose(page.read_text())
        for match in LINK.finditer(text):
            problem = link_problem(root, page, match[1] or match[2])
            if problem:
                where = page.relative_to(root).as_posix()
                complaints.append(Complaint(where, line_of(text, match.start()), problem))
    return complaints


def check_words(root: Path) -> list[Complaint]:
    complaints = []
    for path in walk(root, (".",)):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # no text
        where = path.relative_to(root).as_posix()
        for pattern, why in FORBIDDEN.items():
            for match in re.finditer(pattern, text):
                text_ = f"{match.group()} {why}"
                complaints.append(Complaint(where, line_of(text, match.start()), text_))
    return complaints


def check(root: Path) -> list[Complaint]:
    return [
        *check_environment(root),
        *check_reasons(root),
        *check_remedies(root),
        *check_links(root),
        *check_words(root),
    ]


if __name__ == "__main__":
    sys.exit(run_check("docs", "Checks that the documents say what the code does.", check))
