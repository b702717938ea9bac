"""Endpoints: what settings declare, beside the health that all processes share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import insert

from app.domain.health import Breaker, BreakerState
from app.domain.routing import EndpointHealth, EndpointSpec, ModelLimits
from app.storage.tables import endpoints


@dataclass(frozen=True, slots=True)
class Standing:
    """How an endpoint stands; `added` is the whole declaration of one that was added at run time,
    None where the settings declare it."""

    name: str
    health: EndpointHealth
    added: EndpointSpec | None


@dataclass(frozen=True, slots=True)
class Row:
    """An endpoint's row under its lock; `now` is the database's clock."""

    pool: str
    breaker: BreakerState
    refusals: int
    cooling: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class Due:
    """An endpoint to be probed before `until`. `task` and `model` are those of the last request
    whose failure counted."""

    name: str
    pool: str
    added: EndpointSpec | None
    task: str | None
    model: str | None
    until: datetime


class EndpointStore:
    """Queries on `endpoints`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def declare(self, specs: Sequence[EndpointSpec]) -> None:
        """Make the table say what the settings say; health is kept.

        Undeclared ones go, but not those added at run time. The settings win where both name one.
        """
        for_values = [
            {
                "name": spec.name,
                "pool": spec.pool,
                "kind": spec.kind,
                "base_url": spec.base_url,
                "models": list(spec.models),
                "max_concurrency": spec.max_concurrency,
                "role": spec.role,
                "added": None,
            }
            for spec in sorted(specs, key=lambda spec: spec.name)
        ]
        self._tx.execute(
            text("DELETE FROM endpoints WHERE NOT name = ANY(:names) AND added IS NULL"),
            {"names": [spec.name for spec in specs]},
        )
        if for_values:
            statement = insert(endpoints).values(for_values)
            told = {c: statement.excluded[c] for c in for_values[0] if c != "name"}
            self._tx.execute(
                statement.on_conflict_do_update(index_elements=[endpoints.c.name], set_=told)
            )

    def health(self, pool: str) -> dict[str, EndpointHealth]:
        """Health by name of the pool's endpoints."""
        return {one.name: one.health for one in self.standing(pool)}

    def standing(self, pool: str) -> list[Standing]:
        """The pool's endpoints as they stand, by name."""
        return standings(dict(row) for row in self._tx.execute(STANDING, {"pool": pool}).mappings())

    def added(self, *, draining: bool = False) -> list[EndpointSpec]:
        """Every endpoint that was added at run time, by name; `draining`: those too that are."""
        rows = self._tx.execute(_ADDED, {"draining": draining})
        return [spec for row in rows if (spec := spec_of(row.added)) is not None]

    def lock(self, name: str) -> Row | None:
        """The endpoint's row, locked until the transaction ends; None: it is gone."""
        row = self._tx.execute(_LOCK, {"name": name}).mappings().one_or_none()
        if row is None:
            return None
        breaker = BreakerState(
            Breaker(row["breaker"]), row["failures"], row["openings"], row["open_until"]
        )
        return Row(row["pool"], breaker, row["refusals"], row["cooling"], row["now"])

    def suffered(
        self,
        name: str,
        code: str,
        breaker: BreakerState,
        refusals: int,
        cool_s: float,
        failed: tuple[str, str] | None,
    ) -> None:
        """A request failed with `code`: the breaker as it is now, and so many refusals in a row.

        The longer cool-down wins. `failed` is the task and model where the failure counted.
        """
        self._tx.execute(
            _SUFFERED,
            {
                "name": name,
                "code": code,
                "breaker": breaker.breaker,
                "failures": breaker.failures,
                "openings": breaker.openings,
                "open_until": breaker.open_until,
                "refusals": refusals,
                "cool_s": cool_s,
                "task": failed and failed[0],
                "model": failed and failed[1],
            },
        )

    def answered(self, name: str, task: str) -> None:
        """The endpoint answered an ordinary request well. Writes only if it did not before.

        Failures count from nought, unless they were of another task: a server that spoils vectors
        may chat quite well.
        """
        self._tx.execute(ANSWERED, {"name": name, "task": task})

    def take_probes(self, lease_s: float) -> list[Due]:
        """Open endpoints whose time has come, half-open from now on, each for this caller alone.

        No one else gets them for `lease_s`, in whatever process.
        """
        rows = self._tx.execute(_TAKE_PROBES, {"lease_s": lease_s})
        return [
            Due(
                row.name,
                row.pool,
                spec_of(row.added),
                row.failed_task,
                row.failed_model,
                row.probe_until,
            )
            for row in rows
        ]

    def probed(self, due: Due, breaker: BreakerState, code: str | None) -> None:
        """What the probe came to; nothing is written where somebody else probes meanwhile."""
        self._tx.execute(
            _PROBED,
            {
                "name": due.name,
                "probe_until": due.until,
                "breaker": breaker.breaker,
                "failures": breaker.failures,
                "openings": breaker.openings,
                "open_until": breaker.open_until,
                "code": code,
            },
        )


