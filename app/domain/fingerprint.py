"""Fingerprints: 16 bytes that are equal exactly where the content is equal.

A fingerprint is BLAKE2b-128 over a version and parts, each preceded by its length, so that no two
lists of parts read the same. It is stored, and a rerun over unchanged content compares it: change
what goes in only together with `VERSION`, since every stored one then counts as changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from app.domain.cleaning import JSON

VERSION: Final = b"giveway-content-1"
SIZE_BYTES: Final = 16


def fingerprint(*parts: str | bytes) -> bytes:
    """16 bytes for `parts` in this order. `("ab", "c")` and `("a", "bc")` differ; text is UTF-8."""
    running = _begun()
    for part in parts:
        _add(running, part)
    return running.digest()


def content_hash(text: str, params: Mapping[str, JSON]) -> bytes:
    """16 bytes for `text` treated with `params`. For many texts make a `ContentHash` once."""
    return ContentHash(params).of(text)


class ContentHash:
    """The content hash of many texts under the same parameters, which are hashed once.

    `params` is whatever changes the result (model, dimension, prefix, what is done about length).
    The order of its keys does not matter, and 1.0 counts as 1, because jsonb gives either back.
    NaN or infinity in it is a ValueError.
    """

    __slots__ = ("_running",)

    def __init__(self, params: Mapping[str, JSON]) -> None:
        self._running = _begun()
        _add(self._running, canonical(dict(params)))

    def of(self, text: str) -> bytes:
        """16 bytes for exactly this text under these parameters."""
        running = self._running.copy()
        _add(running, text)
        return running.digest()


def canonical(value: JSON) -> str:
    """The one JSON text for `value`: sorted keys, no spaces, ASCII, whole floats as integers."""
    return json.dumps(
        _whole(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def _whole(value: JSON) -> JSON:
    match value:
        case float() if math.isfinite(value) and value == int(value):
            return int(value)
        case dict():
            return {key: _whole(item) for key, item in value.items()}
        case list() | tuple():
            return [_whole(item) for item in value]
        case _:
            return value


def _begun() -> blake2b:
    running = blake2b(digest_size=SIZE_BYTES)
    _add(running, VERSION)
    return running


def _add(running: blake2b, part: str | bytes) -> None:
    # Texts are cleaned before they come here; a lone surrogate must still not stop a hash.
    data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
    running.update(len(data).to_bytes(8, "big"))
    running.update(data)
