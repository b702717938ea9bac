"""Leases of chunks: claimed, extended, written to under the fence, given back.

What each method locks is said with it. A claim is two statements on purpose: the pool's limit row
is locked by `LimitStore.lock` first, so that the count here is made with a fresh snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from app.domain.chunks import Lease
from app.storage.chunk_store import NEXT_NO, lock_numbers


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


class LeaseStore:
    """Queries on leased `chunks`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

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

    def hold(self, lease: Lease) -> bool:
        """Lock the chunk row if the lease is still ours; False: it is lost."""
        return self._tx.execute(_HOLD, _of(lease)).one_or_none() is not None

    def add(self, lease: Lease, tally: Tally) -> None:
        """Add a checkpoint's figures. Progress was made, so crashes count from nought again."""
        values: dict[str, Any] = {name: getattr(tally, name) for name in Tally.__slots__}
        self._tx.execute(_ADD, _of(lease) | values)

    def waste(self, lease: Lease, tokens: int, money: float = 0.0) -> None:
        """Count tokens that a closed call threw away, and their cost. The caller has the lease."""
        self._tx.execute(_WASTE, _of(lease) | {"tokens": tokens, "money": money})

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
        lock_numbers(self._tx, lease.job_id)
        self._tx.execute(_SHRINK, _of(lease) | {"count": len(ordered)})
        self._tx.execute(_RETRY, _of(lease) | values)


def _of(lease: Lease) -> dict[str, Any]:
    return {"job_id": lease.job_id, "no": lease.no, "fence": lease.fence}


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

_EXTEND = text("""
    UPDATE chunks c SET lease_until = clock_timestamp() + make_interval(secs => :lease_s)
    FROM unnest(CAST(:jobs AS bigint[]), CAST(:nos AS int[]), CAST(:fences AS bigint[]))
         AS mine (job_id, no, fence)
    WHERE c.job_id = mine.job_id AND c.no = mine.no AND c.fence = mine.fence
      AND c.state = 'leased'
    RETURNING c.job_id, c.no, c.fence, c.yield_requested
""")

_MINE = "job_id = :job_id AND no = :no AND fence = :fence AND state = 'leased'"

_HOLD = text(f"SELECT 1 FROM chunks WHERE {_MINE} FOR UPDATE")

_ADD = text(f"""
    UPDATE chunks SET ok = ok + :ok, unchanged = unchanged + :unchanged, empty = empty + :empty,
        failed = failed + :failed, crashes = 0, prompt_tokens = prompt_tokens + :prompt_tokens,
        completion_tokens = completion_tokens + :completion_tokens, money = money + :money
    WHERE {_MINE}
""")

_WASTE = text(f"""
    UPDATE chunks SET wasted_tokens = wasted_tokens + :tokens, money = money + :money
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

_RETRY = text(f"""
    INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, seqs, items, state, attempt,
                        endpoint, not_before, error_code, error)
    SELECT c.job_id, {NEXT_NO}, c.pool, :first, :last, :seqs, :count, 'ready', :attempt,
           c.endpoint, clock_timestamp() + make_interval(secs => :after_s), :code, :error
    FROM chunks c WHERE c.job_id = :job_id AND c.no = :no
""")
