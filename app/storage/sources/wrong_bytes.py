"""The sentence about bytes that are no text."""

from __future__ import annotations


def wrong_byte(error: UnicodeDecodeError, offset: int, encoding: str = "UTF-8") -> str:
    """Why a line cannot be read. `offset` is the place of the byte in the file, from 0."""
    return f"not {encoding}: byte 0x{error.object[error.start]:02x} at offset {offset}"
