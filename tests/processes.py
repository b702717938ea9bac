"""Real Celery processes for tests: started, waited for, killed by their pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from celery import Celery

from tests.waiting import until


@contextmanager
def watched(app: Celery) -> Iterator[list[dict[str, Any]]]:
    """All events from now on, as they come."""
    events: list[dict[str, Any]] = []
    stop = threading.Event()

    def watch() -> None:
        with app.connection() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": events.append})
            while not stop.is_set():
                with suppress(TimeoutError):
                    receiver.capture(limit=None, timeout=0.3, wakeup=False)

    watcher = threading.Thread(target=watch)
    watcher.start()
    until(lambda: any(event["type"] == "worker-heartbeat" for event in events), 20, "a heartbeat")
    try:
        yield events
    finally:
        stop.set()
        watcher.join(10)


class Started:
    """One process with its log."""

    def __init__(self, argv: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                argv,
                env={**os.environ, **environment},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """All it has written."""
        return self.log.read_text(errors="replace")

    def ready(self, word: str = " ready.") -> Started:
        """Wait until it says so."""

        def is_ready() -> bool:
            assert self.process.poll() is None, f"it ended:\n{self.said[-3000:]}"
            return word in self.said

        until(is_ready, 30, f"{self.log.name}: {word!r}")
        return self

    def send(self, number: signal.Signals) -> None:
        """Signal the whole group, as a kill of a container does."""
        os.killpg(self.process.pid, number)

    def end(self, within_s: float = 15.0) -> int:
        """TERM, then KILL; the exit status."""
        if self.process.poll() is None:
            self.send(signal.SIGTERM)
            try:
                self.process.wait(within_s)
            except subprocess.TimeoutExpired:
                self.send(signal.SIGKILL)
                self.process.wait(5)
        return self.process.returncode


class Processes:
    """Celery processes on one database, one broker and one endpoint."""

    def __init__(self, folder: Path, database_url: str, broker_url: str, endpoint_url: str) -> None:
        self.folder = folder
        self.started: list[Started] = []
        self.environment = {
            "GIVEWAY_DATABASE__URL": database_url,
            "GIVEWAY_BROKER__URL": broker_url,
            "GIVEWAY_ENDPOINTS": json.dumps(
                [
                    {
                        "name": "sim",
                        "base_url": endpoint_url,
                        "models": ["fake-chat", "fake-embed"],
                        "max_concurrency": 32,
                    }
                ]
            ),
            "GIVEWAY_POOLS": json.dumps([{"name": "main", "total": 32, "batch_max": 31}]),
            "GIVEWAY_BATCH__CHUNK_ITEMS": "50",
            "GIVEWAY_BATCH__MICRO_BATCH_ITEMS": "10",
        }

    def celery(self, *arguments: str, name: str, **environment: str) -> Started:
        """`celery -A app …`."""
        argv = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "app", *arguments]
        log = self.folder / f"{name}-{len(self.started)}.log"
        one = Started(argv, {**self.environment, **environment}, log)
        self.started.append(one)
        return one

    def worker(self, queue: str, *more: str, pool: str = "threads", **environment: str) -> Started:
        """A worker of one queue, not yet waited for."""
        return self.celery(
            *("worker", "-Q", queue, "-n", f"{queue}@test", "-P", pool, "-c", "8"),
            *("--without-mingle", "--without-gossip", "--loglevel", "INFO", *more),
            name=queue,
            **environment,
        )

    def beat(self) -> Started:
        """A beat with a schedule file of its own."""
        schedule = self.folder / f"beat-{len(self.started)}"
        return self.celery("beat", "--schedule", str(schedule), name="beat")

    def end(self) -> None:
        """End all."""
        for one in reversed(self.started):
            one.end()
