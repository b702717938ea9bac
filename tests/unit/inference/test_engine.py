"""The engine's steps are arithmetic: what they cost, who runs, who waits, who is thrown out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.inference.simulated.engine import Engine, Work, duration_s
from app.inference.simulated.settings import ModelCosts

COSTS = ModelCosts()


def run(engine, most=100_000):
    """Step until idle. Returns the virtual seconds and each work's end."""
    clock_s, ends = 0.0, {}
    for _ in range(most):
        if engine.is_idle:
            return clock_s, ends
        step = engine.begin()
        clock_s += step.duration_s
        for work in engine.end(step):
            if work.is_finished:
                ends[work] = clock_s
    raise AssertionError("the engine does not come to an end")


def test_a_step_costs_what_the_model_says():
    assert duration_s(COSTS, 0, 0, 0) == pytest.approx(0.0125)
    assert duration_s(COSTS, 1000, 8, 100_000) == pytest.approx(0.0125 + 0.06 + 0.00016 + 0.009)


def test_one_request_gets_about_75_tokens_a_second_and_eight_six_times_that():
    alone = Engine(COSTS, 8)
    alone.add(Work(500, 200))
    alone_s, _ = run(alone)
    eight = Engine(COSTS, 8)
    for _ in range(8):
        eight.add(Work(500, 200))
    eight_s, _ = run(eight)

    assert 200 / alone_s == pytest.approx(77, rel=0.05)
    assert 6.0 < (1600 / eight_s) / (200 / alone_s) < 7.6


def test_a_long_prompt_is_prefilled_in_chunks_of_the_token_budget():
    engine = Engine(COSTS, 8)
    work = Work(5_000, 1)
    engine.add(work)
    shares = []
    while not engine.is_idle:
        step = engine.begin()
        shares.append(step.shares[0][1])
        engine.end(step)

    assert shares == [2_048, 2_048, 904]
    assert work.is_finished


def test_no_more_run_than_there_are_places_and_the_first_come_is_first_served():
    engine = Engine(COSTS, 2)
    works = [Work(10, 5) for _ in range(4)]
    for work in works:
        engine.add(work)
    engine.begin()

    assert engine.running == works[:2]
    assert engine.waiting == works[2:]


def test_the_lowest_priority_value_runs_first_when_scheduling_by_priority():
    late = Engine(COSTS, 1, by_priority=True)
    low, high = Work(10, 1, priority=5), Work(10, 1, priority=0)
    late.add(low)
    late.add(high)
    plain = Engine(COSTS, 1)
    first, second = Work(10, 1, priority=5), Work(10, 1, priority=0)
    plain.add(first)
    plain.add(second)
    late.begin()
    plain.begin()

    assert late.running == [high]
    assert plain.running == [first]


def test_a_dropped_request_frees_its_place_at_the_next_step():
    engine = Engine(COSTS, 1)
    first, second = Work(10, 100), Work(10, 100)
    engine.add(first)
    engine.add(second)
    step = engine.begin()
    engine.drop(first)
    engine.end(step)
    engine.begin()

    assert engine.running == [second]
    assert first.made == 0


def test_the_youngest_is_preempted_when_memory_is_full_and_all_still_finish():
    engine = Engine(ModelCosts(kv_tokens=3_000), 8)
    old, young = Work(1_400, 300), Work(1_400, 300)
    engine.add(old)
    engine.add(young)
    _, ends = run(engine)

    assert engine.preemptions >= 1
    assert ends[old] < ends[young]
    assert (old.made, young.made) == (300, 300)


def test_an_embedding_batch_holds_a_place_for_its_prefill_and_no_memory_after():
    engine = Engine(COSTS, 8)
    batch = Work(4_096, 0)
    engine.add(batch)
    engine.end(engine.begin())

    assert engine.running == [batch]
    assert engine.kv_use == 0
    engine.end(engine.begin())
    assert batch.is_finished
    assert engine.is_idle


def test_embedding_batches_slow_a_running_answer():
    def seconds(batches):
        engine = Engine(COSTS, 8)
        answer = Work(100, 16)
        for _ in range(batches):
            engine.add(Work(1_000, 0))
        engine.add(answer)
        return run(engine)[1][answer]

    assert seconds(7) > 1.8 * seconds(0)


_works = st.lists(st.tuples(st.integers(1, 2_500), st.integers(0, 400)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(_works, st.integers(1, 6), st.booleans())
def test_whatever_is_queued_ends_and_memory_and_places_are_never_passed(sizes, places, by_priority):
    costs = ModelCosts(kv_tokens=3_000)
    engine = Engine(costs, places, by_priority=by_priority)
    works = [Work(prompt, output, priority=at % 3) for at, (prompt, output) in enumerate(sizes)]
    for work in works:
        engine.add(work)
    for _ in range(20_000):
        if engine.is_idle:
            break
        step = engine.begin()
        assert len(engine.running) <= places
        assert sum(tokens for _, tokens in step.shares) <= costs.step_tokens
        engine.end(step)
        assert engine.kv_use <= 1

    assert all(work.is_finished and work.made == work.output_tokens for work in works)
