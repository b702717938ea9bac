"""The one place that asks the machine for the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The wall clock, aware, in UTC. For stamps that people read; never for measuring."""
    return datetime.now(UTC)


def monotonic_s() -> float:
    """Seconds on a clock that never jumps. For durations and deadlines inside one process."""
    return time.monotonic()