def standings(rows: Iterable[Mapping[str, Any]]) -> list[Standing]:
    """What the rows of `STANDING` say."""
    return [
        Standing(
            row["name"],
            EndpointHealth(
                cooling=row["cooling"],
                refusals=row["refusals"],
                breaker=Breaker(row["breaker"]),
                openings=row["openings"],
                spoils=row["spoils"],
                draining=row["draining"],
                slow=row["slow"],
                pace=row["pace"],
                wants_person=row["wants_person"],
            ),
            spec_of(row["added"]),
        )
        for row in rows
    ]


def document_of(spec: EndpointSpec) -> dict[str, Any]:
    """`spec` as it is kept in `added`."""
    return asdict(spec)


_FIELDS = frozenset(field.name for field in fields(EndpointSpec))


def spec_of(kept: Mapping[str, Any] | None) -> EndpointSpec | None:
    """The endpoint that `document_of` kept; None: none was."""
    if kept is None:
        return None
    told = {name: value for name, value in kept.items() if name in _FIELDS}
    listed = {name: tuple(told.get(name) or ()) for name in ("models", "stands_in_for")}
    limits = tuple(ModelLimits(**one) for one in told.get("limits") or ())
    return EndpointSpec(**{**told, **listed, "limits": limits})


STANDING = text("""
    SELECT name, refusals, coalesce(cool_until > clock_timestamp(), false) AS cooling, breaker,
        openings, draining, slow, pace, added,
        refusals > 0 OR openings > 0 OR failures > 0 AS doubted,
        CASE WHEN breaker <> 'closed' AND error_code = 'bad_reply' THEN failed_model END AS spoils,
        coalesce(error_code IN ('auth','quota_exhausted'), false) AS wants_person
    FROM endpoints WHERE pool = :pool ORDER BY name
""")

_ADDED = text("""
    SELECT added FROM endpoints WHERE added IS NOT NULL AND (:draining OR NOT draining)
    ORDER BY name
""")

_LOCK = text("""
    SELECT pool, breaker, failures, openings, open_until, refusals,
        coalesce(cool_until > clock_timestamp(), false) AS cooling, clock_timestamp() AS now
    FROM endpoints WHERE name = :name FOR UPDATE
""")

_SUFFERED = text("""
    UPDATE endpoints SET error_code = :code, updated_at = clock_timestamp(), breaker = :breaker,
        failures = :failures, openings = :openings, open_until = :open_until, refusals = :refusals,
        failed_task = coalesce(CAST(:task AS text), failed_task),
        failed_model = coalesce(CAST(:model AS text), failed_model),
        cool_until = CASE WHEN CAST(:cool_s AS float8) > 0
            THEN greatest(coalesce(cool_until, '-infinity'),
                clock_timestamp() + make_interval(secs => :cool_s))
            ELSE cool_until END
    WHERE name = :name
""")

ANSWERED = text("""
    UPDATE endpoints SET refusals = 0, openings = 0, cool_until = NULL,
        updated_at = clock_timestamp(),
        failures = CASE WHEN failed_task = :task THEN 0 ELSE failures END,
        error_code = CASE WHEN failures = 0 OR failed_task = :task THEN NULL ELSE error_code END
    WHERE name = :name AND breaker = 'closed'
      AND (refusals > 0 OR openings > 0 OR (failures > 0 AND failed_task = :task))
      AND coalesce(cool_until <= clock_timestamp(), true)
""")

# One row lock an endpoint: whoever comes second finds probe_until ahead of it. One that asked to be
# left alone is; a cool-down after a lost connection is our own guess.
_TAKE_PROBES = text("""
    UPDATE endpoints SET breaker = 'half_open',
        probe_until = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE breaker IN ('open','half_open') AND open_until <= clock_timestamp()
      AND coalesce(probe_until <= clock_timestamp(), true)
      AND (error_code = 'connection' OR coalesce(cool_until <= clock_timestamp(), true))
    RETURNING name, pool, added, failed_task, failed_model, probe_until
""")

_PROBED = text("""
    UPDATE endpoints SET breaker = :breaker, failures = :failures, openings = :openings,
        open_until = :open_until, probe_until = NULL, updated_at = clock_timestamp(),
        cool_until = CASE WHEN error_code = 'connection' THEN NULL ELSE cool_until END,
        error_code = coalesce(CAST(:code AS text), error_code)
    WHERE name = :name AND breaker = 'half_open' AND probe_until = :probe_until
""")
