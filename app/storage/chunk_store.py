"""Chunks: cut, claim, checkpoint under the fence, hand back, rescue.

What each method locks is said with it. A claim is two statements on purpose: the pool's limit row
is locked by `LimitStore.lock` first, so that the count here is made with a fresh snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from app.domain.chunks import Chunk, ChunkState, Lease, Seqs
from app.domain.resuming import CONTINUING
from app.domain.throttle.yielding import Held


@dataclass(frozen=True, slots=True)
class Tally:
    """What one checkpoint adds to its chunk."""

    ok: int = 0
    unchanged: int = 0
    empty: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: float = 0.0


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A lease that ran out, as the reaper sees it."""

    job_id: int
    no: int
    fence: int
    pool: str
    seqs: Seqs
    crashes: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Calls:
    """Batch calls in flight. `drain_s` is about how long the slowest takes for one item;
    `work_tokens` and `wasted_tokens` are those of the jobs that run now."""

    held: list[Held]
    drain_s: float
    work_tokens: float
    wasted_tokens: float


class ChunkStore:
    """Queries on `chunks`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def cut(self, job_id: int, pool: str, total: int, size: int) -> None:
        """Cut seq 1 to `total` into chunks of `size`, in one statement."""
        self._tx.execute(_CUT, {"job_id": job_id, "pool": pool, "total": total, "size": size})

    def claim(
        self, job_id: int, worker: str, endpoint: str, lease_s: float, *, fresh: bool = False
    ) -> Lease | None:
        """Lease the job's first ready chunk whose time has come; None: there is none.

        `fresh` passes over those whose items have failed at this very endpoint. Locks the chunk
        row, passing over rows that others hold.
        """
        row = self._tx.execute(
            _CLAIM,
            {
                "job_id": job_id,
                "worker": worker,
                "endpoint": endpoint,
                "lease_s": lease_s,
                "fresh": fresh,
            },
        ).one_or_none()
        if row is None:
            return None
        seqs = None if row.seqs is None else tuple(row.seqs)
        return Lease(
            job_id=job_id,
            no=row.no,
            fence=row.fence,
            first_seq=row.first_seq,
            last_seq=row.last_seq,
            seqs=seqs,
            attempt=row.attempt,
            crashes=row.crashes,
            endpoint=endpoint,
        )

    def _lock_numbers(self, job_id: int) -> None:
        """Until the transaction ends nobody else numbers a new chunk of this job."""
        self._tx.execute(_LOCK_JOB, {"job_id": job_id})

    def hold(self, lease: Lease) -> bool:
        """Lock the chunk row if the lease is still ours; False: it is lost."""
        return self._tx.execute(_HOLD, _of(lease)).one_or_none() is not None

    def add(self, lease: Lease, tally: Tally) -> None:
        """Add a checkpoint's figures. Progress was made, so crashes count from nought again."""
        values: dict[str, Any] = {name: getattr(tally, name) for name in Tally.__slots__}
        self._tx.execute(_ADD, _of(lease) | values)

    def move(self, lease: Lease, endpoint: str) -> bool:
        """The lease's place is at `endpoint` from now on; False: the lease is lost."""
        return self._tx.execute(_MOVE, _of(lease) | {"endpoint": endpoint}).rowcount == 1

    def finish(self, lease: Lease) -> bool:
        """The chunk is done; False: the lease is lost."""
        return self._tx.execute(_FINISH, _of(lease)).rowcount == 1

    def hand_back(
        self,
        lease: Lease,
        left: Sequence[int] | None = None,
        after_s: float = 0.0,
        code: str | None = None,
        error: str | None = None,
    ) -> bool:
        """The chunk is ready again after `after_s`, no attempt counted; False: the lease is lost.

        `left` names what is still to do where some items went to a retry chunk meanwhile; None:
        all that has no result.
        """
        seqs = None if left is None else sorted(left)
        values = {"after_s": after_s, "code": code, "error": error, "left": seqs}
        return self._tx.execute(_HAND_BACK, _of(lease) | values).rowcount == 1

    def retry(
        self,
        lease: Lease,
        seqs: Sequence[int],
        attempt: int,
        after_s: float,
        code: str,
        error: str,
    ) -> None:
        """Gather `seqs` into a retry chunk of their own, to run after `after_s`.

        The caller holds the lease; the items leave its chunk (its `items` shrinks by as many).
        """
        ordered = sorted(seqs)
        values = {
            "seqs": ordered,
            "first": ordered[0],
            "last": ordered[-1],
            "count": len(ordered),
            "attempt": attempt,
            "after_s": after_s,
            "code": code,
            "error": error,
        }
        self._lock_numbers(lease.job_id)
        self._tx.execute(_SHRINK, _of(lease) | {"count": len(ordered)})
        self._tx.execute(_RETRY, _of(lease) | values)

    def extend(
        self, leases: Sequence[tuple[int, int, int]], lease_s: float
    ) -> dict[tuple[int, int, int], bool]:
        """Extend (job_id, no, fence) leases in one statement; each still held → yield requested.

        A lease that is missing in the answer is lost.
        """
        if not leases:
            return {}
        jobs, nos, fences = zip(*leases, strict=True)
        rows = self._tx.execute(
            _EXTEND,
            {"jobs": list(jobs), "nos": list(nos), "fences": list(fences), "lease_s": lease_s},
        )
        return {(row.job_id, row.no, row.fence): row.yield_requested for row in rows}

    def lapsed(self, worker: str | None = None, most: int = 500) -> list[Lapsed]:
        """Leases that ran out or, with `worker`, all that this worker held. Locks their rows."""
        rows = self._tx.execute(
            _LAPSED if worker is None else _HELD_BY, {"worker": worker, "most": most}
        )
        return [
            Lapsed(
                job_id=row.job_id,
                no=row.no,
                fence=row.fence,
                pool=row.pool,
                seqs=Seqs(
                    row.first_seq, row.last_seq, None if row.seqs is None else tuple(row.seqs)
                ),
                crashes=row.crashes + 1,
                attempt=row.attempt,
            )
            for row in rows
        ]

    def rearm(self, lapsed: Sequence[Lapsed], after_s: float = 0.0) -> None:
        """Put lapsed chunks back to ready, a crash counted; the old fence is dead."""
        self._tx.execute(
            _REARM,
            {
                "jobs": [chunk.job_id for chunk in lapsed],
                "nos": [chunk.no for chunk in lapsed],
                "after_s": after_s,
            },
        )

    def split(self, chunk: Lapsed, left: Seqs, right: Seqs) -> None:
        """Replace a chunk by two halves, each with its crashes counted from nought.

        What it recorded stays counted on it; the halves hold only items without a result.
        """
        self._lock_numbers(chunk.job_id)
        self._tx.execute(_RETIRE, {"job_id": chunk.job_id, "no": chunk.no, "state": "split"})
        for half in (left, right):
            self._tx.execute(
                _HALF,
                {
                    "job_id": chunk.job_id,
                    "no": chunk.no,
                    "first": half.first,
                    "last": half.last,
                    "seqs": None if half.listed is None else list(half.listed),
                    "count": half.count,
                    "attempt": chunk.attempt,
                },
            )

    def bury(self, chunk: Lapsed, failed: int) -> None:
        """The chunk's one item was recorded as failed (`failed` = 1 if it had no result)."""
        self._tx.execute(_RETIRE, {"job_id": chunk.job_id, "no": chunk.no, "state": "dead"})
        self._tx.execute(_BURIED, {"job_id": chunk.job_id, "no": chunk.no, "failed": failed})

    def request_yield(self, chunks: Sequence[tuple[int, int]]) -> None:
        """Ask the holders of these (job_id, no) to give their places back."""
        if chunks:
            jobs, nos = zip(*chunks, strict=True)
            self._tx.execute(_REQUEST_YIELD, {"jobs": list(jobs), "nos": list(nos)})

    def asked_to_yield(self, worker: str) -> list[tuple[int, int, int]]:
        """(job_id, no, fence) of the worker's chunks that are asked to give their place back."""
        rows = self._tx.execute(_ASKED_TO_YIELD, {"worker": worker})
        return [(row.job_id, row.no, row.fence) for row in rows]

    def waste(self, lease: Lease, tokens: int, money: float = 0.0) -> None:
        """Count tokens that a closed call threw away, and their cost. The caller has the lease."""
        self._tx.execute(_WASTE, _of(lease) | {"tokens": tokens, "money": money})

    def calls(self, pool: str) -> Calls:
        """The pool's batch calls in flight, with what closing each would throw away."""
        rows = self._tx.execute(_CALLS, {"pool": pool, "continuing": list(CONTINUING)}).all()
        totals = self._tx.execute(_WORK, {"pool": pool}).one()
        held = [
            Held(f"{row.job_id}/{row.no}", float(row.age_s), float(row.tokens), row.may_yield)
            for row in rows
        ]
        drain_s = max((float(row.item_s) for row in rows), default=0.0)
        return Calls(held, drain_s, float(totals.done), float(totals.wasted))

    def reopen_failed(self, job_id: int, codes: Sequence[str] | None) -> int:
        """Put failed items, and done ones with a code (all, or those with `codes`), into a new
        chunk; how many.

        Their results go, and the counts with them, in the caller's transaction.
        """
        self._lock_numbers(job_id)
        rows = self._tx.execute(
            _FORGET_FAILED, {"job_id": job_id, "codes": None if codes is None else list(codes)}
        ).all()
        if not rows:
            return 0
        seqs = sorted(row.seq for row in rows)
        taken = {"nos": [row.chunk_no for row in rows], "done": [row.done for row in rows]}
        self._tx.execute(_TAKE_BACK, {"job_id": job_id} | taken)
        values = {"seqs": seqs, "first": seqs[0], "last": seqs[-1], "count": len(seqs)}
        self._tx.execute(_AGAIN, {"job_id": job_id} | values)
        return len(seqs)

    def listed(self, job_id: int, most: int, state: ChunkState | None = None) -> list[Chunk]:
        """Chunks of a job as people see them."""
        rows = self._tx.execute(
            text(
                "SELECT no, state, items, attempt, crashes, worker, endpoint, not_before,"
                " ok + unchanged + empty AS ok, failed, error_code FROM chunks"
                " WHERE job_id = :job_id AND (CAST(:state AS text) IS NULL OR state = :state)"
                " ORDER BY no LIMIT :most"
            ),
            {"job_id": job_id, "most": most, "state": state},
        ).mappings()
        return [Chunk(**{**row, "state": ChunkState(row["state"])}) for row in rows]


