"""Rescue: chunks whose worker is gone go back, are split, or their one item is given up."""

from __future__ import annotations

from sqlalchemy import Connection

from app.domain.chunks import Bury, Rearm, Split, after_crash
from app.domain.events import LeaseRescued, Observer
from app.storage.begun_store import BegunStore
from app.storage.database import Database
from app.storage.item_store import ItemStore
from app.storage.request_store import RequestStore
from app.storage.rescue_store import Lapsed, RescueStore
from app.storage.result_store import ResultStore

CRASHED = "crashed_worker"


class Rescue:
    """The use case: run by a tick, and by a worker that takes the place of a killed one."""

    def __init__(self, database: Database, crashes_before_split: int, observer: Observer) -> None:
        self._database = database
        self._crashes_before_split = crashes_before_split
        self._observer = observer

    def sweep(self) -> int:
        """Take care of every lease that ran out; how many."""
        return self._rescued(None)

    def replace(self, worker_name: str) -> int:
        """Take care of what an earlier process of this worker's name held; how many leases.

        Two live workers never share a name, so the earlier one is dead; were it not, the fence
        would make its work harmless.
        """
        return self._rescued(f"{worker_name}#")

    def _rescued(self, worker: str | None) -> int:
        with self._database.transaction() as tx:
            lapsed = RescueStore(tx).lapsed(worker)
            RequestStore(tx).end_lapsed(worker)
            actions = [(chunk, self._act(tx, chunk)) for chunk in lapsed]
            back = [chunk for chunk, action in actions if action == "rearmed"]
            if back:
                RescueStore(tx).rearm(back)
        for chunk, action in actions:
            self._observer.saw(LeaseRescued(chunk.job_id, chunk.no, action))
        return len(actions)

    def _act(self, tx: Connection, chunk: Lapsed) -> str:
        if chunk.crashes < self._crashes_before_split:
            return "rearmed"
        # Only what has no result is under suspicion.
        pending = ItemStore(tx).pending_seqs(chunk.job_id, chunk.seqs)
        if pending is None:
            return "rearmed"
        match after_crash(pending, chunk.crashes, self._crashes_before_split):
            case Rearm():
                return "rearmed"
            case Split(left, right):
                RescueStore(tx).split(chunk, left, right)
                return "split"
            case Bury(seq):
                failed = ResultStore(tx).fail_one(
                    chunk.job_id,
                    chunk.no,
                    seq,
                    CRASHED,
                    f"the worker died {chunk.crashes} times while it worked on this item alone",
                )
                RescueStore(tx).bury(chunk, failed)
                BegunStore(tx).forget(chunk.job_id, [seq])
                return "buried"
