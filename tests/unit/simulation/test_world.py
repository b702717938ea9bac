"""Whole runs in virtual time: seeded, honest about places, and at the floor when in doubt."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from app.domain.throttle.feedforward import blaming
from app.domain.throttle.readings import Reading
from app.domain.throttle.samples import summarise
from app.domain.throttle.values import Bounds, PolicySettings
from app.errors import UnknownName
from app.simulation import measure, oracle
from app.simulation.faults import FAULTS, fault
from app.simulation.server import Call, ServerModel
from app.simulation.setup import EPOCH, Setup, Trace
from app.simulation.window import sample_of
from app.simulation.workloads import WORKLOADS, Lengths, Workload, poisson, workload
from app.simulation.world import World, simulate, without_batch


def setup(name: str = "poisson5", policy: str = "budget", seconds: float = 200.0) -> Setup:
    load = replace(workload(name), duration_s=seconds)
    return Setup(load, 7, replace(load.settings, name=policy))


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    first, again = simulate(setup()), simulate(setup())
    other = simulate(replace(setup(), seed=8))

    assert first.limit == again.limit
    assert first.batch_tokens == again.batch_tokens
    assert [c.x for c in first.people] == [c.x for c in again.people]
    assert first.batch_tokens != other.batch_tokens


def test_every_policy_meets_the_same_people() -> None:
    def people(trace: Trace) -> list[tuple[float, int, int]]:
        return [(c.submitted_at, c.prompt, c.output) for c in trace.people]

    with_batch, alone = simulate(setup()), without_batch(setup())

    assert people(with_batch) == people(alone)
    assert alone.batch_done == 0


def test_a_minute_takes_less_than_a_second() -> None:
    begun = time.process_time()
    simulate(setup("poisson10", seconds=300.0))

    assert time.process_time() - begun < 5.0


@pytest.mark.parametrize("rate", [12.0, 14.0])
def test_a_deadline_costs_people_two_points_of_their_target_at_most(rate: float) -> None:
    """A small pool that people nearly fill: the rules of before took half of them off target."""
    short = PolicySettings(target_p95_ms=500.0, first_token_target_ms=500.0)
    load = Workload(
        "nearly full",
        "people with short answers, and batch calls of about seven seconds",
        poisson(lambda t: np.full_like(t, rate), rate),
        duration_s=300.0,
        prompt=Lengths(60),
        output=Lengths(16),
        batch_prompt=Lengths(100),
        batch_output=Lengths(400),
        settings=short,
    )
    server = ServerModel(fixed_ms=17.0, per_running_ms=0.3)
    without = Setup(load, 1, short, bounds=Bounds(total=8), server=server)
    before = replace(without, policy=replace(short, edition=1), deadline_places=6)

    def share(one: Setup) -> float:
        return measure.on_target(measure.counted(simulate(one), load))

    assert share(replace(without, deadline_places=6)) >= share(without) - 0.02
    assert share(before) < share(without) - 0.2


@pytest.mark.parametrize("policy", ["budget", "pressure", "unlimited", "aimd"])
@pytest.mark.parametrize("name", ["turns", "long_batch"])
def test_the_total_is_never_passed(policy: str, name: str) -> None:
    one = setup(name, policy)

    assert simulate(one).most_in_flight <= one.bounds.total


def test_the_default_keeps_people_on_target_where_no_throttle_does_not() -> None:
    def share(policy: str) -> float:
        one = setup(policy=policy)
        return measure.on_target(measure.counted(simulate(one), one.workload))

    assert share("budget") >= 0.97
    assert share("unlimited") < 0.5


@pytest.mark.parametrize("name", ["blind", "controller"])
def test_without_readings_or_controller_the_limit_is_the_floor(name: str) -> None:
    wrong = replace(fault(name), start_s=100.0, end_s=160.0)
    trace = simulate(replace(setup(), fault=wrong))

    assert trace.limit[90] > 10
    # A decision holds for five seconds; what is in flight then drains.
    assert set(trace.limit[107:160]) == {1}
    assert trace.limit[190] > 5


def test_without_a_database_nothing_new_starts_and_all_resumes() -> None:
    wrong = replace(fault("database"), start_s=100.0, end_s=130.0)
    trace = simulate(replace(setup(), fault=wrong))

    assert trace.batch_in_flight[125] == 0
    assert trace.batch_in_flight[190] > 5
    assert all(c.ended_at is not None for c in trace.people if c.submitted_at < 190)


@pytest.mark.parametrize("name", ["clock_on", "clock_back"])
def test_a_clock_that_jumps_costs_one_tick_at_the_floor(name: str) -> None:
    wrong = replace(fault(name), start_s=100.0)
    trace = simulate(replace(setup(), fault=wrong))

    assert trace.limit[100] == 1
    assert trace.reasons[100] == "stale"
    assert trace.limit[130] > 10


def test_refusals_make_batch_smaller() -> None:
    wrong = replace(fault("refusals"), start_s=100.0, end_s=160.0)
    trace = simulate(replace(setup(), fault=wrong))

    assert max(trace.batch_in_flight[120:160]) <= 24
    assert trace.limit[190] > 5


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_workload_draws_its_people_by_seed(name: str) -> None:
    load = WORKLOADS[name]
    first, again, other = load.people(1), load.people(1), load.people(2)

    assert first == again
    assert first.arrive_s == sorted(first.arrive_s)
    assert name == "none" or first != other


@pytest.mark.parametrize(
    ("name", "per_s", "cv"),
    [("poisson10", 10.0, 1.0), ("gamma2", 5.0, 2.0), ("gamma4", 5.0, 4.0), ("light", 20.0, 1.0)],
)
def test_arrivals_have_the_rate_and_burstiness_of_their_name(
    name: str, per_s: float, cv: float
) -> None:
    times = WORKLOADS[name].arrivals(np.random.default_rng(3), 20_000.0)
    gaps = np.diff(times)

    assert 1 / gaps.mean() == pytest.approx(per_s, rel=0.06)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.06)


def test_unknown_names_list_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"no workload 'stepp'; known: .*spikes, step"):
        workload("stepp")
    with pytest.raises(UnknownName, match=r"no fault 'fire'; known: blind, "):
        fault("fire")
    assert len(FAULTS) == 8


def test_the_oracle_keeps_its_rule_and_beats_a_fixed_limit() -> None:
    one = setup("poisson5", seconds=100.0)
    alone = without_batch(one)
    found = oracle.find(one, alone, refinements=4)
    people = measure.counted(alone, one.workload)
    replay = simulate(replace(one, limits=found.limits))

    assert found.on_target >= measure.on_target(people) - oracle.GIVEN_UP
    assert measure.batch_tokens_per_s(replay, one.workload) == found.tokens_per_s
    fixed = simulate(replace(one, limits=(16.0,)))
    assert found.tokens_per_s > measure.batch_tokens_per_s(fixed, one.workload)


def test_nobody_is_on_target_by_definition() -> None:
    assert measure.on_target([]) == 1.0
    assert measure.whole_ms([], 0.5) is None


def test_lengths_stay_within_their_ends() -> None:
    drawn = Lengths(100, 2.0, least=20, most=500).draw(np.random.default_rng(0), 1_000)

    assert (min(drawn), max(drawn)) == (20, 500)
    assert Lengths(8).draw(np.random.default_rng(0), 3) == [8, 8, 8]


def test_a_workload_of_ones_own_runs_too() -> None:
    load = Workload("mine", "two a second", workload("poisson1").arrivals, duration_s=90.0)
    trace = simulate(Setup(load, 0, replace(load.settings, name="static")))

    assert trace.batch_done > 0


@pytest.mark.parametrize("policy", ["static", "budget"])
def test_the_simulators_reading_is_the_one_that_summarise_defines(policy: str) -> None:
    """The world makes its reading in one pass, for speed; field by field it must be the same."""
    one = setup("gamma4", policy)
    options = {"cap": 30.0} if policy == "static" else {}
    one = replace(one, policy=replace(one.policy, options=options))
    compared = cuts = 0

    class Watched(World):
        def _reading(self, t: float) -> Reading:
            nonlocal compared, cuts
            made = super()._reading(t)
            since = t - one.policy.window_s
            ended = [call for at, call in self._window.ended if at >= since]
            blame = blaming(one.policy, self.state, one.bounds)
            cuts += blame.answered_at is not None
            told = summarise(
                [
                    replace(
                        sample_of(call, t),
                        submitted_at=EPOCH + timedelta(seconds=call.submitted_at),
                    )
                    for call in (*ended, *self._flying)
                ],
                blame,
                made.computed_at,
                arrivals=round(made.arrivals_per_s * one.policy.window_s),
                interactive_recent_peak=self._peak,
                batch_in_flight=made.batch_in_flight,
                batch_waiting=made.batch_waiting,
                batch_per_s=made.batch_per_s,
                batch_round_trip_ms=made.batch_round_trip_ms,
                batch_kv_tokens=made.batch_kv_tokens,
                refused=made.refused,
                gauges=made.gauges,
            )
            unseen = {"first_token_p95_ms", "per_token_p95_ms", "batch_samples", "batch_x_p95"}
            for field in dataclasses.fields(Reading):
                if field.name not in unseen:
                    ours, theirs = getattr(made, field.name), getattr(told, field.name)
                    assert (
                        ours == pytest.approx(theirs)
                        if isinstance(ours, float)
                        else (ours == theirs)
                    ), field.name
            compared += made.samples
            return made

    Watched(one).run()

    assert compared > 1_000
    assert (cuts > 10) is (policy == "budget")


def late(times: list[float], xs: list[float]) -> int:
    def people(values: list[float]) -> list[Call]:
        calls = [Call(t, 1, 1, batch=False) for t in times]
        for call, x in zip(calls, values, strict=True):
            call.x = x
        return calls

    return measure.longest_late_s(people(xs), people([0.5] * len(xs)))


def test_lateness_is_timed_by_window_or_by_the_last_five_of_a_sparse_load() -> None:
    busy = [100 + n / 2 for n in range(80)]  # twenty in each window of ten seconds
    assert late(busy, [0.9] * 80) == 0
    assert late(busy, [*[0.9] * 40, *[1.2] * 10, *[0.9] * 30]) == 14
    sparse = [100.0 + 20 * n for n in range(10)]
    assert late(sparse, [*[0.9] * 5, 1.5, *[0.9] * 4]) == 0
    assert late(sparse, [*[0.9] * 5, 1.5, 1.5, *[0.9] * 3]) >= 60


def test_long_batch_outputs_that_fill_the_memory_do_not_stop_batch_for_good() -> None:
    """Once a capacity under the people left them all out of the count, and never grew again."""
    load = workload("long_batch")
    trace = simulate(Setup(load, 0, replace(load.settings, name="budget")))

    assert measure.batch_tokens_per_s(trace, load) > 2_500
    assert measure.on_target(measure.counted(trace, load)) > 0.98
