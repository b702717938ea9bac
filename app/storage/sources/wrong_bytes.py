"""The sentence about bytes that are no UTF-8."""

from __future__ import annotations


def wrong_byte(error: UnicodeDecodeError, offset: int) -> str:
    """Why a line cannot be read. `offset` is the place of the byte in the file, from 0."""
    return f"not UTF-8: byte 0x{error.object[error.start]:02x} at offset {offset}"
