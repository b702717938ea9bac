"""What every contender finds: Postgres, Valkey, the endpoint, and a proxy before Postgres."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import redis

from app.storage import schema
from app.storage.database import Database
from benchmarks.servers import servers
from benchmarks.throttle.stage import ROOT, Process


class Worker(Process):
    """A process with its log, whose CPU can be read."""

    @property
    def process(self) -> psutil.Process:
        """The process itself."""
        return psutil.Process(self._process.pid)


class ProxyProcess:
    """The proxy, as a process of its own."""

    def __init__(self, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.people.proxy", target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self.port = int(self._said().rpartition(":")[2])

    def stand_away(self, round_trip_ms: float) -> None:
        """Delay each way by half of it."""
        self._order(f"delay {round_trip_ms / 2}")

    def round_trips(self) -> Counter[str]:
        """So far, by the clients' own names."""
        return Counter(json.loads(self._order("count")))

    def end(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(5)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _order(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._said()

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@dataclass(frozen=True, slots=True)
class Stage:
    """Addresses and the proxy."""

    folder: Path
    database_url: str
    broker_url: str
    endpoint_url: str
    proxy: ProxyProcess
    valkey: redis.Redis

    def python(self, name: str, *arguments: str, env: Mapping[str, str]) -> Worker:
        """`python -m …`."""
        return Worker(name, [sys.executable, "-W", "ignore", "-m", *arguments], env, self.folder)


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """Everything up, the database at the newest revision; ended and removed at the end."""
    with contextlib.ExitStack() as stack:
        on = stack.enter_context(servers())
        database = Database(on.database_url, connections=1, name="benchmark")
        schema.upgrade(database)
        database.close()
        command = [sys.executable, "-m", "benchmarks.people.endpoint"]
        endpoint = Process("endpoint", command, {}, on.logs)
        stack.callback(endpoint.end)
        endpoint.await_word("listening on ")
        url = endpoint.said.split()[-1]
        parts = urlsplit(on.database_url)
        proxy = ProxyProcess(f"{parts.hostname}:{parts.port}")
        stack.callback(proxy.end)
        valkey = redis.Redis.from_url(on.broker_url)
        stack.callback(valkey.close)
        yield Stage(on.logs, on.database_url, on.broker_url, url, proxy, valkey)
