"""The contenders: what each starts, how a person asks it, and whose CPU counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg

from app import clock
from app.client import Giveway
from app.domain.inference import ChatRequest, Message
from app.domain.load import LoadPlan, prompt
from app.domain.requests import NewRequest
from app.local import background
from app.local.options import INTERACTIVE, StackOptions
from app.local.state import running_state
from app.settings import Settings
from app.wiring import Wiring
from app.worker.asking import Asker
from benchmarks.people import plain
from benchmarks.people.endpoint import MODEL
from benchmarks.people.openload import PATIENCE_S, Over, Start, Threads
from benchmarks.people.plan import CELERY, DIRECT, GIVEWAY
from benchmarks.people.stage import Stage

_PLACES = 64
_MAX_TOKENS = 4
_PLAIN_THREADS = 64
_PROMPTS = LoadPlan(MODEL, rps=1, seconds=1)


@dataclass(frozen=True, slots=True)
class Running:
    """A contender that is up. `servers`: whose CPU is *its* CPU; none where it is in this process.
    `all`: every process of it. `client`: how those who serve begin their name at Postgres."""

    start: Start
    servers: Sequence[psutil.Process] = ()
    all: Sequence[psutil.Process] = ()
    client: str | None = None


class Missing(Exception):
    """This contender cannot be had in this checkout."""


@contextlib.contextmanager
def running(name: str, stage: Stage, database_url: str) -> Iterator[Running]:
    """The contender on that database, until the block ends. Missing: it is not there."""
    match name:
        case _ if name == DIRECT:
            made = _direct(stage)
        case _ if name == CELERY:
            made = _celery(stage)
        case _ if name == GIVEWAY:
            made = _giveway(stage, database_url)
        case _:
            made = _lane(stage, database_url)
    with made as one:
        yield one


@contextlib.contextmanager
def _direct(stage: Stage) -> Iterator[Running]:
    """The same call as the wire makes, by hand: a kept connection, one write, one read."""
    parts = urlsplit(stage.endpoint_url)
    assert parts.hostname is not None
    assert parts.port is not None
    address = (parts.hostname, parts.port)
    kept: list[socket.socket] = []

    def ask(number: int) -> None:
        body = json.dumps(
            {
                "model": MODEL,
                "messages": [{"role": "user", "content": prompt(_PROMPTS, number)}],
                "max_tokens": _MAX_TOKENS,
                "stream": True,
            }
        ).encode()
        try:
            one = kept.pop()
        except IndexError:
            one = socket.create_connection(address)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json"
            b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        came = b""
        while not came.endswith(b"[DONE]\n\n"):
            some = one.recv(1 << 16)
            if not some:
                raise ConnectionError("the endpoint hung up")
            came += some
        kept.append(one)

    with contextlib.closing(Threads(ask)) as start:
        yield Running(start)
    for one in kept:
        one.close()


@contextlib.contextmanager
def _celery(stage: Stage) -> Iterator[Running]:
    """One worker of plain Celery, asked by the same code as Giveway."""
    stage.valkey.flushdb()
    broker = stage.broker_url
    env = {"PLAIN_BROKER": broker, "PLAIN_ENDPOINT": stage.endpoint_url}
    how = ("-P", "threads", "-c", str(_PLAIN_THREADS), "--without-mingle", "--without-gossip")
    arguments = ("celery", "-A", "benchmarks.people.plain", "worker", "-Q", "interactive", *how)
    worker = stage.python(
        "celery", *arguments, "-n", "plain@bench", "--loglevel", "WARNING", env=env
    )
    with contextlib.ExitStack() as stack:
        stack.callback(worker.end)
        app = plain.made(broker)
        asker = stack.enter_context(contextlib.closing(Asker(lambda: app, lambda _: None)))

        def ask(number: int) -> None:
            asked = {"prompt": prompt(_PROMPTS, number), "model": MODEL, "max_tokens": _MAX_TOKENS}
            asker.ask("chat", asked, PATIENCE_S)

        ask(0)  # It waits for the worker.
        start = stack.enter_context(contextlib.closing(Threads(ask)))
        its = [worker.process]
        yield Running(start, its, its)


@contextlib.contextmanager
def _giveway(stage: Stage, database_url: str) -> Iterator[Running]:
    """The stack that `giveway up` starts on this broker and this database; Flower is left out."""
    stage.valkey.flushdb()
    data = stage.folder / f"giveway-{time.monotonic_ns()}"
    data.mkdir()
    config = data / "giveway.toml"
    config.write_text(_toml(_settings(stage, database_url)))
    with contextlib.ExitStack() as stack:
        stack.callback(background.stop, data)
        background.start(StackOptions(data=data, config=config, flower=False))
        state = running_state(data)
        assert state is not None
        by_name = {
            one.name: psutil.Process(one.birth.pid)
            for one in state.processes
            if one.birth is not None and psutil.pid_exists(one.birth.pid)
        }
        giveway = stack.enter_context(Giveway(config=config, data=data))

        def ask(number: int) -> None:
            giveway.ask(
                prompt(_PROMPTS, number),
                model=MODEL,
                max_tokens=_MAX_TOKENS,
                deadline_s=PATIENCE_S,
            )

        ask(0)
        start = stack.enter_context(contextlib.closing(Threads(ask)))
        servers = [one for name, one in by_name.items() if name.startswith(INTERACTIVE)]
        yield Running(start, servers, list(by_name.values()), f"giveway {INTERACTIVE}")


@contextlib.contextmanager
def _lane(stage: Stage, database_url: str) -> Iterator[Running]:
    """The lane in this process, awaited in a loop."""
    wiring = Wiring(Settings(**_settings(stage, database_url)))
    try:
        call: Callable[[NewRequest, ChatRequest], Any] | None
        call = getattr(wiring.interactive, "call", None)
        if not asyncio.iscoroutinefunction(call):
            raise Missing("app.services.people has no lane that can be awaited")
        wiring.worker_name = "lane@bench"
        wiring.declare()
        with _loop() as loop:
            yield Running(
                _Awaited(loop, call, wiring.interactive.pool_for(MODEL)), (), (), "giveway"
            )
    finally:
        wiring.close()


@contextlib.contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="lane's callers")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Awaited:
    """Begins requests as tasks of a loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[NewRequest, ChatRequest], Any],
        pool: str,
    ) -> None:
        self._loop = loop
        self._call = call
        self._pool = pool
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, number: int, over: Over) -> None:
        self._loop.call_soon_threadsafe(self._begin, number, over)

    def _begin(self, number: int, over: Over) -> None:
        task = self._loop.create_task(self._one(number, over))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self, number: int, over: Over) -> None:
        request = NewRequest(
            id=uuid.uuid4(),
            pool=self._pool,
            task_type="chat",
            model=MODEL,
            submitted_at=clock.now(),
            max_tokens=_MAX_TOKENS,
        )
        asked = ChatRequest(MODEL, (Message("user", prompt(_PROMPTS, number)),), _MAX_TOKENS)
        try:
            await self._call(request, asked)
        except Exception as error:  # noqa: BLE001 - counted, whatever it was
            sys.stderr.write(f"lane: {type(error).__name__}: {error}\n")
            over(False)
        else:
            over(True)


