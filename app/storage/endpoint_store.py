"""Endpoints: what settings declare, beside the health that all processes share."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import insert

from app.domain.routing import EndpointHealth, EndpointSpec
from app.storage.tables import endpoints


class EndpointStore:
    """Queries on `endpoints`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def declare(self, specs: Sequence[EndpointSpec]) -> None:
        """Make the table say what the settings say; health is kept, undeclared ones go."""
        for_values = [
            {
                "name": spec.name,
                "pool": spec.pool,
                "kind": spec.kind,
                "base_url": spec.base_url,
                "models": list(spec.models),
                "max_concurrency": spec.max_concurrency,
                "role": spec.role,
            }
            for spec in sorted(specs, key=lambda spec: spec.name)
        ]
        self._tx.execute(
            text("DELETE FROM endpoints WHERE NOT name = ANY(:names)"),
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
        rows = self._tx.execute(_HEALTH, {"pool": pool})
        return {
            row.name: EndpointHealth(cooling=row.cooling, refusals=row.refusals) for row in rows
        }

    def refused(self, name: str, for_s: float, code: str) -> None:
        """The endpoint refused: leave it alone for `for_s`; the longer cool-down wins."""
        self._tx.execute(_REFUSED, {"name": name, "for_s": for_s, "code": code})

    def answered(self, name: str) -> None:
        """The endpoint answered well: refusals count from nought. Writes only if they did not."""
        self._tx.execute(_ANSWERED, {"name": name})


_HEALTH = text("""
    SELECT name, refusals, coalesce(cool_until > clock_timestamp(), false) AS cooling
    FROM endpoints WHERE pool = :pool
""")

_REFUSED = text("""
    UPDATE endpoints SET refusals = refusals + 1, error_code = :code,
        updated_at = clock_timestamp(), cool_until = greatest(coalesce(cool_until, '-infinity'),
            clock_timestamp() + make_interval(secs => :for_s))
    WHERE name = :name
""")

_ANSWERED = text("""
    UPDATE endpoints SET refusals = 0, cool_until = NULL, error_code = NULL,
        updated_at = clock_timestamp()
    WHERE name = :name AND refusals > 0 AND coalesce(cool_until <= clock_timestamp(), true)
""")
