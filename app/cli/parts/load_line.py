"""The live line of `giveway load`: how many, and what the last of them waited."""

from __future__ import annotations

import sys
import threading
from collections import deque
from types import TracebackType
from typing import Self

from app import clock
from app.cli import render
from app.cli.parts.progress import EVERY_S
from app.domain.load import LoadPlan, Waited, percentile

_LATEST = 200


class LiveLine:
    """A line on standard error, redrawn in place where somebody watches. Thread-safe."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._latest: deque[float] = deque(maxlen=_LATEST)
        self._ok = 0
        self._failed = 0
        self._in_place = render.on_terminal()
        self._began = self._said_at = clock.monotonic_s()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._in_place:
            sys.stderr.write("\r\x1b[K")

    def saw(self, waited: Waited) -> None:
        """One more request is over."""
        with self._lock:
            if waited.code is None:
                self._ok += 1
                self._latest.append(waited.latency_ms)
            else:
                self._failed += 1
            now = clock.monotonic_s()
            if now - self._said_at < (0.2 if self._in_place else EVERY_S):
                return
            self._said_at = now
            p95 = render.ms(percentile(sorted(self._latest), 0.95))
            said = (
                f"{now - self._began:.0f} of {self._plan.seconds:g} s: {self._ok:,} ok, "
                f"{self._failed:,} failed, P95 of the last {len(self._latest)}: {p95}"
            )
            sys.stderr.write(f"\r\x1b[K{said}" if self._in_place else f"{said}\n")
            sys.stderr.flush()
