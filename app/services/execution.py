"""Execution of one chunk: claim, then micro-batch by micro-batch call and checkpoint, then finish.

No transaction is open during a call. What is stored is in `chunk_writes`, what an error leads to
in `suffering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from app import clock, errors
from app.domain.events import ChunkLeased, Observer
from app.domain.jobs import JobState
from app.domain.pricing import money
from app.domain.results import ItemResult, Status
from app.domain.resuming import Begun
from app.kinds.base import ManySteps, Prepared, Read, Unit, checked
from app.kinds.registry import kind as kind_named
from app.kinds.registry import kinds
from app.services.blaming import Blaming
from app.services.budgets import paused_by_budget
from app.services.calling import Caller
from app.services.chunk_writes import ChunkWrites
from app.services.claiming import Claimed, NotNow, claim, claimable
from app.services.cutting import Cutting
from app.services.holding import held_back
from app.services.kind_faults import KIND_FAULT, code_of
from app.services.leases import Held, Leases
from app.services.moving import moved, stays
from app.services.pools import Pools
from app.services.standing import Rules
from app.services.stepping import Steps, Taken
from app.services.suffering import Suffering
from app.services.vectors import Known, known_of
from app.services.work import BatchLimits, ChunkReport, Work
from app.services.yielding import must_yield
from app.storage.begun_store import BegunStore
from app.storage.database import Database
from app.storage.item_store import ItemStore
from app.storage.job_store import JobStore
from app.storage.step_store import StepStore

_NO_ROOM_S = 1.0
"""How long a chunk waits whose next call needs an endpoint that is full."""


class Execution:
    """The use case behind `giveway.batch.*` tasks."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        caller: Caller,
        leases: Leases,
        limits: BatchLimits,
        rules: Rules,
        observer: Observer,
        worker: str,
    ) -> None:
        self._database = database
        self._pools = pools
        self._caller = caller
        self._leases = leases
        self._limits = limits
        self._worker = worker
        self._observer = observer
        patience_s = leases.lease_s
        self._cutting = Cutting(database, caller, limits, patience_s)
        self._writes = ChunkWrites(database, patience_s, rules, observer)
        self._blaming = Blaming(caller.wires, caller.rates, rules.health.probe_timeout_s)
        self._suffering = Suffering(
            database, pools, self._blaming, self._writes, rules, observer, patience_s
        )

    def run(self, job_id: int) -> ChunkReport:
        """Work on one chunk of the job, if there is one and the limit allows it."""
        started = clock.monotonic_s()
        if self._leases.stopping.is_set():
            return ChunkReport(job_id, ended="stopping")
        claimed = self._claim(job_id)
        if isinstance(claimed, NotNow):
            return ChunkReport(job_id, ended=claimed.why)
        self._observer.saw(_leased(claimed))
        with self._leases.keep(claimed.lease) as held:
            try:
                work = self._begin(claimed, held)
                ended = self._work_through(work)
            except errors.LeaseLost:
                return ChunkReport(job_id, ended="lost", seconds=clock.monotonic_s() - started)
            except (errors.UsageError, errors.KindFault) as error:  # A person must act.
                is_fault = isinstance(error, errors.KindFault)
                self._writes.refuse(claimed, f"{KIND_FAULT}: {error}" if is_fault else str(error))
                return ChunkReport(job_id, ended="paused", seconds=clock.monotonic_s() - started)
        seconds = round(clock.monotonic_s() - started, 3)
        return ChunkReport(job_id, work.done, work.failed, work.tokens, seconds, ended)

    def _claim(self, job_id: int) -> Claimed | NotNow:
        with self._database.transaction() as tx:
            job = JobStore(tx).get(job_id)
            if job is None or not claimable(job):
                return NotNow("no_job" if job is None else job.state)
            held = held_back(tx, job, clock.now())
            if held is not None:
                return NotNow(held.code)
            if paused_by_budget(tx, job, has_more=False):
                return NotNow(JobState.PAUSED)
            pool = self._pools.by_name.get(job.pool)
            if pool is None or job.kind not in kinds():
                return NotNow("pool_gone" if pool is None else "unknown_kind")
            return claim(tx, job, pool, self._worker, self._leases.lease_s)

    def _begin(self, claimed: Claimed, held: Held) -> Work:
        """Read what has no result yet, and record at once what needs no call."""
        lease, job = claimed.lease, claimed.job
        kind = kind_named(job.kind)
        params = checked(kind, job.params)

        def read(tx: Connection) -> tuple[Prepared, Known, Steps | None, dict[int, Begun]]:
            items = ItemStore(tx).pending(job.id, lease.first_seq, lease.last_seq, lease.seqs)
            with code_of(kind.name):
                prepared = kind.prepare(items, params)
            known = known_of(tx, job, kind.collection(params), prepared.units)
            seqs = [unit.item.seq for unit in prepared.units]
            begun = BegunStore(tx).of(job.id, seqs) if job.resume_streamed else {}
            if not isinstance(kind, ManySteps):
                return prepared, known, None, begun
            return prepared, known, Steps(kind, params, StepStore(tx).of(job.id, seqs)), begun

        prepared, known, steps, begun = self._database.patiently(read, self._leases.lease_s)
        units, same = known.sorted_out(prepared.units)
        # An item of several steps is not sent as it is: its kind decides what goes out.
        refused, units = self._cutting.too_long(claimed, units) if steps is None else ([], units)
        todo = self._cutting.cut(claimed, kind, self._blaming.last(job.id, units))
        work = Work(claimed, held, kind, params, known.collection, todo)
        work.known, work.steps, work.begun = known, steps, begun
        at_once = prepared.results + [ItemResult(seq, Status.UNCHANGED) for seq in same] + refused
        if at_once:
            self._writes.checkpoint(work, at_once)
        return work

    def _work_through(self, work: Work) -> str:
        """Every micro-batch; how the chunk ended."""
        first = True
        while self._settle(work):
            stop = self._must_stop(work, ask=not first)
            if stop is not None:
                return self._writes.hand_back(work, stop)
            first = False
            batch = work.todo.pop(0)
            if not self._stand_at(work, batch):
                work.todo.insert(0, batch)
                return self._writes.hand_back(work, "endpoints", _NO_ROOM_S)
            work.called_at, work.first_token_s = clock.monotonic_s(), None
            try:
                read = self._call(work, batch)
            except errors.EndpointError as error:
                if not isinstance(error, errors.BudgetSpent):  # Then there was no call.
                    self._writes.note(work.called(len(batch), error.code))
                ended = self._suffering.suffer(work, batch, error)
                if ended is not None:
                    return ended
                work.leave_out()
                continue
            except errors.KindFault as error:
                self._writes.fail(work, batch, KIND_FAULT, str(error))
                continue
            self._blaming.got_through(work, batch)
            call = replace(
                work.called(len(batch)),
                prompt_tokens=read.prompt_tokens,
                completion_tokens=read.completion_tokens,
                money=money(work.claimed.endpoint, read.prompt_tokens, read.completion_tokens),
            )
            kept = read.kept if isinstance(read, Taken) else None
            self._writes.checkpoint(work, read.results, batch, read.vectors, call, kept)
            if kept is not None and kept.answer is not None:
                work.todo.insert(0, batch)
        return self._writes.finish(work)

    def _settle(self, work: Work) -> bool:
        """Record the foremost items that need no further call; whether others are left."""
        while work.steps is not None:
            results, kept = work.steps.ready(work.todo, self._limits.micro_batch_items)
            if not results:
                break
            self._writes.checkpoint(work, results, kept=kept)
        return bool(work.todo)

    def _stand_at(self, work: Work, batch: Sequence[Unit]) -> bool:
        """Be at an endpoint that serves what the item asks next; False: none has room now."""
        if work.steps is None:
            return True
        claimed, model = work.claimed, work.steps.ahead(batch[0].item).request.model
        there = stays(claimed, model)
        if there is None:
            pool = self._pools.named(claimed.job.pool)
            there = self._database.patiently(
                lambda tx: moved(tx, claimed, pool, model), self._leases.lease_s
            )
        if there is None:
            return False
        work.claimed = there
        return True

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
            lambda tx: must_yield(tx, self._pools, job, lease), self._leases.lease_s
        )

    def _call(self, work: Work, batch: Sequence[Unit]) -> Read:
        if work.steps is None:
            return self._caller.called(work, batch)
        step = work.steps.ahead(batch[0].item)
        reply = self._caller.reply_to(work, batch, step.request)
        return work.steps.take(step, reply, work.claimed.endpoint.name, work.carried)


def _leased(claimed: Claimed) -> ChunkLeased:
    lease, job = claimed.lease, claimed.job
    items = len(lease.seqs) if lease.seqs else lease.last_seq - lease.first_seq + 1
    return ChunkLeased(
        job.id, job.key, job.kind, lease.no, items, lease.attempt, claimed.endpoint.name
    )
