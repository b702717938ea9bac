"""Fences: the marks that models put around code."""

from __future__ import annotations

import re

_MARK = re.compile(r"`{3,}|~{3,}")
_INLINE = re.compile(r"(`{1,2})([^`\n]+)\1")
_LANGUAGE_LINE = re.compile(r"[ \t]*(?:[\w+.-]+(?:[ \t][^\n`]*)?)?\r?\n")
_LANGUAGE = re.compile(r"[A-Za-z][\w+.-]*(?=\s|[\[{\"])")


def unfenced(text: str) -> str:
    """What stands between ``` or ~~~ marks, or those of code in a line, that enclose all of
    `text`; else `text`."""
    whole = text.strip()
    if (inline := _INLINE.fullmatch(whole)) is not None:
        return inline[2]
    found = _MARK.match(whole)
    if found is None or not whole.endswith(found[0]) or len(whole) < 2 * len(found[0]):
        return text
    inner = whole[found.end() : -len(found[0])]
    language = (_LANGUAGE_LINE if "\n" in inner.strip() else _LANGUAGE).match(inner)
    return inner[language.end() if language else 0 :].strip()
