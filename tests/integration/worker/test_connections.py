"""A channel on Redis or Valkey keeps its client, and everything is named as ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

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
