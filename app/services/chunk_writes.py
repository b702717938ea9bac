"""What a chunk writes while it is worked on and when it ends, each time if its lease still holds.

Answered calls are paid for: while Postgres restarts, every write waits as long as the lease.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from app import errors
from app.domain.events import MicroBatchDone, Observer
from app.domain.jobs import OPEN, JobState
from app.domain.results import ItemResult, Status
from app.domain.retry import delay_s
from app.kinds.base import Unit
from app.services.claiming import Claimed
from app.services.standing import Rules
from app.services.stepping import Kept
from app.services.vectors import superseded, write
from app.services.work import ERROR_LENGTH, Work, tally_of
from app.storage.begun_store import BegunStore
from app.storage.call_store import BatchCall, CallStore
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.job_store import JobStore
from app.storage.lease_store import LeaseStore, Tally
from app.storage.result_store import ResultStore
from app.storage.vector_store import Vectors


class ChunkWrites:
    """The checkpoints of chunks, and their ends. `lease_s`: how long a write waits for Postgres.

    Every method but `note` and `refuse` raises LeaseLost where the lease is no longer ours.
    """

    def __init__(
        self, database: Database, lease_s: float, rules: Rules, observer: Observer
    ) -> None:
        self._database = database
        self._lease_s = lease_s
        self._rules = rules
        self._observer = observer

    def checkpoint(
        self,
        work: Work,
        results: Sequence[ItemResult],
        batch: Sequence[Unit] = (),
        vectors: Vectors | None = None,
        call: BatchCall | None = None,
        kept: Kept | None = None,
    ) -> None:
        """Store results, the vectors of `batch` and the steps in `kept`, and count `call`."""
        lease, job = work.lease, work.claimed.job
        tokens = sum(r.tokens for r in results)
        answered = any(r.status is Status.DONE for r in results) or vectors is not None
        over = {result.seq for result in results}
        if kept is not None and kept.answer is not None:
            answered, over = True, over | {kept.seq}
        dropped = work.let_go(over)

        def store(tx: Connection) -> None:
            if not LeaseStore(tx).hold(lease):
                raise errors.LeaseLost
            told: Sequence[ItemResult] = results
            if vectors is not None and work.collection is not None:
                work.collection, late = write(tx, work.collection, job, batch, vectors, work.known)
                told = [superseded(r) if r.seq in late else r for r in results]
            # Nothing new: an earlier commit went through and only its answer was lost.
            is_new = ResultStore(tx).record(lease, told, work.claimed.stand_in) > 0 or not results
            if kept is not None:
                is_new = kept.write(tx, lease, is_new=is_new)
            if job.resume_streamed:
                BegunStore(tx).forget(job.id, list(over))
            if is_new:
                LeaseStore(tx).add(lease, tally_of(told, call, dropped))
                if dropped:
                    LeaseStore(tx).waste(lease, dropped)
                if call is not None:
                    CallStore(tx).record(call)
            if answered:
                EndpointStore(tx).answered(work.claimed.endpoint.name, work.task)

        self._database.patiently(store, self._lease_s)
        failed = sum(r.status is Status.FAILED for r in results)
        work.done += len(results) - failed
        work.failed += failed
        work.tokens += tokens
        self._observer.saw(
            MicroBatchDone(job.id, job.kind, work.done, work.failed, job.total, work.tokens)
        )

    def fail(self, work: Work, batch: Sequence[Unit], code: str, reason: str) -> None:
        """Give the items of `batch` up: each has failed with `code`, for good."""
        self.checkpoint(
            work,
            [
                ItemResult(seq, Status.FAILED, code=code, error=reason[:ERROR_LENGTH])
                for seq in dict.fromkeys(unit.item.seq for unit in batch)
            ],
        )
        work.given_up |= {unit.item.seq for unit in batch}

    def note(self, call: BatchCall) -> None:
        """Record a call that gave nothing to store."""
        self._database.patiently(lambda tx: CallStore(tx).record(call), self._lease_s)

    def refuse(self, claimed: Claimed, reason: str) -> None:
        """Nothing of the job can be stored as things are: the chunk goes back, the job pauses."""

        def refuse(tx: Connection) -> None:
            if LeaseStore(tx).hold(claimed.lease):
                LeaseStore(tx).hand_back(claimed.lease, None, 0.0, None, None)
            JobStore(tx).move(claimed.job.id, OPEN, JobState.PAUSED, reason[:ERROR_LENGTH])

        self._database.patiently(refuse, self._lease_s)

    def hand_back(
        self,
        work: Work,
        ended: str,
        after_s: float = 0.0,
        code: str | None = None,
        reason: str | None = None,
    ) -> str:
        """The chunk goes back with its results kept, and the beginning of the answer whose call
        was closed, where its job asks for that; not to be claimed for `after_s`; `ended`.

        What failed meanwhile waits on its own. `code` and `reason`: what sent it back, None: its
        pool, its job or its process did.
        """
        left = work.left if work.to_retry else None
        told = None if reason is None else reason[:ERROR_LENGTH]

        def give_back(tx: Connection) -> None:
            store = LeaseStore(tx)
            if not store.hold(work.lease):
                raise errors.LeaseLost
            if work.wasted:
                store.waste(work.lease, work.wasted, work.wasted_money)
            if (closed := work.closed) is not None:
                BegunStore(tx).keep(work.lease, closed.seq, closed.begun)
                tally = Tally(completion_tokens=closed.made, money=closed.money)
                store.add(work.lease, tally)
            self._gather_retries(store, work)
            if left == []:
                store.finish(work.lease)
            else:
                store.hand_back(work.lease, left, after_s, code, told)

        self._database.patiently(give_back, self._lease_s)
        return ended

    def finish(self, work: Work) -> str:
        """The chunk is done; what failed on the way and may succeed later waits on its own."""

        def finish(tx: Connection) -> None:
            store = LeaseStore(tx)
            if not store.hold(work.lease):
                raise errors.LeaseLost
            self._gather_retries(store, work)
            store.finish(work.lease)

        self._database.patiently(finish, self._lease_s)
        return "finished"

    def _gather_retries(self, store: LeaseStore, work: Work) -> None:
        """Items that may succeed later go into one retry chunk, the attempt counted."""
        if not work.to_retry:
            return
        attempt = work.lease.attempt + 1
        last = next(reversed(work.to_retry.values()))
        store.retry(
            work.lease,
            list(work.to_retry),
            attempt,
            delay_s(attempt, self._rules.retry, self._rules.jitter()),
            last.code,
            last.reason[:ERROR_LENGTH],
        )
