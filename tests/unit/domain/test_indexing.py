"""When an index is worth building, and when it is in the way."""

from __future__ import annotations

import pytest

from app.domain.indexing import IndexRules, Move, move

RULES = IndexRules(worth=1000, bulk_share=0.2)


@pytest.mark.parametrize(
    ("vectors", "coming", "indexed", "expected"),
    [
        (999, 0, False, Move.KEEP),  # too few to be worth it
        (1000, 0, False, Move.BUILD),
        (1000, 201, False, Move.KEEP),  # still loading
        (1000, 200, False, Move.BUILD),  # a trickle does not hold it off
        (10_000, 2001, True, Move.DROP),  # a bulk load is coming
        (10_000, 2000, True, Move.KEEP),
        (10, 0, True, Move.KEEP),  # there already: it does no harm
        (0, 50_000, False, Move.KEEP),
    ],
)
def test_moves(vectors: int, coming: int, indexed: bool, expected: Move) -> None:
    assert move(vectors, coming, indexed=indexed, rules=RULES) is expected


def test_what_was_dropped_for_a_load_is_not_built_before_its_end() -> None:
    assert move(10_000, 5000, indexed=True, rules=RULES) is Move.DROP
    assert move(12_000, 3000, indexed=False, rules=RULES) is Move.KEEP
    assert move(15_000, 0, indexed=False, rules=RULES) is Move.BUILD
