"""Figures of runs: exact for rates, never averaged over what has no score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from app.domain.evaluation.comparing import compared, mcnemar, paired_bootstrap
from app.domain.evaluation.equivalence import equivalence, tango
from app.domain.evaluation.intervals import of_mean, of_rate
from app.domain.evaluation.runs import RunItem, Standing, item_of
from app.domain.evaluation.summary import refusal, shortfalls, summarised


def done(key: str, content: str | None = None, **scores: Any) -> RunItem:
    """An item with scores: a number, a list of repeats, or a state."""
    plain = {name: _plain(given) for name, given in scores.items()}
    return item_of(key, content or f"content of {key}", "done", None, plain)


def _plain(given: Any) -> list[dict[str, Any]]:
    many = given if isinstance(given, list) else [given]
    return [
        {"state": one, "code": f"{one}_code"} if isinstance(one, str) else {"value": one}
        for one in many
    ]


def run(*values: Any) -> list[RunItem]:
    return [done(str(n), m=value) for n, value in enumerate(values)]


class TestIntervals:
    def test_a_rate_has_the_exact_interval_of_clopper_and_pearson(self) -> None:
        """7 of 10: the bounds of the printed tables."""
        found = of_rate(7, 10)
        assert (found.low, found.high) == pytest.approx((0.3475, 0.9333), abs=5e-5)
        assert of_rate(0, 10).low == 0.0
        assert of_rate(0, 10).high == pytest.approx(1 - 0.025 ** (1 / 10))

    def test_it_holds_the_true_rate_in_nineteen_of_twenty_runs_at_least(self) -> None:
        chance = np.random.default_rng(5)
        draws = chance.binomial(60, 0.37, size=400)
        bounds = {int(k): of_rate(int(k), 60) for k in set(draws)}
        held = [bounds[int(k)].low <= 0.37 <= bounds[int(k)].high for k in draws]
        assert np.mean(held) >= 0.94

    def test_a_means_interval_is_near_the_normal_one_and_the_same_each_time(self) -> None:
        values = list(np.random.default_rng(3).beta(2, 2, size=400))
        found = of_mean(values)
        half = 1.96 * np.std(values, ddof=1) / 20
        assert found.method == "bootstrap_bca"
        assert found.low == pytest.approx(np.mean(values) - half, abs=0.004)
        assert found.high == pytest.approx(np.mean(values) + half, abs=0.004)
        assert of_mean(values) == found

    def test_all_alike_is_not_all_certain(self) -> None:
        """A bootstrap of ten perfect scores would say 1 to 1."""
        assert of_mean([1.0] * 10) == of_rate(10, 10)
        assert of_mean([0.5] * 10).low is None
        assert of_mean([0.5]).low is None
        assert of_mean([]).high is None

    def test_many_items_cost_little(self) -> None:
        found = of_mean(list(np.random.default_rng(3).random(200_000)))
        assert found.method == "normal"


class TestSummary:
    def test_what_has_no_score_is_counted_and_in_no_mean(self) -> None:
        items = [
            *run(1.0, 0.0, 1.0),
            done("e", m="error"),
            done("j", m="judge_invalid"),
            item_of("f", "c", "failed", "timeout", None),
            item_of("b", "c", "empty", "empty", None),
            item_of("p", "c", None, None, None),
        ]
        found = summarised(items, {"m": True})
        assert (found.n, found.scored, found.errors, found.invalid) == (8, 3, 2, 1)
        assert (found.empty, found.pending) == (1, 1)
        metric = found.metrics["m"]
        assert (metric.mean, metric.correct) == (pytest.approx(2 / 3), 2)
        assert (metric.scored, metric.errors, metric.invalid) == (3, 2, 1)
        assert (metric.low, metric.high) == (of_rate(2, 3).low, of_rate(2, 3).high)
        assert found.codes == {"error_code": 1, "judge_invalid_code": 1, "timeout": 1}

    @pytest.mark.parametrize("value", [math.nan, math.inf, None, True])
    def test_one_nan_makes_no_average_nan(self, value: Any) -> None:
        metric = summarised(run(0.5, value, 1.0), {"m": False}).metrics["m"]
        assert (metric.mean, metric.scored, metric.errors) == (0.75, 2, 1)

    def test_an_item_counts_once_however_often_it_was_repeated(self) -> None:
        items = [done("a", m=[1.0, 0.0, 1.0, 0.0]), done("b", m=[1.0, "error", 1.0, 1.0])]
        metric = summarised(items, {"m": True}).metrics["m"]
        assert metric.mean == pytest.approx(0.75)
        assert (metric.repeats, metric.unsteady, metric.correct) == (4, 1, 1)
        assert metric.method != "binomial_exact"

    def test_the_spread_is_how_far_the_mean_moves_between_repeats(self) -> None:
        items = [done("a", m=[1.0, 0.0]), done("b", m=[1.0, 0.0])]
        assert summarised(items, {"m": True}).metrics["m"].spread == pytest.approx(np.sqrt(0.5))
        assert summarised(run(1.0), {"m": True}).metrics["m"].spread is None

    def test_past_a_share_of_errors_there_is_no_verdict(self) -> None:
        fine = summarised([*run(*[1.0] * 9), done("e", m="error")], {"m": True})
        assert refusal(fine) is None
        worse = summarised(
            [*run(*[1.0] * 8), *[done(f"e{n}", m="error") for n in (1, 2)]], {"m": True}
        )
        assert refusal(worse) == (
            "2 of 10 items (20.0%) have no score, more than 10%: error_code 2"
        )
        assert refusal(worse, most=0.2) is None

    def test_an_unfinished_or_empty_run_gives_no_verdict(self) -> None:
        pending = summarised([*run(1.0), item_of("p", "c", None, None, None)], {"m": True})
        assert "1 of 2 items have no result yet" in str(refusal(pending))
        assert refusal(summarised([], {"m": True})) == "no item was scored"

    def test_a_metric_under_what_is_asked_is_named(self) -> None:
        summary = summarised(run(1.0, 0.0), {"m": True})
        assert shortfalls(summary, {"m": 0.5}) == []
        assert shortfalls(summary, {"m": 0.6}) == ["m is 0.5000, under 0.6"]

    def test_an_item_is_scored_only_with_every_metric(self) -> None:
        item = done("a", one=1.0, other="judge_invalid")
        assert item.standing is Standing.INVALID
        assert done("a", one="error", other="judge_invalid").standing is Standing.ERROR


class TestComparing:
    def test_mcnemar_is_exact(self) -> None:
        """1 of 6 flips one way: 2 · (1 + 6) / 64."""
        assert mcnemar(1, 5) == pytest.approx(14 / 64)
        assert mcnemar(0, 0) == 1.0

    def test_flips_and_means_are_those_of_common_items(self) -> None:
        first = [*run(1.0, 0.0, 1.0, 0.0), done("only", m=1.0), done("bad", m="error")]
        second = [*run(1.0, 1.0, 0.0, 0.0), done("other", m=1.0), done("bad", m=1.0)]
        found = compared(first, second, {"m": True})
        one = found.metrics["m"]
        assert (found.common, found.only_first, found.only_second) == (5, 1, 1)
        assert (one.n, one.first, one.second, one.lost, one.won) == (4, 0.5, 0.5, 1, 1)
        assert {(f.key, f.before, f.after) for f in one.flips} == {
            ("1", 0.0, 1.0),
            ("2", 1.0, 0.0),
        }
        assert (one.test, one.p) == ("mcnemar_exact", 1.0)

    def test_an_item_whose_question_changed_is_left_out(self) -> None:
        found = compared(
            [done("a", "old", m=1.0), done("b", m=1.0)],
            [done("a", "new", m=0.0), done("b", m=1.0)],
            {"m": True},
        )
        assert (found.common, found.changed, found.metrics["m"].n) == (1, 1, 1)

    def test_a_file_in_another_order_is_matched_by_what_its_items_are(self) -> None:
        first = [done(str(n), f"q{n}", m=float(n % 2)) for n in range(6)]
        second = [done(str(5 - n), f"q{n}", m=float(n % 2)) for n in range(6)]
        found = compared(first, second, {"m": True})
        assert (found.common, found.changed, found.is_whole) == (6, 0, True)
        assert found.metrics["m"].flips == ()

    def test_rows_with_the_same_content_are_one_item_and_count_once(self) -> None:
        many = [done(f"a{n}", "same", m=1.0) for n in range(50)]
        fewer = [done(f"a{n}", "same", m=0.0) for n in range(50)]
        found = compared([*many, done("b", m=1.0)], [*fewer, done("b", m=1.0)], {"m": True})
        assert (found.common, found.clusters) == (51, 2)
        one = found.metrics["m"]
        assert (one.n, one.lost, one.difference) == (2, 1, -0.5)
        assert one.p is not None
        assert one.p > 0.05

    def test_scores_between_are_compared_by_a_paired_bootstrap(self) -> None:
        chance = np.random.default_rng(2)
        before = chance.random(120)
        better = np.clip(before + chance.normal(0.08, 0.1, 120), 0, 1)
        same = np.clip(before + chance.normal(0.0, 0.1, 120), 0, 1)
        found = compared(run(*before), run(*better), {"m": False}).metrics["m"]
        assert found.test == "paired_bootstrap"
        assert found.p is not None
        assert found.p < 0.01
        assert found.low is not None
        assert found.low > 0
        unsure = compared(run(*before), run(*same), {"m": False}).metrics["m"]
        assert unsure.p is not None
        assert unsure.p > 0.05

    def test_chance_alone_is_found_significant_about_once_in_twenty(self) -> None:
        chance = np.random.default_rng(11)
        found = [paired_bootstrap(chance.normal(0, 1, 40)) for _ in range(100)]
        assert sum(p is not None and p < 0.05 for p in found) <= 12


class TestEquivalence:
    def test_tangos_test_agrees_with_the_likelihood_worked_out_otherwise(self) -> None:
        """Against a numeric search for the constrained maximum."""
        for given, p in [
            ((3, 5, 100, 0.05), 0.0160641),
            ((10, 2, 200, 0.02), 0.8917755),
            ((0, 0, 50, 0.05), 0.0523787),
            ((40, 30, 1000, 0.02), 0.1195736),
        ]:
            assert tango(*given) == pytest.approx(p, abs=1e-6)

    def test_no_flip_among_few_items_shows_nothing_and_among_many_does(self) -> None:
        words = []
        for n in (20, 400):
            found = compared(run(*[1.0] * n), run(*[1.0] * n), {"m": True}, {"m": 0.02})
            one = found.metrics["m"].equivalence
            assert one is not None
            words.append(one.word)
        assert words == ["not shown", "equivalent"]

    def test_better_is_no_worse_and_not_equivalent(self) -> None:
        before = [0.0] * 100 + [1.0] * 100
        after = [0.0] * 80 + [1.0] * 120
        found = compared(run(*before), run(*after), {"m": True}, {"m": 0.02}).metrics["m"]
        assert found.equivalence is not None
        assert (found.equivalence.word, found.equivalence.test) == ("no worse", "tost_tango")

    def test_scores_between_are_tested_over_items_and_not_over_repeats(self) -> None:
        """Repeats of ten items are ten clusters: more of them prove no more."""
        few = [[1.0, 0.0], [1.0, 1.0]] * 5
        many = [[1.0, 0.0] * 50, [1.0, 1.0] * 50] * 5
        after = [[0.0, 1.0], [1.0, 0.0]] * 5
        more = [[0.0, 1.0] * 50, [1.0, 0.0] * 50] * 5
        found = [
            compared(run(*a), run(*b), {"m": True}, {"m": 0.3}).metrics["m"].equivalence
            for a, b in ((few, after), (many, more))
        ]
        assert found[0] == found[1]
        assert found[0] is not None
        assert found[0].test == "tost_t"

    def test_at_the_margin_itself_it_is_shown_about_once_in_twenty(self) -> None:
        chance = np.random.default_rng(4)
        draws = [chance.multinomial(400, [0.05, 0.03, 0.92]) for _ in range(400)]
        shown = sum(tango(int(lost), int(won), 400, 0.02) < 0.05 for lost, won, _ in draws)
        assert 8 <= shown <= 34

    def test_all_changes_alike_say_nothing_of_chance(self) -> None:
        found = equivalence(np.asarray([0.1, 0.1, 0.1]), 0.2, binary=False)
        assert (found.p, found.word) == (None, "not shown")
