"""`giveway doctor` on real servers: well, ill in every way that can be made, and away."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis

from app.domain.examination import vacuum
from app.domain.examination.findings import Code
from app.settings import load
from app.storage.database import Database
from app.storage.examination_store import HOT, ExaminationStore
from app.storage.tables import metadata
from app.worker.looking import look
from app.worker.queues import broker_priority
from tests.commands import giveway
from tests.rabbitmq import rabbitmq_at, rabbitmq_missing
from tests.rig import Rig
from tests.waiting import until

PATIENCE_S = 30


def examined(*options: str) -> dict[str, list[dict[str, Any]]]:
    """What was found, by check."""
    ran = giveway("doctor", "--json", *options)
    assert ran.err == ""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in ran.document["findings"]:
        found.setdefault(one["code"], []).append(one)
    return found


def severities(found: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """The worst of each check."""
    return {code: every[0]["severity"] for code, every in found.items()}


@pytest.fixture
def sound(stack: Rig, fresh_broker_url: str, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A stack with a broker and a decision that stays in force."""
    monkeypatch.setenv("GIVEWAY_BROKER__URL", fresh_broker_url)
    monkeypatch.setenv("GIVEWAY_THROTTLE__VALID_FOR_S", "600")
    stack.wiring.throttling.tick_all()
    stack.execute("UPDATE throttle_limits SET valid_until = valid_until + interval '1 hour'")
    return stack


@contextmanager
def silent(url: str) -> Iterator[str]:
    """`url` where somebody listens who never says a word, and hears nobody out twice."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        port = listener.getsockname()[1]
        yield urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}"))
        listener.setblocking(False)
        came = 0
        with suppress(BlockingIOError):
            while True:
                listener.accept()[0].close()
                came += 1
        assert came == 1, "each is asked once, and what gives up does not try again"


def test_a_sound_installation_passes_every_check(sound: Rig) -> None:
    found = examined("--strict")
    ran = giveway("doctor", "--strict")

    assert severities(found) == dict.fromkeys(set(Code) - {Code.UNREAD}, "ok")
    assert ran.code == 0
    head, *lines, last = ran.out.splitlines()
    assert len(lines) == len(found)
    assert all(line.startswith("ok ") for line in lines)
    assert {line[head.index("what") - 2 : head.index("what")] for line in lines} == {"  "}
    assert last == "0 errors, 0 warnings, 22 checks well"


def test_an_old_snapshot_and_the_dead_rows_it_keeps_are_named_until_it_ends(
    sound: Rig, migrated_url: str
) -> None:
    with psycopg.connect(migrated_url, application_name="backup") as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT 1 FROM jobs")
        sound.execute(
            "INSERT INTO rate_reservations (endpoint, at, tokens)"
            " SELECT 'sim', now(), 1 FROM generate_series(1, 6000)"
        )
        sound.execute("DELETE FROM rate_reservations")
        sound.execute("SELECT pg_stat_force_next_flush()")
        sound.database.alone("VACUUM rate_reservations")

        def named() -> bool:
            found = severities(examined("--old-snapshot", "1s"))
            return (found["snapshots"], found["dead_rows"]) == ("warning", "warning")

        until(named, PATIENCE_S, "the warning")
        found = examined("--old-snapshot", "1s")
        (snapshot,), (rows,) = found["snapshots"], found["dead_rows"]
        assert snapshot["where"] == f"session {old.info.backend_pid} (backup of giveway)"
        assert "idle: vacuum removes nothing newer" in snapshot["what"]
        assert f"pg_terminate_backend({old.info.backend_pid})" in snapshot["right"]
        assert rows["where"] == "table rate_reservations"
        assert severities(examined("--old-snapshot", "1h"))["snapshots"] == "ok"
        assert giveway("doctor", "--old-snapshot", "1s").code == 0
        assert giveway("doctor", "--old-snapshot", "1s", "--strict").code == 1
        old.rollback()

        def is_well() -> bool:
            sound.database.alone("VACUUM rate_reservations")
            found = severities(examined("--old-snapshot", "1s"))
            return (found["snapshots"], found["dead_rows"]) == ("ok", "ok")

        until(is_well, PATIENCE_S, "the end of it")


def test_what_is_idle_in_a_transaction_keeps_its_locks(sound: Rig, migrated_url: str) -> None:
    with psycopg.connect(migrated_url) as idle:
        idle.execute("SELECT 1")

        def named() -> list[str]:
            found = examined("--old-snapshot", "1s")["snapshots"]
            return [one["what"] for one in found if "locked" in one["what"]]

        until(named, PATIENCE_S, "the warning")


def test_who_blocks_whom_is_named(
    sound: Rig, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index waits for whoever had an old snapshot before it."""
    monkeypatch.setattr(vacuum, "WAITS_S", 0.2)
    with psycopg.connect(migrated_url, application_name="notebook") as idle:
        pid = idle.info.backend_pid
        idle.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        idle.execute("SELECT 1 FROM jobs")
        statement = "CREATE INDEX CONCURRENTLY ix_waits ON collections (model)"
        builder = threading.Thread(target=sound.database.alone, args=(statement,))
        builder.start()

        def named() -> list[dict[str, Any]]:
            found = examined()["blocked"]
            return [one for one in found if one["severity"] == "warning"]

        until(named, PATIENCE_S, "the warning")
        (found,) = named()
        idle.rollback()
        builder.join(PATIENCE_S)
    assert found["where"].startswith("session ")
    assert "giveway" in found["where"]
    assert "builds an index (waiting for" in found["what"]
    assert f"for session {pid} (notebook of giveway), which idles in a" in found["what"]
    assert f"pg_terminate_backend({pid})" in found["right"]
    assert severities(examined())["blocked"] == "ok"


