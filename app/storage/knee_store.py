"""Knees of the endpoints, and the calls that they are learnt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, text

from app.domain.knees import Knee, Size

Place = tuple[str, str]
"""(endpoint, model)."""


class KneeStore:
    """Queries on `endpoint_knees`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def find(self, endpoint: str, model: str) -> Knee | None:
        """What is learnt of that model there; None: nothing yet."""
        row = self._tx.execute(_FIND, {"endpoint": endpoint, "model": model}).one_or_none()
        return None if row is None else Knee(row.items, row.tokens)

    def sizes(self, pools: Sequence[str], window_s: float) -> dict[Place, list[Size]]:
        """Answered calls of the last `window_s` that did not stream, sizes half an octave apart."""
        found: dict[Place, list[Size]] = {}
        for row in self._tx.execute(_SIZES, {"pools": list(pools), "window_s": window_s}):
            size = Size(row.calls, row.items, row.tokens, row.seconds)
            found.setdefault((row.endpoint, row.model), []).append(size)
        return found

    def write(self, knees: Mapping[Place, Knee]) -> None:
        """Record them, in one statement."""
        if not knees:
            return
        ordered = sorted(knees)
        self._tx.execute(
            _WRITE,
            {
                "endpoints": [endpoint for endpoint, _ in ordered],
                "models": [model for _, model in ordered],
                "items": [knees[place].items for place in ordered],
                "tokens": [knees[place].tokens for place in ordered],
            },
        )


_FIND = text("""
    SELECT items, tokens FROM endpoint_knees WHERE endpoint = :endpoint AND model = :model
""")

_SIZES = text("""
    SELECT endpoint, model, CAST(count(*) AS int) AS calls, CAST(sum(items) AS bigint) AS items,
        CAST(sum(prompt_tokens) AS bigint) AS tokens, sum(seconds) AS seconds
    FROM batch_calls
    WHERE pool = ANY(:pools) AND ended_at > clock_timestamp() - make_interval(secs => :window_s)
      AND error_code IS NULL AND first_token_s IS NULL AND completion_tokens = 0
      AND prompt_tokens > 0 AND model IS NOT NULL
    GROUP BY endpoint, model, floor(2 * log(2, prompt_tokens))
""")

_WRITE = text("""
    INSERT INTO endpoint_knees (endpoint, model, items, tokens, updated_at)
    SELECT endpoint, model, items, tokens, clock_timestamp()
    FROM unnest(CAST(:endpoints AS text[]), CAST(:models AS text[]), CAST(:items AS float8[]),
        CAST(:tokens AS float8[])) AS t (endpoint, model, items, tokens)
    ON CONFLICT (endpoint, model) DO UPDATE SET items = excluded.items, tokens = excluded.tokens,
        updated_at = excluded.updated_at
""")
