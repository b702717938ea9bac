"""Statements as people write them, without the semicolon and the comments behind them.

Only so much is understood of SQL as is needed to know where quotes and comments end.
"""

from __future__ import annotations

import re
from typing import Final

_BACKSLASHES: Final = ("mysql", "mariadb")
"""In texts of these a backslash escapes."""
_PARTS: Final = r"""
      (?P<blank> \s+ | --[^\n]* {hash} )
    | (?P<comment> /\* )
    | (?P<end> ; )
    | (?P<quoted> [eE]'(?:[^'\\]|\\.|'')*' | '(?:{text})*' | "(?:[^"]|"")*" | `(?:[^`]|``)*`
        | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$ )
    | (?P<word> [\w$]+ )
    | (?P<other> . )
"""
_PLAIN: Final = re.compile(_PARTS.format(hash="", text="[^']|''"), re.VERBOSE | re.DOTALL)
_ESCAPING: Final = re.compile(
    _PARTS.format(hash=r"| \#[^\n]*", text=r"[^'\\]|\\.|''"), re.VERBOSE | re.DOTALL
)
_MARK: Final = re.compile(r"/\*|\*/")


def without_end(statement: str, backend: str) -> str:
    """`statement` up to its last word: no semicolon, no blank and no comment behind it.

    Several statements stay several: the database refuses them.
    """
    tokens = _ESCAPING if backend in _BACKSLASHES else _PLAIN
    at, last = 0, 0
    while (found := tokens.match(statement, at)) is not None:
        at = found.end()
        match found.lastgroup:
            case "comment":
                at = _comment_end(statement, at, nested=backend == "postgresql")
            case "blank" | "end":
                pass
            case _:
                last = at
    return statement[:last]


def as_table(statement: str) -> str:
    """`statement` as what another selects from. It stands on lines of its own, so that a comment
    at its end does not swallow the bracket."""
    return f"(\n{statement}\n) giveway_source"


def as_condition(expression: str) -> str:
    """`expression` after WHERE or AND, in the same manner."""
    return f"(\n{expression}\n)"


def _comment_end(statement: str, at: int, *, nested: bool) -> int:
    """Where the comment ends whose inside begins `at`; its opening itself where it never does."""
    depth, begin = 1, at
    for mark in _MARK.finditer(statement, at):
        depth += -1 if mark[0] == "*/" else int(nested)
        if depth == 0:
            return mark.end()
    return begin
