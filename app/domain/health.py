"""Health of an endpoint: a breaker that all processes share, and peers to compare it with."""

from __future__ import annotations

from enum import StrEnum


class Breaker(StrEnum):
    """CLOSED: it gets work. OPEN: it gets none. HALF_OPEN: it gets one probe at a time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
