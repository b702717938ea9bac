"""Rings between ticks: while a chunk is at work, and no longer."""

from __future__ import annotations

import threading

from app.errors import DatabaseUnavailable
from app.worker.filling import Filling
from tests.waiting import until


def test_it_rings_while_any_chunk_is_at_work_and_then_stops() -> None:
    rings: list[str] = []
    filling = Filling(lambda: rings.append(threading.current_thread().name), every_s=0.01)

    with filling.working(), filling.working():
        until(lambda: len(rings) >= 3, 5, "rings")
    until(lambda: "filling" not in [one.name for one in threading.enumerate()], 5, "its end")
    rang = len(rings)
    threading.Event().wait(0.05)

    assert set(rings) == {"filling"}
    assert len(rings) == rang
    with filling.working():
        until(lambda: len(rings) > rang, 5, "rings again")


def test_a_database_that_is_away_does_not_end_it() -> None:
    rings: list[int] = []

    def ring() -> None:
        rings.append(len(rings))
        raise DatabaseUnavailable("away")

    with Filling(ring, every_s=0.01).working():
        until(lambda: len(rings) >= 3, 5, "rings")
