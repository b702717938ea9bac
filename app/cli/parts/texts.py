"""Texts that people give to options: as they are, or `@FILE`, which holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from app.errors import UsageError

_FILE: Final = "@"


def text_of(said: str) -> str:
    """`said`, or what the file holds that it names as `@FILE`; `@@` begins a text with an @.

    A line end at the end of the file is no part of the text. UsageError: it cannot be read.
    """
    if not said.startswith(_FILE):
        return said
    name = said.removeprefix(_FILE)
    if name.startswith(_FILE):
        return name
    hint = "for a text that begins with @, write @@"
    if not name:
        raise UsageError(f"@ wants the name of a file; {hint}")
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: cannot be read: it is no UTF-8") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise UsageError(f"{name}: cannot be read: {why}; {hint}") from None
    return text.removesuffix("\n")