def _settings(stage: Stage, database_url: str) -> dict[str, Any]:
    """Giveway's, all others as they come."""
    return {
        "database": {"url": database_url},
        "broker": {"url": stage.broker_url},
        "pools": [{"name": "main", "total": _PLACES}],
        "endpoints": [
            {
                "name": "bench",
                "base_url": stage.endpoint_url,
                "models": [MODEL],
                "max_concurrency": _PLACES,
            }
        ],
    }


def _toml(settings: dict[str, Any]) -> str:
    """Settings of these shapes as TOML; JSON's strings, numbers and lists are TOML's."""
    lines = []
    for name, value in settings.items():
        for group in value if isinstance(value, list) else [value]:
            lines.append(f"[[{name}]]" if isinstance(value, list) else f"[{name}]")
            lines += [f"{key} = {json.dumps(one)}" for key, one in group.items()]
    return "\n".join(lines) + "\n"


def round_trip_ms(database_url: str, times: int = 60) -> float:
    """The median of `SELECT 1`."""
    took = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        for _ in range(times):
            began = time.perf_counter()
            connection.execute("SELECT 1").fetchone()
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def through(database_url: str, port: int) -> str:
    """The same database behind the proxy on this machine's `port`."""
    parts = urlsplit(database_url)
    who = parts.netloc.rpartition("@")[0]
    return urlunsplit(
        parts._replace(netloc=f"{who}@127.0.0.1:{port}" if who else f"127.0.0.1:{port}")
    )