def _of(lease: Lease) -> dict[str, Any]:
    return {"job_id": lease.job_id, "no": lease.no, "fence": lease.fence}


_CUT = text("""
    INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, items, state)
    SELECT :job_id, n + 1, :pool, n * :size + 1, least((n + 1) * :size, :total),
           least((n + 1) * :size, :total) - n * :size, 'ready'
    FROM generate_series(0, (CAST(:total AS bigint) - 1) / :size) AS n
""")

_CLAIM = text("""
    WITH next AS (
        SELECT job_id, no FROM chunks
        WHERE job_id = :job_id AND state = 'ready' AND coalesce(not_before, now()) <= now()
          AND NOT (CAST(:fresh AS boolean) AND attempt > 0 AND endpoint = :endpoint)
        ORDER BY no LIMIT 1
        FOR UPDATE SKIP LOCKED
    )
    UPDATE chunks c
    SET state = 'leased', fence = c.fence + 1, worker = :worker, endpoint = :endpoint,
        leased_at = clock_timestamp(), yield_requested = false, not_before = NULL,
        lease_until = clock_timestamp() + make_interval(secs => :lease_s)
    FROM next WHERE c.job_id = next.job_id AND c.no = next.no
    RETURNING c.no, c.fence, c.first_seq, c.last_seq, c.seqs, c.attempt, c.crashes
""")

