"""Endpoints as a fleet: those that come and go at run time, how each fares, how they compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.domain.health import Breaker
from app.domain.routing import EndpointHealth, EndpointSpec
from app.storage.endpoint_store import document_of


@dataclass(frozen=True, slots=True)
class Pace:
    """`pace` as measured now, `known` as it is written; None: too few calls, its or its peers'."""

    name: str
    slow: bool
    known: float | None
    pace: float | None


@dataclass(frozen=True, slots=True)
class Faring:
    """An endpoint as people see it. `running`: requests of both classes in flight; `finished` and
    `failed` of the last minutes, `mean_s` the seconds that a finished one took, None: there was
    none. `added`: at run time, so that it can be removed."""

    name: str
    pool: str
    kind: str
    base_url: str
    role: str
    models: tuple[str, ...]
    max_concurrency: int
    added: bool
    health: EndpointHealth
    code: str | None
    until: datetime | None
    running: int
    finished: int
    failed: int
    mean_s: float | None

    @property
    def failure_rate(self) -> float | None:
        """Share of requests that failed; None: there was none."""
        total = self.finished + self.failed
        return self.failed / total if total else None


class FleetStore:
    """Queries on `endpoints` and what they have done, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def add(self, spec: EndpointSpec) -> bool:
        """Add an endpoint for all processes at once; False: the name is taken."""
        values = {
            "name": spec.name,
            "pool": spec.pool,
            "kind": spec.kind,
            "base_url": spec.base_url,
            "models": list(spec.models),
            "max_concurrency": spec.max_concurrency,
            "role": spec.role,
            "added": orjson.dumps(document_of(spec)).decode(),
        }
        return self._tx.execute(_ADD, values).rowcount == 1

    def drain(self, name: str, *, draining: bool) -> bool:
        """Whether it gets nothing new; False: there is no such endpoint."""
        values = {"name": name, "draining": draining}
        return self._tx.execute(_DRAIN, values).rowcount == 1

    def remove(self, name: str) -> None:
        """Forget one that was added at run time."""
        self._tx.execute(_REMOVE, {"name": name})

    def running(self, name: str) -> int:
        """Requests of both classes in flight there. Exact while its pool's limit row is locked."""
        return int(self._tx.execute(_RUNNING, {"name": name}).scalar_one())

    def faring(self, window_s: float) -> list[Faring]:
        """Every endpoint, by pool and name, with what it did in the last `window_s` seconds."""
        rows = self._tx.execute(_FARING, {"window_s": window_s}).mappings()
        return [_faring(row) for row in rows]

    def paces(self, pools: Sequence[str], window_s: float, least: int) -> list[Pace]:
        """How many times as long as its peers each endpoint took lately, for the same work.

        Peers have answered for the same model in the last `window_s`; who has answered fewer than
        `least` times is not compared.
        """
        values = {"pools": list(pools), "window_s": window_s, "least": least}
        rows = self._tx.execute(_PACES, values)
        return [Pace(row.name, row.slow, row.known, row.pace) for row in rows]

    def set_paces(self, paces: Sequence[tuple[str, float | None, bool]]) -> None:
        """Write (name, pace, slow), in one statement."""
        if not paces:
            return
        names, values, slow = zip(*sorted(paces), strict=True)
        self._tx.execute(
            _SET_PACES, {"names": list(names), "paces": list(values), "slow": list(slow)}
        )


def _faring(row: Any) -> Faring:
    values = dict(row)
    health = EndpointHealth(
        **{name: values.pop(name) for name in ("cooling", "refusals", "openings", "draining")},
        breaker=Breaker(values.pop("breaker")),
        slow=values.pop("slow"),
        pace=values.pop("pace"),
    )
    return Faring(**{**values, "models": tuple(values["models"])}, health=health)


_ADD = text("""
    INSERT INTO endpoints (name, pool, kind, base_url, models, max_concurrency, role, added)
    VALUES (:name, :pool, :kind, :base_url, :models, :max_concurrency, :role,
        CAST(:added AS jsonb))
    ON CONFLICT (name) DO NOTHING
""")

_DRAIN = text("UPDATE endpoints SET draining = :draining WHERE name = :name")

_REMOVE = text("DELETE FROM endpoints WHERE name = :name AND added IS NOT NULL")

_RUNNING = text("""
    SELECT (SELECT count(*) FROM chunks WHERE state = 'leased' AND endpoint = :name
            AND lease_until > clock_timestamp())
        + (SELECT count(*) FROM interactive_requests WHERE state = 'running' AND endpoint = :name
            AND lease_until > clock_timestamp())
""")