def test_sessions_that_a_role_may_not_see_are_not_taken_for_well(
    sound: Rig, migrated_url: str
) -> None:
    parts = urlsplit(migrated_url)
    with psycopg.connect(migrated_url) as old, psycopg.connect(migrated_url) as admin:
        admin.autocommit = True
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT 1 FROM jobs")
        admin.execute("CREATE ROLE looker LOGIN PASSWORD 'seen'")
        own = parts._replace(netloc=f"looker:seen@{parts.hostname}:{parts.port}")
        try:
            with closing(Database(urlunsplit(own))) as database:

                def hidden() -> list[bool]:
                    with database.transaction() as tx:
                        found = ExaminationStore(tx, PATIENCE_S).holders()
                    return [one.hidden for one in found if one.name == str(old.info.backend_pid)]

                assert hidden() == [True]
                admin.execute("GRANT pg_read_all_stats TO looker")
                assert hidden() == [False]
        finally:
            admin.execute("DROP ROLE looker")


def test_what_is_wrong_with_the_work_is_named_and_no_secret_with_it(sound: Rig) -> None:
    for key in ("poor", "lost", "late"):
        sound.submit(["one", "two"], key=key)
    sound.execute(
        "UPDATE throttle_limits SET computed_at = now() - interval '1 h', valid_until = now();"
        "UPDATE endpoints SET breaker = 'open', error_code = 'timeout',"
        " open_until = now() + interval '1 min';"
        "UPDATE jobs SET state = 'paused', reason = 'budget: spent 2.00 of 2.00'"
        " WHERE key = 'poor';"
        "UPDATE jobs SET pool = 'gone' WHERE key = 'lost';"
        "UPDATE chunks SET state = 'leased', worker = 'w#1', endpoint = 'sim',"
        " leased_at = now() - interval '9 min', lease_until = now() - interval '8 min'"
        " WHERE job_id = (SELECT id FROM jobs WHERE key = 'late');"
        "INSERT INTO webhook_deliveries (message_id, job_id, url, secret_env, body, state, attempt,"
        " status, finished_at) VALUES (gen_random_uuid(), 1,"
        " 'https://me:SECRET@hooks.example/SECRET?k=SECRET', 'HOOK', '{}', 'given_up', 8, 500,"
        " now())"
    )
    ran = giveway("doctor")
    found = examined()
    told = {code: [(one["where"], one["what"]) for one in found[code]] for code in found}

    assert ran.code == 1
    assert "SECRET" not in ran.out + str(told)
    assert told["ticks"] == [
        ("ticks", "the last decision is 60 min old, so batch stands at its floor")
    ]
    assert found["ticks"][0]["right"] == "start beat: no tick waits in the control queue"
    assert told["endpoints"] == [
        ("pool main", "none of its 1 endpoint gets work: open or draining"),
        ("endpoint sim", "its breaker is open after timeout: it gets probes only"),
    ]
    assert told["leases"] == [("pool main", "1 chunk is overdue, the oldest for 8 min")]
    assert told["jobs"] == [
        ("job lost", "its pool 'gone' is not declared, so nothing of it is claimed"),
        ("job poor", "paused: budget: spent 2.00 of 2.00"),
    ]
    assert told["webhooks"] == [
        (
            "webhooks to hooks.example",
            "1 given up in the last day, 0 tried in vain; its last answer was 500",
        )
    ]


def test_a_table_that_is_locked_is_said_and_the_rest_is_looked_at(
    sound: Rig, migrated_url: str
) -> None:
    with psycopg.connect(migrated_url) as other:
        other.execute("LOCK TABLE webhook_deliveries IN ACCESS EXCLUSIVE MODE")
        found = examined()

    assert [one["where"] for one in found["unread"]] == ["webhooks"]
    assert "webhooks" not in found
    assert (found["jobs"][0]["severity"], found["ticks"][0]["severity"]) == ("ok", "ok")