_MINE = "job_id = :job_id AND no = :no AND fence = :fence AND state = 'leased'"

_HOLD = text(f"SELECT 1 FROM chunks WHERE {_MINE} FOR UPDATE")

_ADD = text(f"""
    UPDATE chunks SET ok = ok + :ok, unchanged = unchanged + :unchanged, empty = empty + :empty,
        failed = failed + :failed, crashes = 0, prompt_tokens = prompt_tokens + :prompt_tokens,
        completion_tokens = completion_tokens + :completion_tokens, money = money + :money
    WHERE {_MINE}
""")

_MOVE = text(f"UPDATE chunks SET endpoint = :endpoint WHERE {_MINE}")

_HELD = "held_s = held_s + extract(epoch FROM clock_timestamp() - leased_at)"

_FINISH = text(f"UPDATE chunks SET state = 'done', lease_until = NULL, {_HELD} WHERE {_MINE}")

_HAND_BACK = text(f"""
    UPDATE chunks SET state = 'ready', lease_until = NULL, yield_requested = false, {_HELD},
        error_code = coalesce(:code, error_code), error = coalesce(:error, error),
        seqs = coalesce(CAST(:left AS bigint[]), seqs),
        not_before = CASE WHEN CAST(:after_s AS float8) > 0
                     THEN clock_timestamp() + make_interval(secs => :after_s) END
    WHERE {_MINE}
""")

