"""The pool's limit: the row that every claim locks, who is in flight, and each decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import insert

from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, Decision, PolicySettings, State
from app.storage.tables import throttle_decisions, throttle_limits


@dataclass(frozen=True, slots=True)
class Override:
    """An operator's limit, in force until a time."""

    value: int
    until: datetime
    reason: str | None


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A pool's limit as it stands; `now` is the database's clock, the one all machines share."""

    pool: str
    state: State
    version: int
    computed_at: datetime | None
    override: Override | None
    tuned: Mapping[str, Any]
    pressure: float
    now: datetime


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Requests in flight: live batch leases and running interactive requests, by endpoint.

    `queued` counts interactive requests that wait for a place. Those that share a call count as
    one.
    """

    batch: dict[str, int]
    interactive: dict[str, int]
    queued: int

    @property
    def batch_total(self) -> int:
        """Batch requests in flight."""
        return sum(self.batch.values())

    @property
    def interactive_total(self) -> int:
        """Interactive requests in flight."""
        return sum(self.interactive.values())

    def at(self, endpoint: str) -> int:
        """Both classes at one endpoint."""
        return self.batch.get(endpoint, 0) + self.interactive.get(endpoint, 0)


class LimitStore:
    """Queries on `throttle_limits` and `throttle_decisions`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def ensure(self, pools: Sequence[Bounds]) -> None:
        """Make the rows of pools that have none, at their floor."""
        rows = [
            {
                "pool": bounds.pool,
                "value": bounds.floor,
                "reason": State().reason,
                "state": State(limit=bounds.floor).to_json(),
            }
            for bounds in sorted(pools, key=lambda bounds: bounds.pool)
        ]
        self._tx.execute(insert(throttle_limits).values(rows).on_conflict_do_nothing())

    def lock(self, pool: str) -> LimitRow | None:
        """The pool's row, locked until the transaction ends. In a statement of its own: what is
        counted afterwards is counted with a snapshot younger than the lock."""
        return self._row(pool, " FOR UPDATE")

    def read(self, pool: str) -> LimitRow | None:
        """The pool's row, without a lock."""
        return self._row(pool, "")

    def _row(self, pool: str, lock: str) -> LimitRow | None:
        row = self._tx.execute(text(ROW.text + lock), {"pool": pool}).mappings().one_or_none()
        return None if row is None else limit_row(dict(row))

    def occupancy(self, pool: str) -> Occupancy:
        """Who is in flight now. Exact for as long as the pool's row is locked."""
        rows = self._tx.execute(OCCUPANCY, {"pool": pool}).mappings()
        return occupancy_of(dict(row) for row in rows)

    def rank(self, pool: str, job_id: int, no: int) -> int:
        """How many live leases of the pool are older than this one: 0 for the oldest."""
        return int(self._tx.execute(_RANK, {"pool": pool, "job_id": job_id, "no": no}).scalar_one())

    def record(
        self,
        pool: str,
        before: State,
        reading: Reading | None,
        policy: PolicySettings,
        bounds: Bounds,
        decision: Decision,
        now: datetime,
        override: int | None,
        deadline_places: int | None = None,
    ) -> None:
        """Write the decision, with exactly the arguments and result of `decide`, and last the
        limit: from then on its row is locked."""
        arguments = {
            "state": before.to_json(),
            "reading": None if reading is None else reading.to_json(),
            "policy": policy.to_json(),
            "bounds": bounds.to_json(),
            "now": now.isoformat(),
            "override": override,
            "deadline_places": deadline_places,
        }
        self._tx.execute(
            insert(throttle_decisions).values(
                pool=pool,
                computed_at=now,
                value=decision.limit,
                pressure=decision.pressure,
                reason=decision.reason,
                arguments=arguments,
                result=decision.to_json(),
            )
        )
        self._tx.execute(
            _SET_LIMIT,
            {
                "pool": pool,
                "value": decision.limit,
                "reason": decision.reason,
                "pressure": decision.pressure,
                "state": _json(decision.state.to_json()),
                "computed_at": now,
                "valid_until": decision.state.valid_until,
            },
        )

    def set_override(self, pool: str, value: int, for_s: float, reason: str | None) -> bool:
        """An operator's limit for `for_s` seconds, in force from the next claim on."""
        done = self._tx.execute(
            _SET_OVERRIDE, {"pool": pool, "value": value, "for_s": for_s, "reason": reason}
        )
        return done.rowcount == 1

    def clear_override(self, pool: str) -> bool:
        """Back to the policy; False: there was no override."""
        done = self._tx.execute(_CLEAR_OVERRIDE, {"pool": pool})
        return done.rowcount == 1

    def tune(self, pool: str, changes: Mapping[str, Any] | None) -> None:
        """Replace what is tuned at run time; None: back to the declared settings."""
        told = None if changes is None else _json(dict(changes))
        self._tx.execute(_TUNE, {"pool": pool, "tuned": told})

    def history(self, pool: str, most: int, since_s: float | None = None) -> list[dict[str, Any]]:
        """The newest decisions, oldest first: time, limit, pressure, reason, arguments, result."""
        rows = self._tx.execute(
            _HISTORY, {"pool": pool, "most": most, "since_s": since_s}
        ).mappings()
        return [dict(row) for row in reversed(rows.all())]

    def prune(self, older_than_s: float, most: int) -> int:
        """Delete at most `most` old decisions; how many."""
        return self._tx.execute(_PRUNE, {"age_s": older_than_s, "most": most}).rowcount