def test_a_broker_that_is_down_is_an_error_and_the_database_is_looked_at(stack: Rig) -> None:
    ran = giveway("doctor")
    found = examined()

    assert ran.code == 1
    assert ran.err == ""
    assert "Traceback" not in ran.out
    assert "SECRET" not in ran.out + str(found)
    assert found["broker"] == [
        {
            "code": "broker",
            "severity": "error",
            "where": "redis://:***@127.0.0.1:1/0",
            "what": "does not answer: Connection refused",
            "right": "start it, or set GIVEWAY_BROKER__URL to one that answers from here",
        }
    ]
    assert severities(found)["database"] == severities(found)["schema"] == "ok"
    assert "eviction" not in found


@pytest.mark.parametrize(
    "url", ["postgresql://giveway:SECRET@127.0.0.1:1/giveway", "postgresql://me:SECRET@h:p/x"]
)
def test_a_database_that_is_down_is_an_error_and_the_broker_is_looked_at(
    url: str, fresh_broker_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIVEWAY_DATABASE__URL", url)
    monkeypatch.setenv("GIVEWAY_BROKER__URL", fresh_broker_url)
    ran = giveway("doctor")
    found = examined()

    assert (ran.code, ran.err) == (1, "")
    assert "SECRET" not in ran.out + str(found)
    assert severities(found) == {
        "database": "error",
        "broker": "ok",
        "eviction": "ok",
        "queues": "ok",
        "visibility": "ok",
    }


def test_servers_that_never_say_a_word_cost_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        silent("postgresql://giveway:SECRET@h/giveway") as database,
        silent("redis://:SECRET@h/0") as broker,
    ):
        monkeypatch.setenv("GIVEWAY_DATABASE__URL", database)
        monkeypatch.setenv("GIVEWAY_BROKER__URL", broker)
        found = examined()

    assert severities(found) == {"database": "error", "broker": "error"}


def test_without_settings_both_are_unknown_and_it_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = examined()

    assert severities(found) == {"database": "error", "broker": "error"}
    assert "giveway up" in found["database"][0]["what"]


def test_a_database_without_tables_gets_the_command_that_makes_them(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIVEWAY_DATABASE__URL", database_url)
    (schema,) = examined()["schema"]

    assert (schema["severity"], schema["right"]) == ("error", "giveway db upgrade")


def test_tables_of_a_newer_version_are_told_from_those_of_an_older(stack: Rig) -> None:
    rights = []
    for revision in ("0001", "9999"):
        stack.execute("UPDATE alembic_version SET version_num = :r", r=revision)
        (schema,) = examined()["schema"]
        rights.append(schema["right"])

    assert rights == ["giveway db upgrade", "run the version of Giveway that made it"]


def test_a_redis_that_evicts_is_an_error(sound: Rig, fresh_broker_url: str) -> None:
    with redis.Redis.from_url(fresh_broker_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", "1gb")
        try:
            (found,) = examined()["eviction"]
        finally:
            client.config_set("maxmemory", "0")
            client.config_set("maxmemory-policy", "noeviction")

    assert found["severity"] == "error"
    assert "noeviction" in found["right"]


def send(rig: Rig, url: str) -> None:
    """Three ticks, and two people of the lowest and the highest priority."""
    app = rig.with_broker(url)
    for _ in range(3):
        app.send_task("giveway.control.rescue", queue="control")
    for priority in (0, 9):
        told = broker_priority(priority, url)
        app.send_task("giveway.interactive.chat", queue="interactive", priority=told)
    app.close()


def test_messages_are_counted_where_kombu_puts_them(sound: Rig, fresh_broker_url: str) -> None:
    send(sound, fresh_broker_url)
    found = look(load())

    assert found.waiting == {"interactive": 2, "batch": 0, "control": 3}


@pytest.mark.rabbitmq
@pytest.mark.skipif(rabbitmq_missing() is not None, reason="RabbitMQ is not installed")
def test_rabbitmq_is_looked_at_too(
    stack: Rig, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rabbitmq_at(folder) as url:
        monkeypatch.setenv("GIVEWAY_BROKER__URL", url)
        before = look(load())
        send(stack, url)
        until(lambda: look(load()).waiting.get("control") == 3, PATIENCE_S, "the count")
        found = look(load())

    assert (before.why_not, before.waiting) == (None, {})
    assert found.server.startswith("RabbitMQ ")
    assert found.waiting["interactive"] == 2
    assert (found.policy, found.visible_s) == (None, None)
    assert look(load()).why_not == "does not answer: Connection refused"


def test_the_hot_tables_are_tables_of_ours() -> None:
    assert set(HOT) <= set(metadata.tables)
    assert max(Counter(HOT).values()) == 1


def test_a_key_that_a_worker_lacks_is_named_with_its_variable(sound: Rig) -> None:
    sound.execute("UPDATE workers SET name = 'batch@here#1', unset = '{\"paid\": \"PAID_KEY\"}'")
    (found,) = examined()["keys"]

    assert (found["severity"], found["where"]) == ("error", "endpoint paid")
    assert found["what"].startswith("PAID_KEY (its api_key_env) is not set for batch@here;")
    assert "PAID_KEY where the workers run, then giveway restart" in found["right"]