# Requests that share a call are one here, as they take one place.
_FARING = text("""
    WITH flying AS (
        SELECT endpoint FROM chunks
        WHERE state = 'leased' AND lease_until > clock_timestamp()
        UNION ALL
        SELECT endpoint FROM interactive_requests
        WHERE state = 'running' AND lease_until > clock_timestamp()
        GROUP BY endpoint, coalesce(rides_on, id)
    ), ended AS (
        SELECT endpoint, seconds, error_code FROM batch_calls
        WHERE pool IN (SELECT pool FROM endpoints)
          AND ended_at > clock_timestamp() - make_interval(secs => :window_s)
        UNION ALL
        SELECT endpoint, max(extract(epoch FROM finished_at - started_at)), max(error_code)
        FROM interactive_requests
        WHERE pool IN (SELECT pool FROM endpoints) AND endpoint IS NOT NULL
          AND finished_at > clock_timestamp() - make_interval(secs => :window_s)
        GROUP BY endpoint, coalesce(rides_on, id)
        UNION ALL
        SELECT endpoint, seconds, error_code FROM detours
        WHERE pool IN (SELECT pool FROM endpoints)
          AND ended_at > clock_timestamp() - make_interval(secs => :window_s)
    ), told AS (
        SELECT endpoint, count(*) FILTER (WHERE error_code IS NULL) AS finished,
            count(*) FILTER (WHERE error_code NOT IN ('abandoned','rate_budget')) AS failed,
            avg(seconds) FILTER (WHERE error_code IS NULL) AS mean_s
        FROM ended GROUP BY endpoint
    )
    SELECT e.name, e.pool, e.kind, e.base_url, e.role, e.models, e.max_concurrency,
        e.added IS NOT NULL AS added, coalesce(e.cool_until > clock_timestamp(), false) AS cooling,
        e.refusals, e.openings, e.draining, e.breaker, e.slow, e.pace, e.error_code AS code,
        CASE WHEN e.breaker <> 'closed' THEN e.open_until
             WHEN e.cool_until > clock_timestamp() THEN e.cool_until END AS until,
        CAST((SELECT count(*) FROM flying f WHERE f.endpoint = e.name) AS int) AS running,
        CAST(coalesce(t.finished, 0) AS int) AS finished,
        CAST(coalesce(t.failed, 0) AS int) AS failed, CAST(t.mean_s AS float8) AS mean_s
    FROM endpoints e LEFT JOIN told t ON t.endpoint = e.name
    ORDER BY e.pool, e.name
""")

# What a call took for its work: batch calls carry alike batches of tokens, people's embedding calls
# are a text or a few. A token of a prompt is read far faster than one of an answer is made. Only
# the last fifteen of each sort tell: what was before a change is soon forgotten.
_PACES = text("""
    WITH calls AS (
        SELECT b.endpoint, b.ended_at AS at, coalesce(b.model, j.model) AS model,
            CASE WHEN b.completion_tokens > 0 THEN 'batch chat' ELSE 'batch embed' END AS what,
            b.seconds / greatest(1, CASE WHEN b.completion_tokens > 0
                THEN b.completion_tokens + b.prompt_tokens / 50.0
                ELSE b.prompt_tokens END) AS pace
        FROM batch_calls b JOIN jobs j ON j.id = b.job_id
        WHERE b.pool = ANY(:pools) AND b.error_code IS NULL
          AND b.ended_at > clock_timestamp() - make_interval(secs => :window_s)
        UNION ALL
        SELECT r.endpoint, r.finished_at, coalesce(r.answered_model, r.model), r.task_type,
            extract(epoch FROM r.finished_at - r.started_at) / CASE WHEN r.task_type = 'chat'
                THEN greatest(1, r.completion_tokens + r.prompt_tokens / 50.0) ELSE 1 END
        FROM interactive_requests r
        WHERE r.pool = ANY(:pools) AND r.state = 'done' AND r.endpoint IS NOT NULL
          AND r.finished_at > clock_timestamp() - make_interval(secs => :window_s)
    ), lately AS (
        SELECT *, row_number() OVER (PARTITION BY endpoint, model, what ORDER BY at DESC) AS age
        FROM calls
    ), typical AS (
        SELECT endpoint, model, what, count(*) AS n,
            percentile_cont(0.5) WITHIN GROUP (ORDER BY pace) AS pace
        FROM lately WHERE age <= 15
        GROUP BY endpoint, model, what HAVING count(*) >= :least
    ), compared AS (
        SELECT t.endpoint, t.n, t.pace / nullif((
            SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY peer.pace) FROM typical peer
            WHERE peer.endpoint <> t.endpoint AND peer.model = t.model AND peer.what = t.what
        ), 0) AS pace
        FROM typical t
    ), told AS (
        SELECT endpoint, CAST(sum(pace * n) / sum(n) AS float8) AS pace
        FROM compared WHERE pace IS NOT NULL GROUP BY endpoint
    )
    SELECT e.name, e.slow, e.pace AS known, told.pace
    FROM endpoints e LEFT JOIN told ON told.endpoint = e.name
    WHERE e.pool = ANY(:pools) ORDER BY e.name
""")

_SET_PACES = text("""
    UPDATE endpoints e SET pace = told.pace, slow = told.slow
    FROM unnest(CAST(:names AS text[]), CAST(:paces AS float8[]), CAST(:slow AS boolean[]))
         AS told (name, pace, slow)
    WHERE e.name = told.name
""")
