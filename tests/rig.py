"""A wired-up Giveway on a fresh database and a simulated endpoint, without Celery in between."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
from celery import Celery
from kombu import pools
from sqlalchemy import text

from app.declared.knowledge import about
from app.domain.fingerprint import fingerprint
from app.domain.jobs import Job, Progress
from app.domain.throttle.values import Reason, State
from app.services.submission import JobRequest, Submitted
from app.settings import Settings
from app.storage.database import Database
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitStore
from app.storage.progress_store import ProgressStore
from app.wiring import Wiring
from app.worker.assembly import make
from app.worker.queues import NAMES
from app.worker.results import close_backend
from tests.served import Served


class Texts:
    """Items from a list of texts: keys k0, k1, …"""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def content_hash(self) -> bytes:
        return fingerprint(*self._texts)

    def rows(self) -> Iterator[tuple[str, bytes]]:
        for number, one in enumerate(self._texts):
            yield f"k{number}", orjson.dumps({"text": one})

    def skipped(self) -> int:
        return 0


class Rig:
    """One process's Giveway, driven by hand."""

    def __init__(
        self, database_url: str, endpoint: Served, *, declare: bool = True, **settings: Any
    ) -> None:
        self.endpoint = endpoint
        given: dict[str, Any] = {
            "database": {"url": database_url, "connections": 30},
            "endpoints": [
                {
                    "name": "sim",
                    "base_url": endpoint.url,
                    "models": ["fake-chat", "fake-embed"],
                    "max_concurrency": 32,
                }
            ],
            "pools": [{"name": "main", "total": 32, "batch_max": 31}],
            "batch": {"chunk_items": 50, "micro_batch_items": 10, "retry_base_s": 0.05},
        }
        for group, values in settings.items():
            is_group = isinstance(values, dict)
            given[group] = {**given.get(group, {}), **values} if is_group else values
        self._given = given
        self._apps: list[Celery] = []
        self.wiring = Wiring(Settings(**given))
        if declare:
            self.wiring.declare()
            self.limit(31)
            self.worker_runs()

    def worker_runs(self, *queues: str) -> None:
        """As if a worker of these queues, all by default, had told of itself an hour from now."""
        self.wiring.presence.tell(about(queues or NAMES, self.wiring.pools, os.environ))
        self.execute("UPDATE workers SET seen_at = now() + interval '1 h'")

    def with_broker(self, url: str) -> Celery:
        """The Celery app on this rig's settings and that broker; rings then reach workers."""
        self.wiring.close()
        self.wiring = Wiring(Settings(**self._given, broker={"url": url}))
        self._apps.append(make(self.wiring))
        return self._apps[-1]

    def close(self) -> None:
        """Close what it opened. A connection that the garbage collector finds open fails a test."""
        for app in self._apps:
            close_backend(app.backend)
            self.wiring.doorbell.close()
            app.close()
        if self._apps:
            pools.reset()
        self.wiring.close()

    @property
    def database(self) -> Database:
        return self.wiring.database

    def limit(self, value: int) -> None:
        """Hold the limit at `value` for an hour, as if a decision had said so."""
        with self.database.transaction() as tx:
            row = LimitStore(tx).lock("main")
            assert row is not None
            state = replace(
                State(),
                limit=value,
                reason=Reason.FIXED,
                decided_at=row.now,
                valid_until=row.now + timedelta(hours=1),
            )
            tx.execute(
                text("UPDATE throttle_limits SET state = CAST(:s AS jsonb), value = :v"),
                {"s": orjson.dumps(state.to_json()).decode(), "v": value},
            )

    def submit(self, texts: list[str], key: str = "job", **more: Any) -> Submitted:
        params = {"model": "fake-embed", "collection": more.pop("collection", "docs")}
        request = JobRequest("embed", params, key=key, **more)
        return self.wiring.submission.submit(request, Texts(texts))

    def work(self, job_id: int, most: int = 200) -> Job:
        """Run chunks until none can be claimed, then sweep; the job afterwards."""
        for _ in range(most):
            report = self.wiring.execution.run(job_id)
            if report.ended in ("nothing_ready", "endpoints", "limit", "paused", "completed"):
                break
        self.wiring.completion.sweep()
        return self.job(job_id)

    def job(self, job_id: int) -> Job:
        with self.database.transaction() as tx:
            job = JobStore(tx).get(job_id)
        assert job is not None
        return job

    def progress(self, job_id: int) -> Progress:
        with self.database.transaction() as tx:
            return ProgressStore(tx).progress([job_id])[job_id]

    def settle(self) -> None:
        """People's answers come before their rows' ends, which are written together a moment
        later: whoever looks at rows waits for that."""
        if "interactive" in vars(self.wiring):
            self.wiring.interactive.settle()

    def rows(self, sql: str, **values: Any) -> list[Any]:
        self.settle()
        with self.database.transaction() as tx:
            return list(tx.execute(text(sql), values))

    def one(self, sql: str, **values: Any) -> Any:
        return self.rows(sql, **values)[0][0]

    def execute(self, sql: str, **values: Any) -> None:
        with self.database.transaction() as tx:
            tx.execute(text(sql), values)


MakeRig = Callable[..., Rig]
