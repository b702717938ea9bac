"""The kind that docs/howto/your-own-kind.md shows, taken from the page as it stands."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from types import ModuleType

from app.kinds.base import OneCall

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "your-own-kind.md"
_BLOCK = re.compile(r"```python\n(# translate\.py\n.*?)```", re.DOTALL)


@functools.cache
def source() -> str:
    """The file that the page shows."""
    found = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(found) == 1, "the page shows translate.py once"
    return found[0]


@functools.cache
def translate() -> OneCall:
    """Its KIND, from a module made of the page's own text."""
    module = ModuleType("translate_of_the_docs")
    sys.modules[module.__name__] = module  # Dataclasses look their module up.
    exec(compile(source(), str(PAGE), "exec"), vars(module))
    kind: OneCall = module.KIND
    return kind