_SHRINK = text(f"UPDATE chunks SET items = items - :count WHERE {_MINE}")

_NEXT_NO = "(SELECT max(n.no) + 1 FROM chunks n WHERE n.job_id = :job_id)"

_LOCK_JOB = text("SELECT id FROM jobs WHERE id = :job_id FOR NO KEY UPDATE")

_RETRY = text(f"""
    INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, seqs, items, state, attempt,
                        endpoint, not_before, error_code, error)
    SELECT c.job_id, {_NEXT_NO}, c.pool, :first, :last, :seqs, :count, 'ready', :attempt,
           c.endpoint, clock_timestamp() + make_interval(secs => :after_s), :code, :error
    FROM chunks c WHERE c.job_id = :job_id AND c.no = :no
""")

_EXTEND = text("""
    UPDATE chunks c SET lease_until = clock_timestamp() + make_interval(secs => :lease_s)
    FROM unnest(CAST(:jobs AS bigint[]), CAST(:nos AS int[]), CAST(:fences AS bigint[]))
         AS mine (job_id, no, fence)
    WHERE c.job_id = mine.job_id AND c.no = mine.no AND c.fence = mine.fence
      AND c.state = 'leased'
    RETURNING c.job_id, c.no, c.fence, c.yield_requested
""")

_LAPSED_COLUMNS = """
    SELECT job_id, no, fence, pool, first_seq, last_seq, seqs, crashes, attempt FROM chunks
"""
_LAPSED = text(f"""{_LAPSED_COLUMNS}
    WHERE state = 'leased' AND lease_until < clock_timestamp() AND CAST(:worker AS text) IS NULL
    ORDER BY job_id, no LIMIT :most FOR UPDATE SKIP LOCKED
""")
_HELD_BY = text(f"""{_LAPSED_COLUMNS}
    WHERE state = 'leased' AND starts_with(worker, :worker)
    ORDER BY job_id, no LIMIT :most FOR UPDATE SKIP LOCKED
""")

_REARM = text("""
    UPDATE chunks c SET state = 'ready', crashes = crashes + 1, fence = fence + 1,
        lease_until = NULL, yield_requested = false,
        not_before = CASE WHEN CAST(:after_s AS float8) > 0
                     THEN clock_timestamp() + make_interval(secs => :after_s) END
    FROM unnest(CAST(:jobs AS bigint[]), CAST(:nos AS int[])) AS these (job_id, no)
    WHERE c.job_id = these.job_id AND c.no = these.no
""")

