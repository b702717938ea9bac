"""Retention: old request, call and decision rows go, a few thousand at a time."""

from __future__ import annotations

from app.storage.call_store import CallStore
from app.storage.database import Database
from app.storage.limit_store import LimitStore
from app.storage.request_store import RequestStore

_AT_ONCE = 5000
_ROUNDS = 20


class Retention:
    """The use case. Each round is its own short transaction, so that nothing waits for it."""

    def __init__(self, database: Database, keep_requests_s: float, keep_decisions_s: float) -> None:
        self._database = database
        self._keep_requests_s = keep_requests_s
        self._keep_decisions_s = keep_decisions_s

    def prune(self) -> int:
        """Delete what is older than is kept; how many rows."""
        gone = 0
        for _ in range(_ROUNDS):
            with self._database.transaction() as tx:
                requests = RequestStore(tx).prune(self._keep_requests_s, _AT_ONCE)
                decisions = LimitStore(tx).prune(self._keep_decisions_s, _AT_ONCE)
                calls = CallStore(tx).prune(self._keep_requests_s, _AT_ONCE)
            gone += requests + decisions + calls
            if max(requests, decisions, calls) < _AT_ONCE:
                break
        return gone
