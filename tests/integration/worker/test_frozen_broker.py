"""A broker that is frozen takes connections and says nothing: nobody waits for it for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import BrokerUnavailable
from app.worker import doorbell, reaching
from tests.commands import giveway
from tests.freezing import Freezing, freezing
from tests.integration.worker.conftest import BROKERS
from tests.processes import until
from tests.rig import MakeRig, Rig

MOST_S = 3.0


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, rabbitmq_url: Callable[[], str]) -> Iterator[Freezing]:
    """Each broker behind a relay."""
    is_valkey = request.param == "valkey"
    url = request.getfixturevalue("fresh_broker_url") if is_valkey else rabbitmq_url()
    with freezing(url) as one:
        yield one


@pytest.fixture
def one(rig: MakeRig, broker: Freezing) -> Rig:
    """A job that is not rung for yet."""
    made = rig(broker={"url": broker.url})
    made.submit(["one", "two"])
    return made


def took_s(work: Callable[[], Any]) -> float:
    began_s = time.monotonic()
    work()
    return time.monotonic() - began_s


def test_a_ring_on_a_connection_that_froze_is_given_up_and_the_next_ones_at_once(
    one: Rig, broker: Freezing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "_SILENT_S", 60.0)
    with reaching.celery_of(one.wiring):
        bell = one.wiring.doorbell
        assert bell.ring([(1, "embed")]) == 1
        broker.freeze()
        rung: list[int] = []

        assert took_s(lambda: rung.append(bell.ring([(1, "embed")]))) < MOST_S
        assert took_s(lambda: rung.append(one.wiring.ringing.ring_all())) < 0.9
        assert rung == [0, 0]
        broker.thaw()
        monkeypatch.setattr(bell, "_silent_until_s", 0.0)
        until(lambda: bell.ring([(1, "embed")]) == 1, 20, "a ring that goes out")


def test_whoever_submits_is_back_at_once_and_the_job_is_there(
    one: Rig, broker: Freezing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "one"}\n')
    url = one.wiring.settings.database.url
    assert url is not None
    monkeypatch.setenv("GIVEWAY_DATABASE__URL", url.get_secret_value())
    monkeypatch.setenv("GIVEWAY_BROKER__URL", broker.url)
    monkeypatch.setenv(
        "GIVEWAY_ENDPOINTS", one.wiring.settings.model_dump_json(include={"endpoints"})[13:-1]
    )
    monkeypatch.chdir(tmp_path)
    command = ("submit", "embed", str(texts), "--model", "fake-embed", "--key", "k")
    broker.freeze()

    assert took_s(lambda: giveway(*command, "--collection", "docs")) < MOST_S
    assert one.one("SELECT state FROM jobs WHERE key = 'k'") == "ready"


def test_a_command_that_waits_for_answers_says_that_there_are_none(
    one: Rig, broker: Freezing
) -> None:
    broker.freeze()

    def wait() -> None:
        with pytest.raises(BrokerUnavailable), reaching.celery_that_answers(one.wiring):
            pass

    assert took_s(wait) < MOST_S
