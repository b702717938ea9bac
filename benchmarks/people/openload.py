"""The load: everybody comes when they are due, whoever still waits. One generator for all.

A wait counts from the moment at which the request was *due*.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from app.domain.load import LoadPlan, arrivals

PATIENCE_S = 30.0
_THREADS = 128

Over = Callable[[bool], None]
"""Told once, by any thread, whether the request went well."""


class Start(Protocol):
    """Begins a request and returns at once."""

    def __call__(self, number: int, over: Over) -> None: ...


@dataclass(frozen=True, slots=True)
class Played:
    """Of those who are counted. A wait of None: no answer in time, or an error."""

    waits_ms: tuple[float | None, ...]
    late_ms: tuple[float, ...]


def due(rps: float, warm_up_s: float, seconds: float, seed: int) -> list[float]:
    """When each is due, in seconds after the start, the warm-up included. By chance (Poisson)."""
    return arrivals(LoadPlan("", rps=rps, seconds=warm_up_s + seconds, seed=seed))


def play(start: Start, dues: Sequence[float], warm_up_s: float, mark: Callable[[], None]) -> Played:
    """Everybody's waits but those of the warm-up. `mark` is called when the warm-up is over."""
    waits: list[float | None] = [None] * len(dues)
    late = [0.0] * len(dues)
    left = threading.Semaphore(0)
    began = time.perf_counter() + 0.05

    def over(number: int, ok: bool) -> None:
        if ok:
            waits[number] = (time.perf_counter() - began - dues[number]) * 1000
        left.release()

    is_marked = False
    for number, due_s in enumerate(dues):
        if due_s >= warm_up_s and not is_marked:
            is_marked = True
            mark()
        time.sleep(max(0.0, began + due_s - time.perf_counter()))
        late[number] = (time.perf_counter() - began - due_s) * 1000
        start(number, partial(over, number))
    until = time.monotonic() + PATIENCE_S
    for _ in dues:
        if not left.acquire(timeout=max(0.0, until - time.monotonic())):
            break
    counted = [number for number, due_s in enumerate(dues) if due_s >= warm_up_s]
    return Played(tuple(waits[n] for n in counted), tuple(late[n] for n in counted))


class Threads:
    """Begins requests that block, each in a thread that is kept."""

    def __init__(self, ask: Callable[[int], object]) -> None:
        """`ask` raises where the request did not go well."""
        self._ask = ask
        self._pool = ThreadPoolExecutor(_THREADS, "people")

    def __call__(self, number: int, over: Over) -> None:
        self._pool.submit(self._run, number, over)

    def _run(self, number: int, over: Over) -> None:
        try:
            self._ask(number)
        except Exception:  # noqa: BLE001 - counted, whatever it was
            over(False)
        else:
            over(True)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True)
