"""Execution of one chunk: claim, then micro-batch by micro-batch call and checkpoint, then finish.

No transaction is open during a call. What follows from an error is decided in `domain.outcomes`;
here it is only carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from app import clock, errors
from app.domain.chunks import Lease
from app.domain.events import JobSteered, MicroBatchDone, Observer
from app.domain.jobs import OPEN, Job, JobState
from app.domain.knees import Most, sized
from app.domain.outcomes import (
    Bisect,
    FailItems,
    HandBack,
    PauseJob,
    Retry,
    Snooze,
    Wait,
    consequence,
)
from app.domain.packing import packed
from app.domain.pricing import money
from app.domain.rates import budget_of, most_tokens_a_call
from app.domain.results import ItemResult, Status
from app.domain.retry import delay_s, may_retry
from app.domain.routing import HEALTHY, batch_roles, serving, usable
from app.domain.throttle.decide import limit_now
from app.kinds.base import Kind, ManySteps, Prepared, Read, Unit, checked
from app.kinds.registry import kind as kind_named
from app.services.budgets import paused_by_budget
from app.services.calling import Caller
from app.services.claiming import Claimed, NotNow, claim, claimable
from app.services.holding import held_back
from app.services.leases import Held, Leases
from app.services.moving import moved, stays
from app.services.pools import Pools, current, present
from app.services.standing import SPEAKING, Rules, judged
from app.services.stepping import Kept, Steps, Taken
from app.services.vectors import Known, known_of, superseded, write
from app.services.work import BatchLimits, ChunkReport, Work, tally_of
from app.storage.call_store import BatchCall, CallStore
from app.storage.chunk_store import ChunkStore
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.item_store import ItemStore
from app.storage.job_store import JobStore
from app.storage.knee_store import KneeStore
from app.storage.limit_store import LimitStore
from app.storage.result_store import ResultStore
from app.storage.step_store import StepStore
from app.storage.vector_store import Vectors

_NO_ROOM_S = 1.0
"""How long a chunk waits whose next call needs an endpoint that is full."""
ERROR_LENGTH = 500
"""Characters of an error text that are kept with a result."""


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
        self._rules = rules
        self._retry = rules.retry
        self._observer = observer
        self._worker = worker
        self._jitter = rules.jitter

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
            except errors.CollectionConflict as error:
                self._refuse(claimed, str(error))
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
            pool = self._pools.named(job.pool)
            return claim(tx, job, pool, self._worker, self._leases.lease_s)

    def _begin(self, claimed: Claimed, held: Held) -> Work:
        """Read what has no result yet, and record at once what needs no call."""
        lease, job = claimed.lease, claimed.job
        kind = kind_named(job.kind)
        params = checked(kind, job.params)

        def read(tx: Connection) -> tuple[Prepared, Known, Steps | None]:
            items = ItemStore(tx).pending(job.id, lease.first_seq, lease.last_seq, lease.seqs)
            prepared = kind.prepare(items, params)
            known = known_of(tx, job, kind.collection(params), prepared.units)
            if not isinstance(kind, ManySteps):
                return prepared, known, None
            stored = StepStore(tx).of(job.id, [unit.item.seq for unit in prepared.units])
            return prepared, known, Steps(kind, params, stored)

        prepared, known, steps = self._database.patiently(read, self._leases.lease_s)
        units, same = known.sorted_out(prepared.units)
        # An item of several steps is not sent as it is: its kind decides what goes out.
        refused, units = self._too_long(claimed, units) if steps is None else ([], units)
        work = Work(claimed, held, kind, params, known.collection, self._cut(claimed, kind, units))
        work.known, work.steps = known, steps
        at_once = prepared.results + [ItemResult(seq, Status.UNCHANGED) for seq in same] + refused
        if at_once:
            self._checkpoint(work, at_once)
        return work

    def _too_long(
        self, claimed: Claimed, units: Sequence[Unit]
    ) -> tuple[list[ItemResult], list[Unit]]:
        """Results of the items that are known to be too long, before anything is sent; the rest."""
        long = self._caller.too_long(claimed, units)
        most = claimed.endpoint.max_input_tokens
        told = f"tokens, but endpoint {claimed.endpoint.name!r} takes {most} an input"
        code = errors.TooLong.code
        failed = [
            ItemResult(seq, Status.FAILED, code=code, error=f"{count} {told}")
            for seq, count in long.items()
        ]
        return failed, [unit for unit in units if unit.item.seq not in long]

    def _cut(self, claimed: Claimed, kind: Kind, units: Sequence[Unit]) -> list[Sequence[Unit]]:
        if not kind.together:
            return [[unit] for unit in units]
        most = self._most(claimed)
        return list(packed(units, [unit.tokens for unit in units], most.items, most.tokens))

    def _most(self, claimed: Claimed) -> Most:
        """What a micro-batch may hold: what the endpoint takes, its rate budget lets through in one
        go, and it was seen to carry well."""
        endpoint = claimed.endpoint
        tokens = endpoint.max_batch_tokens or self._limits.micro_batch_tokens
        bounds = Most(
            endpoint.max_batch_items or self._limits.micro_batch_items,
            most_tokens_a_call(budget_of(endpoint), tokens),
        )
        learnt = self._database.patiently(
            lambda tx: KneeStore(tx).find(endpoint.name, claimed.choice.model),
            self._leases.lease_s,
        )
        return sized(learnt, claimed.lease.no, bounds)

    def _work_through(self, work: Work) -> str:
        """Every micro-batch; how the chunk ended."""
        first = True
        while self._settle(work):
            stop = self._must_stop(work, ask=not first)
            if stop is not None:
                return self._hand_back(work, stop)
            first = False
            batch = work.todo.pop(0)
            if not self._stand_at(work, batch):
                work.todo.insert(0, batch)
                return self._hand_back(work, "endpoints", _NO_ROOM_S)
            work.called_at, work.first_token_s = clock.monotonic_s(), None
            try:
                read = self._call(work, batch)
            except errors.EndpointError as error:
                if not isinstance(error, errors.BudgetSpent):  # Then there was no call.
                    self._note(work.called(len(batch), error.code))
                ended = self._suffer(work, batch, error)
                if ended is not None:
                    return ended
                work.leave_out()
                continue
            call = replace(
                work.called(len(batch)),
                prompt_tokens=read.prompt_tokens,
                completion_tokens=read.completion_tokens,
                money=money(work.claimed.endpoint, read.prompt_tokens, read.completion_tokens),
            )
            kept = read.kept if isinstance(read, Taken) else None
            self._checkpoint(work, read.results, batch, read.vectors, call, kept)
            if kept is not None and kept.answer is not None:
                work.todo.insert(0, batch)
        return self._finish(work)

    def _settle(self, work: Work) -> bool:
        """Record the foremost items that need no further call; whether others are left."""
        while work.steps is not None:
            results, kept = work.steps.ready(work.todo, self._limits.micro_batch_items)
            if not results:
                break
            self._checkpoint(work, results, kept=kept)
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
            lambda tx: self._verdict(tx, job, lease), self._leases.lease_s
        )

    def _verdict(self, tx: Connection, job: Job, lease: Lease) -> str | None:
        """The newest leases past the limit give way, by rank; those of a stopped job do, and those
        at an endpoint that is to be left alone."""
        now = JobStore(tx).get(job.id)
        if now is None or not claimable(now):
            return "no_job" if now is None else now.state
        pool, limits = self._pools.named(job.pool), LimitStore(tx)
        row = limits.read(pool.name)
        if row is None:
            return "no_limit_row"
        held = held_back(tx, now, row.now)
        if held is not None:
            return held.code
        if paused_by_budget(tx, now, has_more=True):
            return JobState.PAUSED
        occupancy = limits.occupancy(pool.name)
        people = occupancy.interactive_total + occupancy.queued
        pool = current(tx, pool, row)
        here = pool.health.get(lease.endpoint, HEALTHY)
        if here.cooling or here.is_dead or here.is_shut(job.model):
            return "endpoint"
        limit = limit_now(row.state, people, pool.bounds, row.now)
        if occupancy.batch_total <= limit:
            return None
        return "yielded" if limits.rank(pool.name, job.id, lease.no) >= limit else None

    def _call(self, work: Work, batch: Sequence[Unit]) -> Read:
        if work.steps is None:
            return self._caller.called(work, batch)
        step = work.steps.ahead(batch[0].item)
        reply = self._caller.reply_to(work, step.request)
        return work.steps.take(step, reply, work.claimed.endpoint.name)

    def _checkpoint(
        self,
        work: Work,
        results: Sequence[ItemResult],
        batch: Sequence[Unit] = (),
        vectors: Vectors | None = None,
        call: BatchCall | None = None,
        kept: Kept | None = None,
    ) -> None:
        """Store results, and vectors with them, if the lease is still ours; LeaseLost if not."""
        lease, job = work.lease, work.claimed.job
        tokens = sum(r.tokens for r in results)
        answered = any(r.status is Status.DONE for r in results) or vectors is not None
        answered = answered or (kept is not None and kept.answer is not None)

        def store(tx: Connection) -> None:
            if not ChunkStore(tx).hold(lease):
                raise errors.LeaseLost
            told: Sequence[ItemResult] = results
            if vectors is not None and work.collection is not None:
                work.collection, late = write(tx, work.collection, job, batch, vectors, work.known)
                told = [superseded(r) if r.seq in late else r for r in results]
            # Nothing new: an earlier commit went through and only its answer was lost.
            is_new = ResultStore(tx).record(lease, told, work.claimed.stand_in) > 0 or not results
            if kept is not None:
                is_new = kept.write(tx, lease, is_new=is_new)
            if is_new:
                ChunkStore(tx).add(lease, tally_of(told, call))
                if call is not None:
                    CallStore(tx).record(call)
            if answered:
                EndpointStore(tx).answered(work.claimed.endpoint.name, work.task)

        # Answered calls are paid for: while Postgres restarts they wait here, as long as the lease.
        self._database.patiently(store, self._leases.lease_s)
        failed = sum(r.status is Status.FAILED for r in results)
        work.done += len(results) - failed
        work.failed += failed
        work.tokens += tokens
        self._observer.saw(
            MicroBatchDone(job.id, job.kind, work.done, work.failed, job.total, work.tokens)
        )

    def _note(self, call: BatchCall) -> None:
        """Record a call that gave nothing to store."""
        self._database.patiently(lambda tx: CallStore(tx).record(call), self._leases.lease_s)

    def _suffer(self, work: Work, batch: Sequence[Unit], error: errors.EndpointError) -> str | None:
        """Carry out what an error means; how the chunk ended, None: it goes on."""
        elsewhere = self._judge(work, batch, error)
        match consequence(error, len(batch), work.lease.attempt):
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
            case Snooze(code, reason):
                work.todo.insert(0, batch)
                return self._hand_back(work, code, 0.0, code, reason)
            case Wait(after_s, code, reason):
                work.todo.insert(0, batch)
                wait_s = 0.0 if self._another_serves(work) else after_s
                return self._hand_back(work, code, wait_s, code, reason)
            case HandBack():
                work.todo.insert(0, batch)
                if work.held.lost:
                    raise errors.LeaseLost
                return self._hand_back(work, "yielded")
            case PauseJob(code, reason):
                work.todo.insert(0, batch)
                ended = self._hand_back(work, code, 0.0, code, reason)
                if not elsewhere:
                    self._pause(work.claimed.job, f"{code}: {reason}")
                return ended
        return None

    def _fail(self, work: Work, batch: Sequence[Unit], code: str, reason: str) -> None:
        self._checkpoint(
            work,
            [
                ItemResult(seq, Status.FAILED, code=code, error=reason[:ERROR_LENGTH])
                for seq in dict.fromkeys(unit.item.seq for unit in batch)
            ],
        )
        work.given_up |= {unit.item.seq for unit in batch}

    def _judge(self, work: Work, batch: Sequence[Unit], error: errors.EndpointError) -> bool:
        """Let all processes know how the endpoint stands now; whether another one does its work.

        A model that one endpoint does not have after all is a mistake in its declaration, which a
        person must put right.
        """
        claimed, pool = work.claimed, self._pools.named(work.claimed.job.pool)
        name = claimed.endpoint.name
        model = claimed.job.model if claimed.stand_in else claimed.choice.model

        def judge(tx: Connection) -> bool:
            now = present(tx, pool)
            others = [spec for spec in now.endpoints if spec.name != name]
            (role,) = batch_roles(claimed.job.failover, model, others, now.health)
            may_move = not isinstance(error, errors.ModelMissing)
            elsewhere = may_move and usable(model, others, now.health, role)
            judged(
                tx,
                name,
                error,
                self._rules,
                task=work.task,
                model=claimed.choice.model,
                items=len(batch),
                attempt=work.lease.attempt,
                elsewhere=elsewhere,
            )
            return elsewhere

        if error.code not in SPEAKING:
            return False
        return self._database.patiently(judge, self._leases.lease_s)

    def _another_serves(self, work: Work) -> bool:
        """Whether another endpoint of the pool is declared for the model: it may have room."""
        choice, pool = work.claimed.choice, self._pools.named(work.claimed.job.pool)
        return any(spec.name != choice.spec.name for spec in serving(choice.model, pool.endpoints))

    def _refuse(self, claimed: Claimed, reason: str) -> None:
        """Nothing of the job can be stored as things are: the chunk goes back, the job pauses."""

        def refuse(tx: Connection) -> None:
            if ChunkStore(tx).hold(claimed.lease):
                ChunkStore(tx).hand_back(claimed.lease, None, 0.0, None, None)
            JobStore(tx).move(claimed.job.id, OPEN, JobState.PAUSED, reason[:ERROR_LENGTH])

        self._database.patiently(refuse, self._leases.lease_s)

    def _pause(self, job: Job, reason: str) -> None:
        with self._database.transaction() as tx:
            paused = JobStore(tx).move(job.id, OPEN, JobState.PAUSED, reason[:ERROR_LENGTH])
        if paused:
            self._observer.saw(JobSteered(job.id, JobState.PAUSED, reason.partition(":")[0]))

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
                store.waste(work.lease, work.wasted, work.wasted_money)
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
