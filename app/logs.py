"""Logging set-up: one line a record, secrets masked before any handler sees them."""

from __future__ import annotations

import logging
import re
import sys

_SECRETS = (
    # To the last @ before the next address: a password may hold one, or a slash, unescaped.
    (re.compile(r"(://[^:/\s]*:)(?:(?!://)\S)+@"), r"\1***@"),
    (re.compile(r"(?i)(bearer\s+)[A-Za-z0-9._~+/=-]+"), r"\1***"),
    (re.compile(r"\b(sk-)[A-Za-z0-9_-]{8,}"), r"\1***"),
)


def masked(text: str) -> str:
    """`text` with passwords in URLs, bearer tokens and API keys replaced by ***."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class MaskSecrets(logging.Filter):
    """Masks the finished message; put on handlers, so that it covers every logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = masked(record.getMessage())
        record.args = None
        return True


def configure(level: str | int = "INFO") -> None:
    """Send the root logger to standard error, one line a record. Safe to call again."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    handler.addFilter(MaskSecrets())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper() if isinstance(level, str) else level)
