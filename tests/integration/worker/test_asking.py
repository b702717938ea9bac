"""What a caller costs and keeps: one listener a process, kept connections, an end to every wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import UUID

import pytest
import redis
from amqp.exceptions import ChannelError
from celery import Celery
from kombu import pools

from app.domain.load import LoadPlan
from app.errors import BrokerUnavailable, ServerFault, Unavailable
from app.local.bare import embedded_valkey_at
from app.settings import Settings
from app.worker import asking, listening
from app.worker.asking import Asker
from app.worker.config import configuration
from app.worker.load import run_load
from app.worker.results import close_backend
from tests.answering import answering
from tests.integration.worker.conftest import BROKERS
from tests.processes import until

# Celery's own way to store a result, which workers use: here it runs in the test's process.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")


def an_app(broker_url: str, **broker: str) -> Celery:
    app = Celery("giveway", set_as_current=False)
    app.conf.update(configuration(Settings(broker={"url": broker_url, **broker})))
    return app


@pytest.fixture
def apps() -> Iterator[Callable[..., Celery]]:
    """Makes apps; what they opened is closed after the test."""
    with ExitStack() as stack:

        def make(broker_url: str, **broker: str) -> Celery:
            app = an_app(broker_url, **broker)
            stack.callback(pools.reset)
            stack.callback(lambda: close_backend(app.backend))
            return app

        yield make


@pytest.fixture
def broker(
    request: pytest.FixtureRequest, rabbitmq_url: Callable[[], str], apps: Callable[..., Celery]
) -> Celery:
    """An app on the broker that the test names, whose interactive queue is empty."""
    if request.param == "valkey":
        return apps(request.getfixturevalue("fresh_broker_url"))
    app = apps(rabbitmq_url())
    with app.connection_for_write() as connection:
        app.amqp.queues["interactive"](connection.channel()).declare()
        connection.default_channel.queue_purge("interactive")
    return app


def listeners() -> int:
    return sum(thread.name == "results" for thread in threading.enumerate())


def asked(prompt: str) -> dict[str, str]:
    return {"prompt": prompt, "model": "fake-chat"}


def subscriptions(asker: Asker, app: Celery) -> int:
    """How many the broker knows of, of this asker."""
    source = asker._sender._results._source
    if source.reply_to is None:
        with redis.Redis.from_url(app.conf.broker_url) as client:
            return client.pubsub_numpat() + len(client.pubsub_channels("celery-task-meta-*"))
    with app.connection_for_read() as connection:
        told = connection.default_channel.queue_declare(source.reply_to, passive=True)
        return told.consumer_count


@pytest.mark.parametrize("broker", BROKERS, indirect=True)
def test_all_who_ask_in_a_process_share_one_listener(broker: Celery) -> None:
    before = threading.active_count()
    with (
        answering(broker) as worker,
        closing(Asker(lambda: broker, lambda _: None)) as asker,
        ThreadPoolExecutor(30) as people,
    ):
        told = [people.submit(asker.ask, "chat", asked(f"word {n}"), 20) for n in range(30)]
        worker.wait_for(30)

        assert listeners() == 1
        assert threading.active_count() == before + 30 + 2  # The people; the listener, the worker.
        assert subscriptions(asker, broker) == 1

        worker.answer_all()
        assert [one.result()["text"] for one in told] == [f"word {n}"[::-1] for n in range(30)]
        assert asker._sender._results.waiting == 0
    assert listeners() == 0


@pytest.mark.parametrize("broker", BROKERS, indirect=True)
def test_an_error_is_the_leaf_that_the_worker_raised(broker: Celery) -> None:
    with (
        answering(broker) as worker,
        closing(Asker(lambda: broker, lambda _: None)) as asker,
        ThreadPoolExecutor(1) as people,
    ):
        told = people.submit(asker.ask, "chat", asked("hello"), 20)
        worker.wait_for(1)
        worker.fail(worker.came[0], ServerFault("HTTP 500"))

        with pytest.raises(ServerFault, match="HTTP 500"):
            told.result()


@pytest.mark.parametrize("broker", BROKERS, indirect=True)
def test_who_gives_up_takes_the_request_back_and_leaves_nothing(
    broker: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GRACE_S", 0.0)
    taken_back: list[UUID] = []
    with (
        answering(broker) as worker,
        closing(Asker(lambda: broker, taken_back.append)) as asker,
    ):
        with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
            asker.ask("chat", asked("hello"), 0.3)
        worker.wait_for(1)
        first = worker.came[0]

        assert taken_back == [UUID(first)]
        assert asker._sender._results.waiting == 0
        worker.answer(first)  # Nobody hears it, and the next one does not take it for its own.
        worker.at_once = True
        assert asker.ask("chat", asked("abc"), 20)["text"] == "cba"


@pytest.mark.parametrize("broker", BROKERS, indirect=True)
def test_when_nobody_asks_for_long_nobody_listens_and_the_next_one_is_heard(
    broker: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_LOOK_S", 0.05)
    monkeypatch.setattr(listening, "_IDLE_S", 0.1)
    with (
        answering(broker, at_once=True),
        closing(Asker(lambda: broker, lambda _: None)) as asker,
    ):
        for _ in range(2):
            assert asker.ask("chat", asked("abc"), 20)["text"] == "cba"
            until(lambda: listeners() == 0, 10, "the end of the listener")


def test_what_was_delivered_is_not_kept_and_a_closed_asker_is_not_subscribed(
    fresh_broker_url: str, apps: Callable[..., Celery]
) -> None:
    app = apps(fresh_broker_url)
    with redis.Redis.from_url(fresh_broker_url) as client:
        with answering(app, at_once=True), closing(Asker(lambda: app, lambda _: None)) as asker:
            for n in range(3):
                asker.ask("chat", asked(f"{n}"), 20)
        until(lambda: client.pubsub_numpat() == 0, 5, "the end of the subscription")
        assert client.keys("celery-task-meta-*") == []


@pytest.mark.parametrize("looks", [True, False], ids=["", "mutant: nobody looks"])
def test_an_answer_whose_notice_was_lost_is_found(
    fresh_broker_url: str,
    apps: Callable[..., Celery],
    monkeypatch: pytest.MonkeyPatch,
    *,
    looks: bool,
) -> None:
    monkeypatch.setattr(listening, "_LOOK_S", 0.1)
    monkeypatch.setattr(asking, "GRACE_S", 0.0)
    if not looks:
        monkeypatch.setattr(listening._Notices, "missed", lambda _self, _ids: ())
    app = apps(fresh_broker_url)
    with (
        answering(app) as worker,
        closing(Asker(lambda: app, lambda _: None)) as asker,
        ThreadPoolExecutor(1) as people,
        redis.Redis.from_url(fresh_broker_url) as client,
    ):
        told = people.submit(asker.ask, "chat", asked("hello"), 20 if looks else 1.0)
        worker.wait_for(1)
        result = worker.backend._get_result_meta({"text": "found"}, "SUCCESS", None, None)
        result["task_id"] = worker.came[0]
        key = worker.backend.get_key_for_task(worker.came[0])
        client.set(key, worker.backend.encode(result), ex=60)

        if looks:
            assert told.result()["text"] == "found"
        else:
            with pytest.raises(Unavailable):
                told.result()


def _cut(asker: Asker, app: Celery) -> None:
    """Cut the listener's connection, from outside where that can be."""
    source = asker._sender._results._source
    if source.reply_to is None:
        with redis.Redis.from_url(app.conf.broker_url) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    else:
        source._connection.connection.transport.sock.shutdown(2)


