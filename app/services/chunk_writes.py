"""What a chunk writes while it is worked on and when it ends, each time if its lease still holds.

Answered calls are paid for: while Postgres restarts, every write waits as long as the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from app.services.vectors import superseded, writing
from app.services.work import ERROR_LENGTH, Work, tally_of
from app.storage.begun_store import BegunStore
from app.storage.call_store import BatchCall, CallStore
from app.storage.checkpoint_store import CheckpointStore
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.job_store import JobStore
from app.storage.lease_store import LeaseStore, Tally
from app.storage.together import Together
from app.storage.vector_store import Vectors

Ask = Callable[[Connection], Callable[[], str | None]]
"""Asks something that can be answered later."""


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
        ask: Ask | None = None,
    ) -> str | None:
        """Store what a call brought, and tell of it; what was the answer to `ask`: see `store`."""
        stop = self.store(work, results, batch, vectors, call, kept, ask)
        self.tell(work)
        return stop

    def tell(self, work: Work) -> None:
        """How far the chunk is, to whoever observes the task of this thread."""
        job = work.claimed.job
        self._observer.saw(
            MicroBatchDone(job.id, job.kind, work.done, work.failed, job.total, work.tokens)
        )

    def store(
        self,
        work: Work,
        results: Sequence[ItemResult],
        batch: Sequence[Unit] = (),
        vectors: Vectors | None = None,
        call: BatchCall | None = None,
        kept: Kept | None = None,
        ask: Ask | None = None,
    ) -> str | None:
        """Store results, the vectors of `batch` and the steps in `kept`, and count `call`; what was
        the answer to `ask`, which goes along.

        Two round trips: whether the lease holds, and everything else.
        """
        lease, job = work.lease, work.claimed.job
        tokens = sum(r.tokens for r in results)
        answered = any(r.status is Status.DONE for r in results) or vectors is not None
        over = {result.seq for result in results}
        if kept is not None and kept.answer is not None:
            answered, over = True, over | {kept.seq}
        dropped = work.let_go(over)

        def store(sent: Together) -> str | None:
            tx = sent.tx
            held = LeaseStore(tx).hold_later(lease)
            stored = None
            if vectors is not None and work.collection is not None:
                work.collection, stored = writing(
                    tx, work.collection, job, batch, vectors, work.known
                )
            asked = None if ask is None else ask(tx)
            if not held():
                raise errors.LeaseLost
            stop = None if asked is None else asked()
            late = set() if stored is None else stored()
            told = [superseded(r) if r.seq in late else r for r in results] if late else results
            anyway = not results
            if kept is not None:
                anyway = kept.write(tx, lease, is_new=anyway)
            if job.resume_streamed:
                BegunStore(tx).forget(job.id, list(over))
            CheckpointStore(tx).write(
                lease,
                told,
                tally_of(told, call, dropped),
                call,
                work.claimed.stand_in,
                dropped=dropped,
                anyway=anyway,
            )
            if answered:
                EndpointStore(tx).answered(work.claimed.endpoint.name, work.task)
            return stop

        stop = self._database.patiently_together(store, self._lease_s)
        failed = sum(r.status is Status.FAILED for r in results)
        work.done += len(results) - failed
        work.failed += failed
        work.tokens += tokens
        return stop

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

        def give_back(sent: Together) -> None:
            tx = sent.tx
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

        self._database.patiently_together(give_back, self._lease_s)
        return ended

    def finish(self, work: Work) -> str:
        """The chunk is done; what failed on the way and may succeed later waits on its own."""

        def finish(sent: Together) -> None:
            store = LeaseStore(sent.tx)
            if work.to_retry:
                if not store.hold(work.lease):
                    raise errors.LeaseLost
                self._gather_retries(store, work)
            if not store.finish(work.lease):
                raise errors.LeaseLost

        self._database.patiently_together(finish, self._lease_s)
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
