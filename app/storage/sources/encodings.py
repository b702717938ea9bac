"""Encodings by the names that people give them, and the bytes that are no text in them."""

from __future__ import annotations

import codecs

from app.errors import BadSource, UsageError
from app.storage.sources.wrong_bytes import wrong_byte

UTF_8 = "utf-8"


def encoding_named(name: str | None) -> str | None:
    """Python's own name for the encoding `name`; None: none was given. UsageError: no such."""
    if name is None:
        return None
    try:
        "".encode(name)  # Refuses what is known but makes no text, such as base64.
        # The mark that utf-8-sig wants is passed over as it is.
        return codecs.lookup(name).name.removesuffix("-sig")
    except (LookupError, ValueError):
        raise UsageError(
            f"no encoding {name!r}; such as cp1252, latin-1, utf-16-le, shift_jis or gb18030"
        ) from None


def keeps_lines(codec: str) -> bool:
    """Whether a file in `codec` can be cut into lines before it is decoded."""
    return "\n".encode(codec) == b"\n"


def by_mark(codec: str, marked: str, name: str) -> str:
    """The codec of the file called `name`, said to be `codec`, whose mark says it is `marked`.

    BadSource: they contradict each other.
    """
    if marked.startswith(codec):
        return marked
    raise BadSource(f"{name}: its byte order mark says {marked}, not {codec}; leave --encoding out")


def wrong_text(error: UnicodeDecodeError, offset: int, codec: str) -> str:
    """Why a line of a text file cannot be read, and what would be right. `offset` as `wrong_byte`
    has it."""
    if codec == UTF_8:
        return f"{wrong_byte(error, offset)}; if it is cp1252, say so with --encoding cp1252"
    return f"{wrong_byte(error, offset, codec)}; is that the right --encoding?"
