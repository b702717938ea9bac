"""The first lesson, checked by hand."""

from __future__ import annotations

from app.simulation import signs
from app.simulation.lesson import gate, growth


def test_without_a_throttle_people_depend_on_luck() -> None:
    lucky, unlucky = (gate(throttled=False, people_at_ms=at) for at in (500.0, 300.0))

    # 8, 8 and 4 tasks: at 500 ms four places are free, at 300 ms none until 400 ms.
    assert (lucky.people_p95_ms, lucky.batch_done_ms) == (60.0, 600.0)
    assert unlucky.people_p95_ms == 140.0
    assert not unlucky.signs[0].kept


def test_with_the_throttle_two_places_are_always_free() -> None:
    for at in (500.0, 300.0):
        kept = gate(throttled=True, people_at_ms=at)

        assert kept.most_batch == 6
        assert kept.people_p95_ms == 100.0  # ten people over two places, 20 ms each
        assert kept.batch_done_ms == 800.0
        assert all(sign.kept for sign in kept.signs)


def test_a_node_is_added_when_five_wait_and_everybody_is_answered() -> None:
    grown = growth(seed=0)

    assert (grown.node_added_ms, grown.why_added) == (0.0, "7 waiting")
    assert grown.places == 6
    assert sorted(s.number for s in grown.served) == list(range(10))
    assert grown == growth(seed=0)


def test_higher_priorities_start_first() -> None:
    firsts = [s for s in growth(seed=0).served if s.started_ms == 0.0]
    rest = [s for s in growth(seed=0).served if s.started_ms > 0.0 and s.attempts == 1]

    assert min(s.priority for s in firsts) >= max(s.priority for s in rest)


def test_signs_are_sentences() -> None:
    assert signs.people(0).text == "people: P95 was never over target because of batch"
    assert not signs.people(60).kept
    assert not signs.backlog(2.0, done=0).kept
    assert signs.total(9, 8).text == "total: PASSED, at most 9 of 8 places in use at once"
