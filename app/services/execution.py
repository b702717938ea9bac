"""Execution of one chunk: claim, then micro-batch by micro-batch call and checkpoint, then finish.

No transaction is open during a call. What follows from an error is decided in `domain.outcomes`;
here it is only carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import Connection

from app import clock, errors
from app.domain.chunks import Lease
from app.domain.events import MicroBatchDone, Observer
from app.domain.jobs import OPEN, Job, JobState
from app.domain.outcomes import (
    Bisect,
    FailItems,
    HandBack,
    PauseJob,
    Retry,
    Snooze,
    consequence,
)
from app.domain.packing import packed
from app.domain.results import ItemResult, Status
from app.domain.retry import RetryPolicy, cool_down_s, delay_s, may_retry
from app.domain.routing import EndpointSpec
from app.domain.throttle.decide import limit_now
from app.inference.wires import Wires
from app.kinds.base import Kind, Prepared, Read, Unit, checked
from app.kinds.registry import kind as kind_named
from app.services.calling import called
from app.services.claiming import Claimed, NotNow, claim, claimable
from app.services.leases import Held, Leases
from app.services.pools import Pools, tuned
from app.services.work import BatchLimits, ChunkReport, Work
from app.storage.call_store import BatchCall, CallStore
from app.storage.chunk_store import ChunkStore, Tally
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.item_store import ItemStore
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitStore
from app.storage.result_store import ResultStore
from app.storage.vector_store import Collection, Embedding, Vectors, VectorStore

ERROR_LENGTH = 500
"""Characters of an error text that are kept with a result."""


class Execution:
    """The use case behind `giveway.batch.*` tasks."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        wires: Wires,
        leases: Leases,
        limits: BatchLimits,
        retry: RetryPolicy,
        observer: Observer,
        worker: str,
        jitter: Callable[[], float],
    ) -> None:
        self._database = database
        self._pools = pools
        self._wires = wires
        self._leases = leases
        self._limits = limits
        self._retry = retry
        self._observer = observer
        self._worker = worker
        self._jitter = jitter

    def run(self, job_id: int) -> ChunkReport:
        """Work on one chunk of the job, if there is one and the limit allows it."""
        started = clock.monotonic_s()
        if self._leases.stopping.is_set():
            return ChunkReport(job_id, ended="stopping")
        claimed = self._claim(job_id)
        if isinstance(claimed, NotNow):
            return ChunkReport(job_id, ended=claimed.why)
        with self._leases.keep(claimed.lease) as held:
            try:
                work = self._begin(claimed, held)
                ended = self._work_through(work)
            except errors.LeaseLost:
                return ChunkReport(job_id, ended="lost", seconds=clock.monotonic_s() - started)
        seconds = round(clock.monotonic_s() - started, 3)
        return ChunkReport(job_id, work.done, work.failed, work.tokens, seconds, ended)

    def _claim(self, job_id: int) -> Claimed | NotNow:
        with self._database.transaction() as tx:
            job = JobStore(tx).get(job_id)
            if job is None or not claimable(job):
                return NotNow("no_job" if job is None else job.state)
            pool = self._pools.named(job.pool)
            return claim(tx, job, pool, self._worker, self._leases.lease_s)

    def _begin(self, claimed: Claimed, held: Held) -> Work:
        """Read what has no result yet, and record at once what needs no call."""
        lease, job = claimed.lease, claimed.job
        kind = kind_named(job.kind)
        params = checked(kind, job.params)

        def read(tx: Connection) -> tuple[Prepared, Collection | None, dict[str, bytes]]:
            items = ItemStore(tx).pending(job.id, lease.first_seq, lease.last_seq, lease.seqs)
            prepared = kind.prepare(items, params)
            name = kind.collection(params)
            collection = None if name is None else VectorStore(tx).find(name)
            if collection is None:
                return prepared, None, {}
            keys = [unit.item.key for unit in prepared.units]
            return prepared, collection, VectorStore(tx).hashes(collection.id, keys)

        prepared, collection, known = self._database.patiently(read, self._leases.lease_s)
        units = [u for u in prepared.units if known.get(u.item.key) != u.content_hash]
        same = [u for u in prepared.units if known.get(u.item.key) == u.content_hash]
        work = Work(claimed, held, kind, params, collection, self._cut(claimed, kind, units))
        at_once = prepared.results + [ItemResult(u.item.seq, Status.UNCHANGED) for u in same]
        if at_once:
            self._checkpoint(work, at_once)
        return work

    def _cut(self, claimed: Claimed, kind: Kind, units: Sequence[Unit]) -> list[Sequence[Unit]]:
        endpoint = claimed.endpoint
        most = endpoint.max_batch_items or self._limits.micro_batch_items
        batches = packed(
            units,
            [unit.tokens for unit in units],
            most if kind.together else 1,
            endpoint.max_batch_tokens or self._limits.micro_batch_tokens,
        )
        return list(batches)

    def _work_through(self, work: Work) -> str:
        """Every micro-batch; how the chunk ended."""
        first = True
        while work.todo:
            stop = self._must_stop(work, ask=not first)
            if stop is not None:
                return self._hand_back(work, stop)
            first = False
            batch = work.todo.pop(0)
            work.called_at, work.first_token_s = clock.monotonic_s(), None
            try:
                read = self._call(work, batch)
            except errors.EndpointError as error:
                self._note(work.called(len(batch), error.code))
                ended = self._suffer(work, batch, error)
                if ended is not None:
                    return ended
                continue
            call = replace(
                work.called(len(batch)),
                prompt_tokens=read.prompt_tokens,
                completion_tokens=read.completion_tokens,
            )
            self._checkpoint(work, read.results, batch, read.vectors, call)
        return self._finish(work)

    def _must_stop(self, work: Work, *, ask: bool) -> str | None:
        """Why no further micro-batch may start; None: it may. `ask`: look at limit and job too."""
        if work.held.lost:
            raise errors.LeaseLost
        if self._leases.stopping.is_set():
            return "stopping"
        if work.held.yield_requested:
            return "yielded"
        if not ask:
            return None
        job, lease = work.claimed.job, work.lease
        return self._database.patiently(
            lambda tx: self._verdict(tx, job, lease), self._leases.lease_s
        )

    def _verdict(self, tx: Connection, job: Job, lease: Lease) -> str | None:
        """The newest leases past the limit give way, by rank; so do those of a stopped job."""
        now = JobStore(tx).get(job.id)
        if not claimable(now):
            return "no_job" if now is None else now.state
        pool, limits = self._pools.named(job.pool), LimitStore(tx)
        row = limits.read(pool.name)
        if row is None:
            return "no_limit_row"
        occupancy = limits.occupancy(pool.name)
        people = occupancy.interactive_total + occupancy.queued
        limit = limit_now(row.state, people, tuned(pool, row.tuned).bounds, row.now)
        if occupancy.batch_total <= limit:
            return None
        return "yielded" if limits.rank(pool.name, job.id, lease.no) >= limit else None

    def _call(self, work: Work, batch: Sequence[Unit]) -> Read:
        return called(self._wires, work, batch, self._limits.call_timeout_s)

    def _checkpoint(
        self,
        work: Work,
        results: Sequence[ItemResult],
        batch: Sequence[Unit] = (),
        vectors: Vectors | None = None,
        call: BatchCall | None = None,
    ) -> None:
        """Store results, and vectors with them, if the lease is still ours; LeaseLost if not."""
        lease, job = work.lease, work.claimed.job
        counts = {status: sum(r.status is status for r in results) for status in Status}
        tokens = sum(r.tokens for r in results)
        tally = Tally(
            ok=counts[Status.DONE],
            unchanged=counts[Status.UNCHANGED],
            empty=counts[Status.EMPTY],
            failed=counts[Status.FAILED],
            prompt_tokens=call.prompt_tokens if call else 0,
            completion_tokens=call.completion_tokens if call else 0,
        )

        def store(tx: Connection) -> None:
            if not ChunkStore(tx).hold(lease):
                raise errors.LeaseLost
            if vectors is not None and work.collection is not None:
                work.collection = self._write_vectors(tx, work.collection, job.id, batch, vectors)
            # Nothing new: an earlier commit went through and only its answer was lost.
            if ResultStore(tx).record(lease, results):
                ChunkStore(tx).add(lease, tally)
                if call is not None:
                    CallStore(tx).record(call)
            if counts[Status.DONE]:
                EndpointStore(tx).answered(work.claimed.endpoint.name)

        # Answered calls are paid for: while Postgres restarts they wait here, as long as the lease.
        self._database.patiently(store, self._leases.lease_s)
        work.done += len(results) - counts[Status.FAILED]
        work.failed += counts[Status.FAILED]
        work.tokens += tokens
        self._observer.saw(
            MicroBatchDone(job.id, job.kind, work.done, work.failed, job.total, work.tokens)
        )

    @staticmethod
    def _write_vectors(
        tx: Connection,
        collection: Collection,
        job_id: int,
        batch: Sequence[Unit],
        vectors: Vectors,
    ) -> Collection:
        store = VectorStore(tx)
        found = int(vectors.shape[1])
        if collection.dimension is None:
            fixed = store.fix_dimension(collection.id, found)
            collection = Collection(collection.id, collection.name, collection.model, fixed)
        if collection.dimension != found:
            raise errors.BadReply(
                f"a vector of {found} numbers, but collection {collection.name!r} holds "
                f"{collection.dimension}"
            )
        rows = [Embedding(u.item.key, u.content_hash, u.item.seq) for u in batch]
        store.write(collection.id, job_id, rows, np.asarray(vectors, dtype=np.float32))
        return collection

    def _note(self, call: BatchCall) -> None:
        """Record a call that gave nothing to store."""
        self._database.patiently(lambda tx: CallStore(tx).record(call), self._leases.lease_s)

    def _suffer(self, work: Work, batch: Sequence[Unit], error: errors.EndpointError) -> str | None:
        """Carry out what an error means; how the chunk ended, None: it goes on."""
        match consequence(error, len(batch)):
            case Bisect():
                middle = len(batch) // 2
                work.todo[:0] = [batch[:middle], batch[middle:]]
            case FailItems(code, reason):
                self._fail(work, batch, code, reason)
            case Retry(code, reason) as retry:
                if may_retry(work.lease.attempt + 1, self._retry):
                    work.to_retry |= {unit.item.seq: retry for unit in batch}
                else:
                    self._fail(work, batch, code, reason)
            case Snooze(after_s, code, reason):
                work.todo.insert(0, batch)
                wait_s = self._cool(work.claimed.endpoint, after_s, code)
                return self._hand_back(work, code, wait_s, code, reason)
            case HandBack():
                work.todo.insert(0, batch)
                if work.held.lost:
                    raise errors.LeaseLost
                return self._hand_back(work, "yielded")
            case PauseJob(code, reason):
                work.todo.insert(0, batch)
                ended = self._hand_back(work, code, 0.0, code, reason)
                self._pause(work.claimed.job, f"{code}: {reason}")
                return ended
        return None

    def _fail(self, work: Work, batch: Sequence[Unit], code: str, reason: str) -> None:
        self._checkpoint(
            work,
            [
                ItemResult(unit.item.seq, Status.FAILED, code=code, error=reason[:ERROR_LENGTH])
                for unit in batch
            ],
        )

    def _cool(self, endpoint: EndpointSpec, asked_s: float | None, code: str) -> float:
        """Leave the endpoint alone for a while; for how many seconds."""
        with self._database.transaction() as tx:
            store = EndpointStore(tx)
            refusals = store.health(endpoint.pool)[endpoint.name].refusals + 1
            wait_s = cool_down_s(refusals, asked_s, self._retry, self._jitter())
            store.refused(endpoint.name, wait_s, code)
        return wait_s

    def _pause(self, job: Job, reason: str) -> None:
        with self._database.transaction() as tx:
            JobStore(tx).move(job.id, OPEN, JobState.PAUSED, reason[:ERROR_LENGTH])

    def _hand_back(
        self,
        work: Work,
        ended: str,
        after_s: float = 0.0,
        code: str | None = None,
        reason: str | None = None,
    ) -> str:
        """The chunk goes back with its results kept; what failed meanwhile waits on its own."""
        left = work.left if work.to_retry else None
        told = None if reason is None else reason[:ERROR_LENGTH]

        def give_back(tx: Connection) -> None:
            store = ChunkStore(tx)
            if not store.hold(work.lease):
                raise errors.LeaseLost
            if work.wasted:
                store.waste(work.lease, work.wasted)
            self._gather_retries(store, work)
            if left == []:
                store.finish(work.lease)
            else:
                store.hand_back(work.lease, left, after_s, code, told)

        self._database.patiently(give_back, self._leases.lease_s)
        return ended

    def _finish(self, work: Work) -> str:
        def finish(tx: Connection) -> None:
            store = ChunkStore(tx)
            if not store.hold(work.lease):
                raise errors.LeaseLost
            self._gather_retries(store, work)
            store.finish(work.lease)

        self._database.patiently(finish, self._leases.lease_s)
        return "finished"

    def _gather_retries(self, store: ChunkStore, work: Work) -> None:
        """Items that may succeed later go into one retry chunk, the attempt counted."""
        if not work.to_retry:
            return
        attempt = work.lease.attempt + 1
        last = next(reversed(work.to_retry.values()))
        store.retry(
            work.lease,
            list(work.to_retry),
            attempt,
            delay_s(attempt, self._retry, self._jitter()),
            last.code,
            last.reason[:ERROR_LENGTH],
        )
