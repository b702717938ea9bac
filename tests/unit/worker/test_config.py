"""What Celery really runs with, and what our code never asks of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from app.settings import Settings
from app.worker.config import configuration

APP = Path(__file__).parents[3] / "app"
BROADCASTS = {"pool_shrink", "pool_grow", "autoscale", "rate_limit", "add_consumer", "revoke"}
CANVAS = {"chord", "chain", "group", "chunks"}


def conf(url: str, **more: object) -> Celery:
    app = Celery()
    app.conf.update(configuration(Settings(broker={"url": url}, **more)))
    return app


@pytest.mark.parametrize("url", ["redis://localhost/0", "amqp://guest@localhost//"])
def test_what_celery_really_runs_with(url: str) -> None:
    """Read back from Celery: a misspelt key would leave its default, which is another value."""
    values = conf(url).conf
    assert values.worker_prefetch_multiplier == 1
    assert values.task_reject_on_worker_lost is False
    assert values.task_acks_late is False
    assert values.accept_content == values.result_accept_content == ["json"]
    assert values.task_serializer == values.result_serializer == "json"
    assert values.task_create_missing_queues is False
    assert values.beat_scheduler == "celery.beat:PersistentScheduler"
    # Celery reads this one without declaring it.
    known = {*Celery().conf, "redis_backend_health_check_interval"}
    assert set(configuration(Settings(broker={"url": url}))) <= known


def test_redis_waits_longer_than_any_message_can_be_held() -> None:
    settings = {"interactive": {"deadline_s": 500, "call_timeout_s": 900}}
    options = conf("redis://localhost/0", **settings).conf.broker_transport_options
    assert options["visibility_timeout"] > 500 + 900


def forbidden(tree: ast.AST) -> Iterator[str]:
    """Broadcasts to workers, canvas, and messages that wait in the broker."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("celery"):
            yield from (one.name for one in node.names if one.name in CANVAS)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of, called = node.func.value, node.func.attr
        if called in BROADCASTS and isinstance(of, ast.Attribute) and of.attr == "control":
            yield called
        if called == "retry" and isinstance(of, ast.Name) and of.id in ("self", "task"):
            yield "retry"
        if called in ("send_task", "apply_async"):
            named = {keyword.arg for keyword in node.keywords}
            yield from sorted(str(name) for name in named & {"eta", "countdown"})


def sources(*without: str) -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(APP.rglob("*.py")):
        name = path.relative_to(APP).as_posix()
        if not name.startswith(without):
            yield name, ast.parse(path.read_text())


def test_no_worker_is_steered_by_broadcast_and_no_task_waits_in_the_broker() -> None:
    found = {name: list(forbidden(tree)) for name, tree in sources()}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("mutant", "what"),
    [
        ("app.control.rate_limit('t', '0/s')", "rate_limit"),
        ("celery.control.pool_shrink(1)", "pool_shrink"),
        ("task.retry(countdown=3)", "retry"),
        ("app.send_task('t', countdown=3)", "countdown"),
        ("from celery import chord", "chord"),
    ],
)
def test_mutants_are_seen(mutant: str, what: str) -> None:
    assert what in list(forbidden(ast.parse(mutant)))


def test_quit_goes_to_postgres_alone() -> None:
    """The thread pool answers QUIT with an error and waits for its tasks."""
    found = {
        name
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "SIGQUIT"
    }
    assert found == {"local/postgres.py", "local/leftovers.py"}
    assert "SIGQUIT" not in (APP.parent / "docker-compose.yml").read_text()


LOOPS = {"asyncio", "anyio", "trio", "uvloop", "greenlet", "gevent", "eventlet"}
CLIENTS = ("Client", "OpenAI", "Pool", "Session", "Engine", "Connection")


def has_a_loop(tree: ast.AST) -> bool:
    """Whether something in it runs in an event loop, or names a client that does."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                modules = {one.name.split(".")[0] for one in node.names}
            case ast.ImportFrom():
                modules = {(node.module or "").split(".")[0]}
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                if name.startswith("Async") and name.endswith(CLIENTS):
                    return True
                continue
            case _:
                continue
        if modules & LOOPS:
            return True
    return False


LANE = ("services/people/", "inference/fibers.py", "storage/lane_store.py")
"""The people's lane, the one exception of one colour."""


def test_nothing_but_the_lane_and_the_simulated_endpoint_has_an_event_loop() -> None:
    # Who awaits the client brings a loop of their own.
    trees = sources("inference/simulated/", "simulation/", "client/awaiting.py", *LANE)
    assert {name for name, tree in trees if has_a_loop(tree)} == set()


@pytest.mark.parametrize(
    "mutant",
    [
        "import asyncio",
        "from asyncio import run",
        "import anyio.from_thread",
        "async def f(): pass",
        "from httpx2 import AsyncClient",
        "client = httpx2.AsyncClient()",
    ],
)
def test_a_loop_is_seen(mutant: str) -> None:
    assert has_a_loop(ast.parse(mutant))


def test_no_batch_of_a_provider_is_used() -> None:
    """We offer none, so there is no file of errors to overlook."""
    found = {
        name
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (node.value.startswith(("/batches", "/v1/batches")) or node.value == "error_file_id")
    }
    assert found == set()
