"""Retention: old rows go, a few thousand at a time; of old jobs, their items and results."""

from __future__ import annotations

from dataclasses import dataclass

from app.storage.call_store import CallStore
from app.storage.database import Database
from app.storage.event_store import EventStore
from app.storage.item_store import ItemStore
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitStore
from app.storage.request_store import RequestStore
from app.storage.webhook_store import WebhookStore

_AT_ONCE = 5000
_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Periods:
    """How long rows are kept: of requests (calls, too), decisions and events, items and results of
    jobs that ended, and webhooks."""

    requests_s: float
    decisions_s: float
    events_s: float
    jobs_s: float = 30 * 86_400.0
    deliveries_s: float = 7 * 86_400.0


class Retention:
    """The use case. Each round is its own short transaction, so that nothing waits for it."""

    def __init__(self, database: Database, kept: Periods) -> None:
        self._database = database
        self._kept = kept

    def prune(self) -> int:
        """Delete what is older than is kept; how many rows."""
        gone, kept = 0, self._kept
        for _ in range(_ROUNDS):
            with self._database.transaction() as tx:
                requests = RequestStore(tx).prune(kept.requests_s, _AT_ONCE)
                decisions = LimitStore(tx).prune(kept.decisions_s, _AT_ONCE)
                calls = CallStore(tx).prune(kept.requests_s, _AT_ONCE)
                events = EventStore(tx).prune(kept.events_s, _AT_ONCE)
                told = WebhookStore(tx).prune(kept.deliveries_s, _AT_ONCE)
            gone += requests + decisions + calls + events + told
            if max(requests, decisions, calls, events, told) < _AT_ONCE:
                break
        return gone + self._prune_jobs()

    def _prune_jobs(self) -> int:
        """Items and results of jobs that ended long ago; the jobs and their counts stay."""
        gone = 0
        for _ in range(_ROUNDS):
            with self._database.transaction() as tx:
                job_id = JobStore(tx).to_prune(self._kept.jobs_s)
                if job_id is None:
                    break
                rows = ItemStore(tx).prune(job_id, _AT_ONCE)
                if rows < _AT_ONCE:
                    JobStore(tx).pruned(job_id)
            gone += rows
        return gone
