"""The plan and the figures of interactive load, without sending anything."""

from __future__ import annotations

import itertools
import statistics

import pytest

from app.domain.load import LoadPlan, Waited, arrivals, percentile, prompt, summary
from app.errors import ConfigError


def plan(**more: object) -> LoadPlan:
    return LoadPlan(**{"model": "m", "rps": 50.0, "seconds": 100.0, **more})  # type: ignore[arg-type]


def test_people_come_by_chance_at_the_rate_asked_for() -> None:
    due = arrivals(plan())
    gaps = [b - a for a, b in itertools.pairwise(due)]

    assert due == sorted(due)
    assert all(0 <= at < 100 for at in due)
    assert len(due) == pytest.approx(5000, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)


def test_the_same_seed_is_the_same_people() -> None:
    assert arrivals(plan(seed=1)) == arrivals(plan(seed=1)) != arrivals(plan(seed=2))
    assert prompt(plan(seed=1), 7) == prompt(plan(seed=1), 7) != prompt(plan(seed=1), 8)


def test_steady_people_come_at_even_distances() -> None:
    assert arrivals(plan(rps=4, seconds=1, poisson=False)) == [0, 0.25, 0.5, 0.75]


def test_a_prompt_has_the_words_asked_for_besides_its_number() -> None:
    assert len(prompt(plan(prompt_words=25), 3).split()) == 26


def test_percentiles_are_values_that_somebody_waited() -> None:
    hundred = [float(n) for n in range(1, 101)]

    assert [percentile(hundred, share) for share in (0.5, 0.95, 0.99, 1)] == [50, 95, 99, 100]
    assert percentile([7.0], 0.01) == 7
    assert percentile([], 0.5) is None


def test_failures_are_counted_by_code_and_none_of_them_counts_as_fast() -> None:
    waits = [
        Waited(0.2, 300.0, first_token_ms=100.0),
        Waited(0.1, 100.0, first_token_ms=50.0),
        Waited(0.3, 1.0, code="overloaded"),
        Waited(0.4, 1.0, code="overloaded"),
        Waited(0.5, 9000.0, code="no_answer"),
    ]
    report = summary(plan(seconds=2.5), waits, wall_s=3.0)

    assert (report.sent, report.ok, report.failed) == (5, 2, 3)
    assert report.errors == {"overloaded": 2, "no_answer": 1}
    assert (report.p50_ms, report.p95_ms, report.max_ms, report.mean_ms) == (100, 300, 300, 200)
    assert (report.first_token_p50_ms, report.first_token_p95_ms) == (50, 100)
    assert report.rps_achieved == 2
    assert [one.due_s for one in report.waits] == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_a_run_without_answers_has_no_percentiles() -> None:
    plain = summary(plan(), [], 0.1).to_json()

    assert (plain["sent"], plain["p95_ms"], plain["mean_ms"]) == (0, None, None)
    assert "waits" not in plain
    assert plain["model"] == "m"


@pytest.mark.parametrize(
    "wrong", [{"rps": 0}, {"seconds": -1}, {"timeout_s": 0}, {"max_tokens": 0}, {"rps": 1e6}]
)
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        plan(**wrong)
