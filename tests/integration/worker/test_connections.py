"""A channel on Redis or Valkey keeps its client, and everything is named as ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery.states import FAILURE, SUCCESS

from app.worker.results import close_backend
from tests.rig import MakeRig


@pytest.fixture
def connection(rig: MakeRig, fresh_broker_url: str) -> Iterator[Any]:
    app = rig().with_broker(fresh_broker_url)
    with app.connection_for_read() as one:
        yield one


def client_of(channel: Any) -> Any:
    with channel.conn_or_acquire() as client:
        return client


def test_a_message_costs_no_client_of_its_own(connection: Any) -> None:
    channel = connection.default_channel
    first = client_of(channel)
    assert first.ping()
    assert client_of(channel) is first


def test_a_client_goes_with_the_connections_it_had(connection: Any) -> None:
    channel = connection.default_channel
    first = client_of(channel)
    channel._disconnect_pools()
    assert client_of(channel) is not first
    assert client_of(channel).ping()


def test_a_connection_has_its_urls_scheme_and_its_copies_are_like_it(connection: Any) -> None:
    assert connection.as_uri().startswith("redis://")
    copy = connection.clone()
    assert type(copy) is type(connection)
    assert copy.as_uri() == connection.as_uri()


@pytest.fixture
def results(rig: MakeRig, fresh_broker_url: str) -> Iterator[Any]:
    backend = rig().with_broker(fresh_broker_url).backend
    yield backend
    close_backend(backend)


def test_an_answer_is_stored_in_one_round_trip(
    results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "get", lambda _: pytest.fail("it looked first"))
    results.store_result("one", {"text": "Yes."}, SUCCESS)
    monkeypatch.undo()
    stored = results.get_task_meta("one")
    assert (stored["status"], stored["result"]) == (SUCCESS, {"text": "Yes."})


def test_a_late_failure_does_not_take_the_place_of_an_answer(results: Any) -> None:
    """As when a message was delivered twice."""
    results.store_result("one", {"text": "Yes."}, SUCCESS)
    results.store_result("one", ValueError("too late"), FAILURE)
    assert results.get_task_meta("one")["status"] == SUCCESS
