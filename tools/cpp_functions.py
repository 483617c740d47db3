"""Finds the functions of a C++ file and how long they are, by following its braces.

No parser: it knows scopes (namespaces, classes), initialisers and constructor lists well enough
for code that clang-format has laid out. A lambda counts as part of the function it stands in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree import line_of, strip_cpp

_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\(?:\n|.))*", re.MULTILINE)
_ACCESS = re.compile(r"\s*(?:public|private|protected)\s*:(?!:)")
_DECORATION = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)", re.DOTALL)
_SCOPE = re.compile(r'(?:inline\s+)?namespace\b|extern\s*"|export\b')
_TYPE = re.compile(r"(?:typedef\s+|static\s+|constexpr\s+|const\s+)*(?:class|struct|union|enum)\b")
_MEMBER_LIST = re.compile(r"\)[\w\s()]*:(?!:)")
_NAME = re.compile(
    r"((?:[\w~]+(?:<[^<>()]*>)?::)*(?:operator[^\w\s]{1,3}|operator[\w\s*&]+|~?\w+))\s*\("
)
_TEST = re.compile(r"\b(TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\s*\(([^()]*)\)")


@dataclass(frozen=True)
class Function:
    """A function, where it begins, and how many lines it has from its first word to its `}`."""

    name: str
    line: int
    lines: int


def _without_template(head: str) -> str:
    """`head` without a leading template<…> or requires clause's template list."""
    head = head.strip()
    while head.startswith("template"):
        depth = 0
        for i, char in enumerate(head):
            depth += (char == "<") - (char == ">")
            if char == ">" and depth == 0:
                head = head[i + 1 :].strip()
                break
        else:
            break
    return head


def _closing(text: str, opening: int) -> int:
    """The offset of the brace that closes the one at `opening`, or the end of the text."""
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return len(text) - 1


def _kind(head: str) -> str:
    """What the brace after `head` opens: a "scope", a "function" or an "initialiser"."""
    head = _without_template(_DECORATION.sub(" ", head))
    if not head or _SCOPE.match(head) or _TYPE.match(head):
        return "scope" if head else "initialiser"
    if "(" not in head or head.endswith(("=", ",", "(", "return")):
        return "initialiser"
    if _MEMBER_LIST.search(head) and re.search(r"[\w>]$", head):
        return "initialiser"  # of one member: `: a_(1), b_{2}`
    return "function"


def _name(head: str) -> str:
    head = " ".join(_without_template(_DECORATION.sub(" ", head)).split())
    test = _TEST.search(head)
    if test:
        return f"{test[1]}({test[2]})"
    found = _NAME.search(head)
    return found[1].strip() if found else head[:40]


def find_functions(text: str) -> list[Function]:
    """The functions of a C++ source, in order."""
    code = strip_cpp(text)
    code = _PREPROCESSOR.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), code)
    functions = []
    start = 0  # where the declaration that we are in begins
    i = 0
    while i < len(code):
        char = code[i]
        if char in ";}":
            start = i + 1
        elif char == "{":
            access = _ACCESS.match(code, start)
            if access:
                start = access.end()
                continue  # there may be another one
            head = code[start:i]
            kind = _kind(head)
            if kind == "scope":
                start = i + 1
            elif kind == "initialiser":
                i = _closing(code, i)  # the declaration goes on
            else:
                first = line_of(code, start + len(head) - len(head.lstrip()))
                i = _closing(code, i)
                functions.append(Function(_name(head), first, line_of(code, i) - first + 1))
                start = i + 1
        i += 1
    return functions
