"""Carrying out what an endpoint's error means for a chunk, its job and the endpoint.

What follows from an error is decided in `domain.outcomes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from app import errors
from app.domain.blame import Blame
from app.domain.events import JobSteered, Observer
from app.domain.jobs import OPEN, Job, JobState
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
from app.domain.retry import may_retry
from app.domain.routing import another_does, serving
from app.kinds.base import Unit
from app.services.blaming import Blaming
from app.services.chunk_writes import ChunkWrites
from app.services.pools import Pools, present
from app.services.standing import SPEAKING, Rules, judged
from app.services.work import ERROR_LENGTH, Work
from app.storage.database import Database
from app.storage.job_store import JobStore


@dataclass(frozen=True, slots=True)
class Suffering:
    """Acts on errors by `rules`. `patience_s`: how long a write waits for Postgres."""

    database: Database
    pools: Pools
    blaming: Blaming
    writes: ChunkWrites
    rules: Rules
    observer: Observer
    patience_s: float

    def suffer(self, work: Work, batch: Sequence[Unit], error: errors.EndpointError) -> str | None:
        """The call of `batch` ended with `error`: how the chunk ended, None: it goes on.

        Raises LeaseLost.
        """
        again = not self.blaming.suspects(work.lease.job_id).isdisjoint(_seqs(batch))
        blame = self.blaming.whose(work, batch, error)
        elsewhere, cool_s = self._judge(work, batch, error, blame)
        writes = self.writes
        match consequence(error, len(batch), work.lease.attempt, blame):
            case Bisect():
                middle = len(batch) // 2
                work.todo[:0] = [batch[:middle], batch[middle:]]
            case FailItems(code, reason):
                writes.fail(work, batch, code, reason)
            case Retry(code, reason) as retry:
                if may_retry(work.lease.attempt + 1, self.rules.retry):
                    work.to_retry |= {unit.item.seq: retry for unit in batch}
                else:
                    writes.fail(work, batch, code, reason)
            case Snooze(code, reason):
                # The last one left must not be the first one that the endpoint is asked again.
                behind_s = self.rules.retry.base_s + cool_s if again and not work.todo else 0.0
                work.todo.insert(0, batch)
                return writes.hand_back(work, code, behind_s, code, reason)
            case Wait(after_s, code, reason):
                work.todo.insert(0, batch)
                wait_s = 0.0 if self._another_serves(work) else after_s
                return writes.hand_back(work, code, wait_s, code, reason)
            case HandBack():
                work.todo.insert(0, batch)
                if work.held.lost:
                    raise errors.LeaseLost
                return writes.hand_back(work, "yielded")
            case PauseJob(code, reason):
                work.todo.insert(0, batch)
                ended = writes.hand_back(work, code, 0.0, code, reason)
                if not elsewhere:
                    self._pause(work.claimed.job, f"{code}: {reason}")
                return ended
        return None

    def _judge(
        self, work: Work, batch: Sequence[Unit], error: errors.EndpointError, blame: Blame
    ) -> tuple[bool, float]:
        """Let all processes know how the endpoint stands now; whether another one does its work, or
        will once it has cooled down, and for how long it is left alone. What the input caused says
        nothing against the endpoint.

        A model that one endpoint does not have after all is a mistake in its declaration, which a
        person must put right.
        """
        claimed, pool = work.claimed, self.pools.named(work.claimed.job.pool)
        name = claimed.endpoint.name
        model = claimed.job.model if claimed.stand_in else claimed.choice.model

        def judge(tx: Connection) -> tuple[bool, float]:
            now = present(tx, pool)
            may_move = not isinstance(error, errors.ModelMissing)
            elsewhere = may_move and another_does(
                claimed.job.failover, model, name, now.endpoints, now.health
            )
            verdict = judged(
                tx,
                name,
                error,
                self.rules,
                task=work.task,
                model=claimed.choice.model,
                items=len(batch),
                attempt=work.lease.attempt,
                elsewhere=elsewhere,
            )
            return elsewhere, verdict.cool_s

        if error.code not in SPEAKING or blame is Blame.INPUT:
            return False, 0.0
        return self.database.patiently(judge, self.patience_s)

    def _another_serves(self, work: Work) -> bool:
        """Whether another endpoint of the pool is declared for the model: it may have room."""
        choice, pool = work.claimed.choice, self.pools.named(work.claimed.job.pool)
        return any(spec.name != choice.spec.name for spec in serving(choice.model, pool.endpoints))

    def _pause(self, job: Job, reason: str) -> None:
        with self.database.transaction() as tx:
            paused = JobStore(tx).move(job.id, OPEN, JobState.PAUSED, reason[:ERROR_LENGTH])
        if paused:
            self.observer.saw(JobSteered(job.id, JobState.PAUSED, reason.partition(":")[0]))


def _seqs(batch: Sequence[Unit]) -> set[int]:
    return {unit.item.seq for unit in batch}
