"""Events of tasks go out several together, and none stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery.app import trace
from celery.worker import strategy

from app import clock
from app.worker.consuming import EventsTogether


class Hub:
    """What was put off, to be done by hand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], Any]] = []
        self.later: list[tuple[float, Callable[[], Any]]] = []

    def call_soon(self, work: Callable[[], Any]) -> None:
        self.soon.append(work)

    def call_later(self, after_s: float, work: Callable[[], Any]) -> None:
        self.later.append((after_s, work))


class Dispatcher:
    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


@pytest.fixture
def consumer() -> Any:
    one = EventsTogether.__new__(EventsTogether)
    one.hub, one.event_dispatcher = Hub(), Dispatcher()
    return one


def a_moment_later(consumer: Any) -> None:
    for work in consumer.hub.soon:
        work()
    for _, work in consumer.hub.later:
        work()
    consumer.hub.soon, consumer.hub.later = [], []


def test_fifty_events_are_sent_once_and_the_next_ones_again(consumer: Any) -> None:
    for _ in range(50):
        consumer.on_send_event_buffered()
    assert len(consumer.hub.soon) == 1
    a_moment_later(consumer)
    assert consumer.event_dispatcher.flushes == 1

    consumer.on_send_event_buffered()
    a_moment_later(consumer)
    assert consumer.event_dispatcher.flushes == 2


def test_a_sending_that_was_lost_with_its_connection_is_put_off_anew(
    consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s)
    consumer.on_send_event_buffered()
    consumer.hub.soon = []
    consumer.on_send_event_buffered()
    assert consumer.hub.soon == []
    now_s += 1.1
    consumer.on_send_event_buffered()
    assert len(consumer.hub.soon) == 1


def test_celerys_lines_a_request_go_by_the_names_that_we_silence() -> None:
    assert strategy.logger.name == "celery.worker.strategy"
    assert trace.logger.name == "celery.app.trace"
