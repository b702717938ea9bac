"""Workers that run, and what they know: each writes its row at its start and keeps it fresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from sqlalchemy import Connection, text

SEEN_S = 20.0
"""A worker that has not written for so long does not run."""
_KEPT_S = 3600.0

_LIVE = f"w.seen_at > clock_timestamp() - make_interval(secs => {SEEN_S})"
_OF_BATCH = f"'batch' = ANY(w.queues) AND {_LIVE}"

KIND_KNOWN = f"EXISTS (SELECT FROM workers w WHERE {_OF_BATCH} AND j.kind = ANY(w.kinds))"
"""Of a job `j`: a running batch worker knows its kind."""

MODEL_KNOWN = f"""(j.model = 'none'
    OR EXISTS (SELECT FROM workers w WHERE {_OF_BATCH}
        AND j.kind = ANY(w.kinds) AND w.serves -> j.pool ? j.model)
    OR EXISTS (SELECT FROM endpoints e WHERE e.pool = j.pool AND e.added IS NOT NULL
        AND (j.model = ANY(e.models) OR e.added -> 'stands_in_for' ? j.model)))"""
"""Of a job `j`: a running batch worker knows an endpoint for its model; of those that were added at
run time every worker knows."""

DOABLE = f"""(NOT EXISTS (SELECT FROM workers w WHERE {_OF_BATCH})
    OR {KIND_KNOWN} AND {MODEL_KNOWN})"""
"""Of a job `j`: some running batch worker can do it, or none has told of itself."""


@dataclass(frozen=True, slots=True)
class Known:
    """What running batch workers know: how many there are, and of each pool's models and of the
    kinds all that one of them knows."""

    count: int
    kinds: frozenset[str]
    serves: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class About:
    """What a worker tells of itself. `serves`: by pool, the models that its settings declare.
    `unset`: by endpoint, the variable of its key that is not set where the worker runs."""

    queues: Sequence[str]
    kinds: Sequence[str]
    serves: Mapping[str, Sequence[str]]
    unset: Mapping[str, str]


class WorkerStore:
    """Queries on `workers`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def seen(self, name: str, about: About) -> None:
        """It runs, and is like this; its own earlier lives are over, and rows of others long gone
        are removed. `name` is what `Wiring.worker` gives: the part before # stays over restarts."""
        told = {
            "name": name,
            "queues": list(about.queues),
            "kinds": list(about.kinds),
            "serves": orjson.dumps({p: list(m) for p, m in about.serves.items()}).decode(),
            "unset": orjson.dumps(dict(about.unset)).decode(),
        }
        self._tx.execute(_SEEN, told)
        self._tx.execute(_FORGET, {"kept_s": _KEPT_S, "name": name})

    def left(self, name: str) -> None:
        """It ends."""
        self._tx.execute(_LEFT, {"name": name})

    def unset(self) -> list[tuple[str, str, str]]:
        """(worker, endpoint, variable) of each key that a running worker lacks, in that order."""
        rows = self._tx.execute(_UNSET)
        return [(row.name, row.endpoint, row.variable) for row in rows]

    def running(self) -> int:
        """How many workers run, of whatever queues."""
        return int(self._tx.execute(_RUNNING).scalar_one())

    def known(self) -> Known:
        """What the batch workers that run now know, all together. One query."""
        rows = self._tx.execute(_KNOWN).all()
        serves: dict[str, set[str]] = {}
        for row in rows:
            for pool, models in row.serves.items():
                serves.setdefault(pool, set()).update(models)
        return Known(
            count=len(rows),
            kinds=frozenset(kind for row in rows for kind in row.kinds),
            serves={pool: frozenset(models) for pool, models in serves.items()},
        )


_SEEN = text("""
    INSERT INTO workers (name, queues, kinds, serves, unset, started_at, seen_at)
    VALUES (:name, :queues, :kinds, CAST(:serves AS jsonb), CAST(:unset AS jsonb),
        clock_timestamp(), clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET queues = excluded.queues, kinds = excluded.kinds,
        serves = excluded.serves, unset = excluded.unset, seen_at = excluded.seen_at
""")

_FORGET = text("""
    DELETE FROM workers WHERE seen_at < clock_timestamp() - make_interval(secs => :kept_s)
       OR name <> :name AND split_part(name, '#', 1) = split_part(:name, '#', 1)
""")

_LEFT = text("DELETE FROM workers WHERE name = :name")

_KNOWN = text(f"SELECT w.kinds, w.serves FROM workers w WHERE {_OF_BATCH}")

_UNSET = text(f"""
    SELECT w.name, one.key AS endpoint, one.value AS variable
    FROM workers w CROSS JOIN LATERAL jsonb_each_text(w.unset) AS one
    WHERE {_LIVE} ORDER BY 1, 2
""")

_RUNNING = text(f"SELECT count(*) FROM workers w WHERE {_LIVE}")
