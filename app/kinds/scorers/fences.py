"""Fences: the marks that models put around code."""

from __future__ import annotations

import re

_FENCED = re.compile(r"\A\s*```[\w+-]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


def unfenced(text: str) -> str:
    """What stands between ``` marks that enclose all of `text`; else `text`."""
    found = _FENCED.match(text)
    return text if found is None else found[1]