def limit_row(row: Mapping[str, Any]) -> LimitRow:
    """What the row of `ROW` says."""
    override = None
    if row["override_value"] is not None and row["override_until"] > row["now"]:
        override = Override(row["override_value"], row["override_until"], row["override_reason"])
    return LimitRow(
        pool=row["pool"],
        state=State.from_json(row["state"] or {}),
        version=row["version"],
        computed_at=row["computed_at"],
        override=override,
        tuned=row["tuned"] or {},
        pressure=row["pressure"],
        now=row["now"],
    )


def occupancy_of(rows: Iterable[Mapping[str, Any]]) -> Occupancy:
    """What the rows of `OCCUPANCY` say."""
    counts: dict[str, dict[str, int]] = {"batch": {}, "interactive": {}, "queued": {}}
    for row in rows:
        counts[row["what"]][row["endpoint"]] = row["n"]
    return Occupancy(counts["batch"], counts["interactive"], sum(counts["queued"].values()))


def _json(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()


ROW = text("""
    SELECT pool, state, version, computed_at, pressure, tuned, override_value, override_until,
           override_reason, clock_timestamp() AS now
    FROM throttle_limits WHERE pool = :pool
""")

OCCUPANCY = text("""
    SELECT 'batch' AS what, endpoint, count(*) AS n FROM chunks
    WHERE state = 'leased' AND pool = :pool AND lease_until > clock_timestamp() GROUP BY endpoint
    UNION ALL
    SELECT CASE state WHEN 'running' THEN 'interactive' ELSE 'queued' END, endpoint,
        count(DISTINCT coalesce(rides_on, id))
    FROM interactive_requests
    WHERE state IN ('queued','running') AND pool = :pool AND lease_until > clock_timestamp()
    GROUP BY state, endpoint
""")

_RANK = text("""
    SELECT count(*) FROM chunks c
    JOIN chunks mine ON mine.job_id = :job_id AND mine.no = :no
    WHERE c.state = 'leased' AND c.pool = :pool AND c.lease_until > clock_timestamp()
      AND (c.leased_at, c.job_id, c.no) < (mine.leased_at, mine.job_id, mine.no)
""")

_SET_LIMIT = text("""
    UPDATE throttle_limits SET value = :value, reason = :reason, pressure = :pressure,
        state = CAST(:state AS jsonb), computed_at = :computed_at, valid_until = :valid_until,
        version = version + 1
    WHERE pool = :pool
""")

_SET_OVERRIDE = text("""
    UPDATE throttle_limits SET override_value = :value, override_reason = :reason,
        override_until = clock_timestamp() + make_interval(secs => :for_s)
    WHERE pool = :pool
""")

_CLEAR_OVERRIDE = text("""
    UPDATE throttle_limits SET override_value = NULL, override_until = NULL, override_reason = NULL
    WHERE pool = :pool AND override_value IS NOT NULL
""")

_TUNE = text("UPDATE throttle_limits SET tuned = CAST(:tuned AS jsonb) WHERE pool = :pool")

_HISTORY = text("""
    SELECT id, computed_at, value, pressure, reason, arguments, result FROM throttle_decisions
    WHERE pool = :pool AND (CAST(:since_s AS float8) IS NULL
          OR computed_at > clock_timestamp() - make_interval(secs => :since_s))
    ORDER BY computed_at DESC, id DESC LIMIT :most
""")

_PRUNE = text("""
    DELETE FROM throttle_decisions WHERE id IN (
        SELECT id FROM throttle_decisions
        WHERE computed_at < clock_timestamp() - make_interval(secs => :age_s)
        ORDER BY computed_at LIMIT :most)
""")