_RETIRE = text("""
    UPDATE chunks SET state = :state, fence = fence + 1, lease_until = NULL,
        items = ok + unchanged + empty + failed
    WHERE job_id = :job_id AND no = :no
""")

_HALF = text(f"""
    INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, seqs, items, state, attempt)
    SELECT c.job_id, {_NEXT_NO}, c.pool, :first, :last, CAST(:seqs AS bigint[]), :count,
           'ready', :attempt
    FROM chunks c WHERE c.job_id = :job_id AND c.no = :no
""")

_BURIED = text("""
    UPDATE chunks SET failed = failed + :failed, items = items + :failed
    WHERE job_id = :job_id AND no = :no
""")

_REQUEST_YIELD = text("""
    UPDATE chunks c SET yield_requested = true
    FROM unnest(CAST(:jobs AS bigint[]), CAST(:nos AS int[])) AS these (job_id, no)
    WHERE c.job_id = these.job_id AND c.no = these.no AND c.state = 'leased'
""")

_ASKED_TO_YIELD = text("""
    SELECT job_id, no, fence FROM chunks
    WHERE state = 'leased' AND yield_requested AND worker = :worker
""")

_WASTE = text(f"""
    UPDATE chunks SET wasted_tokens = wasted_tokens + :tokens, money = money + :money
    WHERE {_MINE}
""")

# What a call has cost so far is not in the row; half of what the chunk's items cost on average is
# what closing one throws away in expectation. Where the next call goes on, it is the prompt.
_CALLS = text("""
    SELECT c.job_id, c.no, j.may_yield, t.age_s, t.age_s / greatest(c.ok, 1) AS item_s,
        CASE WHEN j.resume_streamed AND e.kind = ANY(:continuing) THEN c.prompt_tokens
             ELSE 0.5 * (c.prompt_tokens + c.completion_tokens) END / greatest(c.ok, 1) AS tokens
    FROM chunks c JOIN jobs j ON j.id = c.job_id LEFT JOIN endpoints e ON e.name = c.endpoint
    CROSS JOIN LATERAL (
        SELECT greatest(0, extract(epoch FROM clock_timestamp() - c.leased_at)) AS age_s) AS t
    WHERE c.state = 'leased' AND c.pool = :pool AND c.lease_until > clock_timestamp()
""")

_WORK = text("""
    SELECT coalesce(sum(c.prompt_tokens + c.completion_tokens), 0) AS done,
           coalesce(sum(c.wasted_tokens), 0) AS wasted
    FROM chunks c JOIN jobs j ON j.id = c.job_id
    WHERE j.pool = :pool AND j.state IN ('ready','running')
""")

_FORGET_FAILED = text("""
    DELETE FROM results WHERE job_id = :job_id
      AND (status = 'failed' OR (status = 'done' AND code IS NOT NULL))
      AND (CAST(:codes AS text[]) IS NULL OR code = ANY(:codes))
    RETURNING seq, chunk_no, status = 'done' AS done
""")

_TAKE_BACK = text("""
    UPDATE chunks c SET failed = failed - (again.n - again.done), ok = ok - again.done,
        items = items - again.n
    FROM (SELECT no, count(*) AS n, count(*) FILTER (WHERE done) AS done
          FROM unnest(CAST(:nos AS int[]), CAST(:done AS boolean[])) AS t (no, done)
          GROUP BY no) AS again
    WHERE c.job_id = :job_id AND c.no = again.no
""")

_AGAIN = text(f"""
    INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, seqs, items, state)
    SELECT :job_id, {_NEXT_NO}, j.pool, :first, :last, :seqs, :count, 'ready'
    FROM jobs j WHERE j.id = :job_id
""")
