"""What was reserved of the endpoints' rate budgets: a log whose times are the database's own.

`at` is the latest moment at which the endpoint can have counted the call: of one that has not ended
the end of its time, of one that has, its end. A row counts until a window after that.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from sqlalchemy import Connection, text

from app.domain.rates import Cost, Reserved, Used

_FOLD_FROM = 1_000
"""Rows of an endpoint's last two windows from which on those that are settled are folded."""


@dataclass(frozen=True, slots=True)
class Standing:
    """`rows` is how many rows say what is `used`."""

    used: Used
    rows: int

    @property
    def is_long(self) -> bool:
        """Whether the log is worth folding."""
        return self.rows >= _FOLD_FROM


class RateStore:
    """Queries on `rate_reservations`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def lock(self, endpoint: str) -> None:
        """Nobody else reserves at `endpoint` until the transaction ends.

        A statement of its own, so that the sums after it see what others have committed.
        """
        self._tx.execute(_LOCK, {"endpoint": endpoint})

    def standing(self, endpoint: str, window_s: float) -> Standing:
        """What is used now, and by people in the window before. Exact under the lock."""
        row = self._tx.execute(_STANDING, {"endpoint": endpoint, "window_s": window_s}).one()
        used = Used(
            Cost(row.batch_tokens, row.batch_requests),
            Cost(row.people_tokens, row.people_requests),
            Cost(row.before_tokens, row.before_requests),
        )
        return Standing(used, row.rows)

    def log(self, endpoint: str, window_s: float) -> list[Reserved]:
        """The entries of this window, as if every call had ended now."""
        rows = self._tx.execute(_LOG, {"endpoint": endpoint, "window_s": window_s})
        return [
            Reserved(float(row.free_in_s), Cost(row.tokens, row.requests), row.interactive)
            for row in rows
        ]

    def reserve(self, endpoint: str, cost: Cost, ends_in_s: float, *, interactive: bool) -> int:
        """Put a call in the log that is over in `ends_in_s` at the latest; its number."""
        return int(
            self._tx.execute(
                _RESERVE,
                {
                    "endpoint": endpoint,
                    "ends_in_s": ends_in_s,
                    "requests": cost.requests,
                    "tokens": cost.tokens,
                    "interactive": interactive,
                },
            ).scalar_one()
        )

    def settle(self, number: int, cost: Cost) -> None:
        """The call is over and came to `cost`."""
        self._tx.execute(_SETTLE, {"id": number, "tokens": cost.tokens, "requests": cost.requests})

    def tidy(self, endpoint: str, window_s: float, *, fold: bool) -> None:
        """Delete what counts no more; `fold` the settled rows of a second into one, which counts as
        long as the last of them. Under the lock."""
        self._tx.execute(_PRUNE, {"endpoint": endpoint, "window_s": window_s})
        if fold:
            self._tx.execute(_FOLD, {"endpoint": endpoint})

    def rest(self, endpoint: str, for_s: float) -> None:
        """Batch has used its share of the endpoint's budget: it gets no chunk for `for_s`."""
        self._tx.execute(_REST, {"endpoint": endpoint, "for_s": for_s})

    def resting(self, pool: str) -> Set[str]:
        """Endpoints of the pool whose budget has nothing left for batch now."""
        return {row.name for row in self._tx.execute(_RESTING, {"pool": pool})}


_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('giveway.rate.' || :endpoint, 0))")

_STANDING = text("""
    WITH edge AS MATERIALIZED (
        SELECT now - make_interval(secs => :window_s) AS ago,
               now - 2 * make_interval(secs => :window_s) AS long_ago
        FROM (SELECT clock_timestamp() AS now) AS c
    )
    SELECT count(r.id) AS rows,
        coalesce(sum(r.tokens) FILTER (WHERE r.at > ago AND NOT interactive), 0) AS batch_tokens,
        coalesce(sum(r.requests) FILTER (WHERE r.at > ago AND NOT interactive), 0)
            AS batch_requests,
        coalesce(sum(r.tokens) FILTER (WHERE r.at > ago AND interactive), 0) AS people_tokens,
        coalesce(sum(r.requests) FILTER (WHERE r.at > ago AND interactive), 0) AS people_requests,
        coalesce(sum(r.tokens) FILTER (WHERE r.at <= ago AND interactive), 0) AS before_tokens,
        coalesce(sum(r.requests) FILTER (WHERE r.at <= ago AND interactive), 0) AS before_requests
    FROM edge LEFT JOIN rate_reservations r ON r.endpoint = :endpoint AND r.at > edge.long_ago
""")

_LOG = text("""
    WITH edge AS MATERIALIZED (SELECT clock_timestamp() AS now)
    SELECT extract(epoch FROM least(r.at, now) - now) + CAST(:window_s AS float8) AS free_in_s,
        r.tokens, r.requests, r.interactive
    FROM edge, rate_reservations r
    WHERE r.endpoint = :endpoint AND r.at > now - make_interval(secs => :window_s)
""")

_RESERVE = text("""
    INSERT INTO rate_reservations (endpoint, at, requests, tokens, interactive)
    VALUES (:endpoint, clock_timestamp() + make_interval(secs => :ends_in_s), :requests, :tokens,
        :interactive)
    RETURNING id
""")

_SETTLE = text("""
    UPDATE rate_reservations
    SET at = clock_timestamp(), tokens = :tokens, requests = :requests, settled = true
    WHERE id = :id
""")

_PRUNE = text("""
    DELETE FROM rate_reservations
    WHERE endpoint = :endpoint
      AND at <= clock_timestamp() - 2 * make_interval(secs => :window_s)
""")

_FOLD = text("""
    WITH old AS (
        DELETE FROM rate_reservations WHERE endpoint = :endpoint AND settled
        RETURNING at, requests, tokens, interactive
    )
    INSERT INTO rate_reservations (endpoint, at, requests, tokens, settled, interactive)
    SELECT :endpoint, max(at), sum(requests), sum(tokens), true, interactive
    FROM old GROUP BY floor(extract(epoch FROM at)), interactive
""")

_REST = text("""
    UPDATE endpoints SET spent_until = greatest(coalesce(spent_until, '-infinity'),
        clock_timestamp() + make_interval(secs => :for_s))
    WHERE name = :endpoint
""")

_RESTING = text("SELECT name FROM endpoints WHERE pool = :pool AND spent_until > clock_timestamp()")
