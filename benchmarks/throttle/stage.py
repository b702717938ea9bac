"""What every contender finds: Postgres, Valkey and the simulated endpoint, each a real process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx2
import redis

from app.local import child
from app.storage import schema
from app.storage.database import Database
from benchmarks.servers import servers
from benchmarks.throttle.corpus import STAMP
from benchmarks.throttle.scenes import Scene

ROOT = Path(__file__).parents[2]
_READY_S = 60.0


class Process:
    """One process with its log, ended by its own number."""

    def __init__(self, name: str, argv: list[str], env: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}-{time.monotonic_ns()}.log"
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                child.command(argv, signal.SIGKILL),  # None of them outlives a killed benchmark.
                env={**os.environ, **env},
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """All it has written."""
        return self.log.read_text(errors="replace")

    def await_word(self, word: str) -> None:
        """Wait until it has said `word`."""
        until = time.monotonic() + _READY_S
        while word not in self.said:
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.name} did not come up:\n{self.said[-3000:]}")
            time.sleep(0.05)

    def end(self) -> None:
        """TERM and, where that is not heard in time, KILL."""
        if self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(12)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(5)


@dataclass(frozen=True, slots=True)
class Stage:
    """Addresses, a database at the newest revision, and the scene that is played."""

    folder: Path
    database_url: str
    broker_url: str
    endpoint_url: str
    scene: Scene
    database: Database
    valkey: redis.Redis

    def python(self, name: str, *arguments: str, env: Mapping[str, str]) -> Process:
        """`python -m …`."""
        return Process(name, [sys.executable, "-W", "ignore", "-m", *arguments], env, self.folder)

    def clean(self) -> None:
        """Nothing in the broker, nothing in the tables: the next contender starts anew."""
        self.valkey.flushdb()
        with self.database.transaction() as tx:
            tx.exec_driver_sql(
                "TRUNCATE jobs, items, chunks, results, embeddings, collections, "
                "interactive_requests, batch_calls, throttle_limits, throttle_decisions, "
                "endpoints CASCADE"
            )

    def engine_lost_s(self) -> float:
        """Seconds by which this machine was too slow to play the endpoint; much voids a run."""
        page = httpx2.get(self.endpoint_url.removesuffix("/v1") + "/metrics", timeout=5).text
        line = next(one for one in page.splitlines() if one.startswith("simulated_lost_seconds"))
        return float(line.split()[-1])


@contextlib.contextmanager
def stage(scene: Scene) -> Iterator[Stage]:
    """Everything up; ended and removed at the end."""
    with contextlib.ExitStack() as stack:
        on = stack.enter_context(servers())
        database = Database(on.database_url, connections=6, name="benchmark")
        stack.callback(database.close)
        schema.upgrade(database)
        with database.transaction() as tx:
            tx.execute(STAMP)
        arguments = ["-m", "app.inference.simulated", "--port", "0"]
        for name, value in asdict(scene.endpoint).items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        endpoint = Process("endpoint", [sys.executable, *arguments], {}, on.logs)
        stack.callback(endpoint.end)
        endpoint.await_word("listening on ")
        url = next(one for one in endpoint.said.splitlines() if one.startswith("listening on "))
        valkey = redis.Redis.from_url(on.broker_url)
        stack.callback(valkey.close)
        yield Stage(
            on.logs, on.database_url, on.broker_url, url.split()[-1], scene, database, valkey
        )