@pytest.mark.parametrize("broker", BROKERS, indirect=True)
def test_a_listener_that_lost_its_connection_still_hears_every_answer(broker: Celery) -> None:
    with (
        answering(broker) as worker,
        closing(Asker(lambda: broker, lambda _: None)) as asker,
        ThreadPoolExecutor(20) as people,
    ):
        told = [people.submit(asker.ask, "chat", asked(f"word {n}"), 20) for n in range(20)]
        worker.wait_for(20)
        _cut(asker, broker)
        worker.answer_all()  # Some of it, or all, while nobody listens.

        assert [one.result()["text"] for one in told] == [f"word {n}"[::-1] for n in range(20)]
        assert listeners() == 1


@pytest.mark.parametrize("broker", BROKERS[1:], indirect=True)
@pytest.mark.parametrize("stays", [True, False], ids=["", "mutant: goes with its listener"])
def test_on_rabbitmq_replies_are_kept_while_the_listener_is_away(
    broker: Celery, monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    monkeypatch.setattr(listening, "_AGAIN_S", 1.0)
    monkeypatch.setattr(asking, "GRACE_S", 0.0)
    with (
        answering(broker) as worker,
        closing(Asker(lambda: broker, lambda _: None)) as asker,
        ThreadPoolExecutor(1) as people,
    ):
        asker._ready()._results._source._queue.auto_delete = not stays
        told = people.submit(asker.ask, "chat", asked("abc"), 20 if stays else 3)
        worker.wait_for(1)

        def is_away() -> bool:
            try:
                return subscriptions(asker, broker) == 0
            except ChannelError:
                return not stays

        _cut(asker, broker)
        until(is_away, 5, "the end of the listener's connection")
        worker.answer_all()

        if stays:
            assert told.result()["text"] == "cba"
        else:
            with pytest.raises(Unavailable):
                told.result()


def test_a_broker_that_goes_away_is_said_in_time_and_found_again(
    folder: Path, apps: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GRACE_S", 0.5)
    with ExitStack() as first, ThreadPoolExecutor(1) as people:
        url = first.enter_context(embedded_valkey_at(folder))
        app, port = apps(url), int(url.rpartition(":")[2].partition("/")[0])
        with closing(Asker(lambda: app, lambda _: None)) as asker:
            with answering(app) as worker:
                waits = people.submit(asker.ask, "chat", asked("hello"), 2.0)
                worker.wait_for(1)
            first.close()  # With its answer not yet given, and lost with all else.
            began = time.monotonic()
            with pytest.raises(BrokerUnavailable, match="the broker went away"):
                asker.ask("chat", asked("hello"), 20)
            assert time.monotonic() - began < 10
            with pytest.raises(Unavailable):
                waits.result(20)
            with embedded_valkey_at(folder, port) as again:
                assert again == url
                with answering(app, at_once=True):
                    assert asker.ask("chat", asked("abc"), 20)["text"] == "cba"


def test_a_broker_that_hangs_is_said_in_time(
    folder: Path, apps: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_PUBLISH_S", 0.3)
    with embedded_valkey_at(folder) as url, redis.Redis.from_url(url) as client:
        app, process = apps(url), int(client.info("server")["process_id"])
        with answering(app, at_once=True), closing(Asker(lambda: app, lambda _: None)) as asker:
            assert asker.ask("chat", asked("abc"), 20)["text"] == "cba"
            os.kill(process, signal.SIGSTOP)
            try:
                with pytest.raises(BrokerUnavailable, match="the broker went away"):
                    asker.ask("chat", asked("hello"), 20)
            finally:
                os.kill(process, signal.SIGCONT)
            assert asker.ask("chat", asked("abc"), 20)["text"] == "cba"


def test_a_result_backend_that_tells_nobody_is_looked_at(
    fresh_broker_url: str, apps: Callable[..., Celery], tmp_path: Path
) -> None:
    app = apps(fresh_broker_url, result_url=tmp_path.as_uri())
    with answering(app, at_once=True), closing(Asker(lambda: app, lambda _: None)) as asker:
        assert asker.ask("chat", asked("abc"), 20)["text"] == "cba"


_FORKS = """
import os, sys
from tests.integration.worker.test_asking import an_app, asked
from app.worker.asking import Asker

app = an_app(sys.argv[1])
asker = Asker(lambda: an_app(sys.argv[1]), lambda _: None)
assert asker.ask("chat", asked("before"), 20)["text"] == "erofeb"
child = os.fork()
if child == 0:
    try:
        assert asker.ask("chat", asked("child"), 20)["text"] == "dlihc"
        asker.close()
        os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0, "the child got no answer"
assert asker.ask("chat", asked("after"), 20)["text"] == "retfa"
asker.close()
print("both")
"""


@pytest.mark.parametrize("broker", BROKERS, indirect=True)
def test_a_forked_process_has_connections_of_its_own(broker: Celery) -> None:
    with answering(broker, at_once=True):
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _FORKS, broker.conf.broker_url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
    assert ran.stdout == "both\n", ran.stderr


def test_asking_costs_the_broker_no_command_but_the_message_and_its_event(
    fresh_broker_url: str, apps: Callable[..., Celery]
) -> None:
    app = apps(fresh_broker_url)
    with redis.Redis.from_url(fresh_broker_url) as client:

        def calls() -> dict[str, int]:
            told = client.info("commandstats")
            names = ("subscribe", "psubscribe", "unsubscribe", "mget", "del", "lpush")
            return {name: told.get(f"cmdstat_{name}", {}).get("calls", 0) for name in names}

        with answering(app, at_once=True), closing(Asker(lambda: app, lambda _: None)) as asker:
            asker.ask("chat", asked("first"), 20)
            before, began = calls(), time.monotonic()
            for n in range(50):
                asker.ask("chat", asked(f"{n}"), 20)
            looks = int(time.monotonic() - began) + 1
            came = {name: count - before[name] for name, count in calls().items()}

    assert came["lpush"] == 50
    assert came["subscribe"] == came["psubscribe"] == came["unsubscribe"] == 0
    assert came["mget"] <= looks
    assert came["del"] <= looks


@pytest.mark.parametrize("broker", BROKERS, indirect=True)
def test_load_takes_one_thread_more_and_few_connections(broker: Celery) -> None:
    plan = LoadPlan("fake-chat", rps=150, seconds=1, poisson=False, timeout_s=30)
    before = threading.active_count()
    most: list[int] = []
    with answering(broker) as worker, ThreadPoolExecutor(1) as runs:
        load = runs.submit(run_load, broker, plan)
        worker.wait_for(150)
        most.append(threading.active_count() - before)
        if broker.conf.broker_url.startswith("redis"):
            with redis.Redis.from_url(broker.conf.broker_url) as client:
                ours = [one for one in client.client_list() if one["addr"] != "none"]
                assert len(ours) < 15
                assert client.pubsub_channels("celery-task-meta-*") == []
        worker.answer_all()
        report = load.result(30)

    assert most == [3]  # The worker, the one that sends, the one that listens.
    assert (report.sent, report.ok) == (150, 150)
