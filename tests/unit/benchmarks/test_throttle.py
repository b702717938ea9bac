"""What the benchmark of the throttle makes of what it saw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.throttle import figures
from benchmarks.throttle.corpus import MICRO_BATCH, Summaries, Tags
from benchmarks.throttle.legs import BIN_S, Leg, Sample
from benchmarks.throttle.loads import Load, Phase, arrivals
from benchmarks.throttle.people import Answer
from benchmarks.throttle.report import BEGIN, END, over_seeds, page_with
from benchmarks.throttle.scenes import CHATS, EMBEDDINGS, LOADS
from benchmarks.throttle.targets import Targets

TOLD = Targets(whole_ms=1000, first_token_ms=400, per_token_ms=40)
SURGE = Load("step", (Phase(10, 1), Phase(10, 10), Phase(10, 1)))


def a_leg(contender: str = "one", latencies: tuple[float | None, ...] = (500.0,) * 20) -> Leg:
    """A person a second with these latencies, 100 items in each bin."""
    return Leg(
        contender=contender,
        load=SURGE,
        seed=1,
        answers=tuple(Answer(float(at), 24, ms, 50.0, 20.0) for at, ms in enumerate(latencies)),
        items=(100,) * round(SURGE.seconds / BIN_S),
        samples=(),
        engine_lost_s=0.0,
        cpu_share=0.5,
    )


def test_whoever_got_no_answer_waited_for_ever():
    leg = a_leg(latencies=(500.0,) * 18 + (None, None))

    assert figures.on_target(leg, 1000) == 0.9
    assert figures.latency_ms(leg, 0.5) == 500
    assert figures.latency_ms(leg, 0.95) is None


def test_the_target_is_the_factor_on_people_alone():
    told = figures.targets(a_leg(latencies=(800.0,) * 20))

    assert (told.whole_ms, told.first_token_ms, told.per_token_ms) == (1400, 600, 35)


def test_the_best_is_chosen_among_those_that_keep_the_target():
    alone = replace(a_leg("no batch"), items=(0,) * 60)
    keeps = a_leg("keeps")
    greedy = replace(a_leg("greedy", (2000.0,) * 20), items=(300,) * 60)

    runs = {r.contender: r for r in figures.runs([keeps, greedy], [alone], 400.0, TOLD)}

    assert runs["keeps"].work_share_of_oracle == 1.0
    assert runs["greedy"].work_share_of_oracle == 3.0
    assert not runs["greedy"].keeps_target
    assert runs["keeps"].work_share_of_dedicated == 0.5


def test_the_best_cap_is_chosen_among_fixed_caps_alone():
    alone = replace(a_leg("no batch"), items=(0,) * 60)
    cap = a_leg("two queues, 3 batch")
    ours = replace(a_leg("giveway budget"), items=(150,) * 60)

    runs = {r.contender: r for r in figures.runs([cap, ours], [alone], 400.0, TOLD)}

    assert runs["giveway budget"].work_share_of_best_cap == 1.5
    assert runs["two queues, 3 batch"].work_share_of_oracle == pytest.approx(2 / 3)


def test_where_nobody_keeps_the_target_there_is_no_best():
    late = a_leg("late", (2000.0,) * 20)

    (_, run) = figures.runs([late], [a_leg("no batch")], 400.0, TOLD)

    assert run.work_share_of_oracle is None


def test_a_cut_is_done_when_batch_is_down_to_what_holds_then():
    samples = [Sample(at / 2, 5, 5) for at in range(20)]
    samples += [Sample(10.0, 2, 5), Sample(11.5, 2, 4), Sample(12.5, 2, 2)]
    samples += [Sample(at / 2, 2, 2) for at in range(26, 40)]

    assert figures.cut_s(replace(a_leg(), samples=tuple(samples))) == 2.5


def test_a_cut_that_never_comes_counts_with_the_whole_surge():
    samples = [Sample(at / 2, 5 if at < 20 else 2, 5) for at in range(40)]

    assert figures.cut_s(replace(a_leg(), samples=tuple(samples))) == 10.0


def test_a_later_crowd_does_not_make_the_first_cut_late():
    def at(second: float) -> Sample:
        return Sample(second, 9, 9) if 12 <= second < 17 else Sample(second, 1, 1)

    samples = [Sample(n / 2, 20, 20) for n in range(24)] + [at(n / 2) for n in range(24, 40)]

    assert figures.cut_s(replace(a_leg(), samples=tuple(samples))) == 2.0


def test_people_have_settled_when_those_who_come_next_are_on_target():
    answers = [Answer(at / 4, 24, 2000.0 if 10 <= at / 4 < 14 else 500.0) for at in range(120)]

    assert figures.settle_s(replace(a_leg(), answers=tuple(answers)), 1000) == 4.0


def test_batch_has_recovered_when_it_does_most_of_what_it_did():
    items = (100,) * 20 + (20,) * 20 + (20,) * 6 + (100,) * 14

    assert figures.recovery_s(replace(a_leg(), items=items)) == 3.0


def test_everybody_meets_the_same_people():
    for name in LOADS:
        load = CHATS.load(name, 1.0, 8.5)
        assert arrivals(load, 1) == arrivals(load, 1) != arrivals(load, 2)
        assert all(0 <= one.due_s < load.seconds for one in arrivals(load, 1))


def test_a_steady_load_has_no_surge():
    assert EMBEDDINGS.load("steady", 1.0, 8.5).surges == []
    assert len(EMBEDDINGS.load("spikes", 1.0, 8.5).surges) == 2


def test_only_calm_is_stretched():
    once, twice = (CHATS.load("spikes", scale, 10).surges for scale in (1, 2))

    assert [end - begin for begin, end in once] == [end - begin for begin, end in twice]
    assert twice[1][0] - twice[0][1] == 2 * (once[1][0] - once[0][1])


def test_plain_celery_has_the_items_of_the_job():
    summaries, tags = Summaries(), Tags()

    assert summaries.arguments(0, 7)[3] == summaries.payload(7)["text"]
    assert tags.arguments(0, 2)[3][1] == (
        f"k{2 * MICRO_BATCH + 1}",
        tags.payload(2 * MICRO_BATCH + 1)["text"],
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [([None, None], "–"), ([1.0], "1.0"), ([1.0, 2.0, 4.0], "2.0 (1.0–4.0)")],
)
def test_several_seeds_give_a_median_and_a_range(values, said):
    assert over_seeds(values, ".1f") == said


def test_tables_replace_those_of_the_run_before():
    page = page_with(f"above {BEGIN} old {END} below", "new")

    assert page == f"above {BEGIN}\n\nnew\n\n{END} below"
    assert page_with("no marks", "new") == "no marks"
