"""What measurements say: with figures made by a known model, the model comes out again."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from app.domain.calibration.findings import (
    Targets,
    knee,
    micro_batch,
    people_capacity,
    saturation,
    targets_of,
)
from app.domain.calibration.fitting import fit
from app.domain.calibration.measured import (
    BatchSize,
    Idle,
    Level,
    Measured,
    PromptPoint,
    RateStep,
    TimedCall,
    idle_of,
    level_of,
)
from app.domain.calibration.plan import Plan
from app.domain.calibration.proposal import PoolNow, concluded
from app.errors import UsageError
from app.settings import PoolSettings

C0, CB, CP, OVERHEAD = 12.5, 0.02, 0.06, 2.0
IDLE = Idle(10, 600.0, 620.0, 30.0, 12.5, 48.0)


def levels(noise: float = 0.0, seed: int = 1) -> list[Level]:
    chance = random.Random(seed)
    found = []
    for running in (1, 2, 4, 8, 16):
        prompt = running * 140 / 48
        step_ms = (C0 + CB * running + CP * prompt) * (1 + chance.gauss(0, noise))
        found.append(Level(running, 1000 * running / step_ms, step_ms, prompt))
    return found


def prompts(noise: float = 0.0, seed: int = 2) -> list[PromptPoint]:
    chance = random.Random(seed)
    return [
        PromptPoint(n, (OVERHEAD + C0 + CB + CP * n) * (1 + chance.gauss(0, noise)))
        for n in (50, 190, 470, 920, 1370)
    ]


def a_call(total_ms: float, ahead: int = 0, sent_s: float = 0.0, first_ms: float = 30.0):
    gap_s = (total_ms - first_ms) / 1000 / 47
    at_s = tuple(sent_s + first_ms / 1000 + gap_s * token for token in range(48))
    return TimedCall(sent_s, at_s, sent_s + total_ms / 1000, 140, 48, ahead)


def a_step(rps: float, *total_ms: float, **more) -> RateStep:
    return RateStep(rps, tuple(a_call(total) for total in total_ms), **more)


def test_a_known_model_comes_out_exactly():
    found = fit(levels(), prompts())

    assert found.fixed_ms == pytest.approx(C0)
    assert found.per_running_ms == pytest.approx(CB)
    assert found.per_prompt_token_ms == pytest.approx(CP)
    assert found.overhead_ms == pytest.approx(OVERHEAD)
    assert found.typical_error == pytest.approx(0, abs=1e-9)
    assert found.r_squared == pytest.approx(1)
    assert all(abs(point.residual_ms) < 1e-9 for point in found.points)
    assert found.step_ms(8, 100) == pytest.approx(C0 + 8 * CB + 100 * CP)


@pytest.mark.parametrize("seed", range(20))
def test_five_per_cent_of_noise_leaves_the_constants_near(seed):
    found = fit(levels(0.05, seed), prompts(0.05, seed + 100))

    assert found.fixed_ms == pytest.approx(C0, rel=0.15)
    assert found.per_prompt_token_ms == pytest.approx(CP, rel=0.25)
    assert 0.005 < found.typical_error < 0.10
    assert found.r_squared > 0.95
    assert min(found.per_running_ms, found.overhead_ms) >= 0


def test_no_constant_is_negative_and_the_others_still_fit():
    faster = [replace(one, step_ms=C0 - 0.05 * one.running) for one in levels()]
    found = fit(faster, prompts())

    assert found.per_running_ms == 0
    assert found.fixed_ms == pytest.approx(C0, rel=0.15)


def test_one_level_does_not_say_what_a_request_costs():
    found = fit(levels()[:1], prompts())

    assert found.per_running_ms == 0
    assert found.fixed_ms == pytest.approx(C0, rel=0.01)


def test_too_little_gives_no_model():
    assert fit(levels(), prompts()[:1]) is None
    assert fit([], prompts()) is None


def test_steps_are_counted_by_tokens_and_only_in_the_time_that_counts():
    lasting = [a_call(600, sent_s=start) for start in (0.0, 0.6, 1.2)] * 2
    level = level_of(2, lasting, 0.61, 1.81)

    assert level.tokens_per_s == pytest.approx(2 * 96 / 1.2)
    assert level.step_ms == pytest.approx(12.5)
    assert level.prompt_tokens_per_step == pytest.approx(4 * 140 / 96)


def test_servers_that_send_several_tokens_at_once_are_counted_right():
    call = a_call(600)
    fewer = replace(call, token_at_s=call.token_at_s[::4])

    assert level_of(1, [fewer], 0, 1).tokens_per_s == pytest.approx(48)
    assert level_of(1, [TimedCall(0.0, error="timeout")], 0, 1) is None


def test_throughput_that_gains_less_than_a_tenth_is_saturated():
    def at(*speeds):
        return [Level(1 << n, speed, 10.0, 0.0) for n, speed in enumerate(speeds)]

    assert saturation(at(80, 160, 310, 600)) == 8
    assert saturation(at(80, 160, 170, 175)) == 2
    assert saturation(at(80)) == 1
    # The last step is less than a doubling, and less is asked of it.
    assert saturation([*at(80, 160, 310), Level(5, 322, 10.0, 0.0)]) == 5


def test_the_knee_lies_between_the_last_rate_on_target_and_the_next():
    steps = [a_step(2, 600, 640), a_step(4, 650, 800), a_step(6, 900, 1600)]

    found = knee(steps, 1000)
    assert found.reached
    assert found.rps == pytest.approx(4.5)
    assert knee(steps[:2], 1000).rps == 4
    assert not knee(steps[:2], 1000).reached
    assert knee(steps, 500) is None


def test_a_rate_that_fails_or_piles_up_is_past_the_knee_however_fast_it_looks():
    refused = RateStep(6, (a_call(500), TimedCall(0.0, error="rate_limited")))
    for over in (refused, a_step(6, 500, gave_up=True)):
        assert not over.keeps(1000)
        assert knee([a_step(4, 600), over], 1000).rps == 4


def test_calls_we_gave_up_are_no_errors():
    step = RateStep(6, (TimedCall(0.0, error="abandoned"),), gave_up=True)

    assert (step.errors, step.p95_ms) == (0, None)


def crowd(per_head_ms: float, free: int, most: int, noise: float = 0.0) -> list[RateStep]:
    """Calls that wait `per_head_ms` for each one ahead past `free`."""
    chance = random.Random(3)
    calls = []
    for ahead in range(most):
        for _ in range(6):
            wait_ms = max(0, ahead + 1 - free) * per_head_ms + abs(chance.gauss(0, noise))
            calls.append(a_call(620 + wait_ms, ahead, first_ms=30 + wait_ms))
    return [RateStep(5, tuple(calls))]


@pytest.mark.parametrize("noise", [0.0, 15.0])
def test_people_capacity_is_where_waiting_alone_comes_near_the_target(noise):
    targets = Targets(1085, 260, 17.5)  # x reaches 0.8 with 178 ms of waiting

    assert people_capacity(crowd(75, free=8, most=14, noise=noise), targets) == pytest.approx(
        10, abs=1
    )


def test_people_who_never_crowd_give_no_capacity():
    assert people_capacity(crowd(75, free=8, most=8), Targets(1085, 260, 17.5)) is None


def test_one_late_call_is_no_crowd():
    calls = [a_call(620, ahead) for ahead in range(6) for _ in range(5)]
    late = a_call(2000, ahead=6, first_ms=1500)

    assert people_capacity([RateStep(3, (*calls, late))], Targets(1085, 260, 17.5)) is None


def test_a_call_that_uses_up_both_targets_is_on_target_just_so():
    targets = targets_of(1000, IDLE)

    whole = targets.first_token_ms + 47 * targets.per_token_ms
    assert whole == pytest.approx(1000, rel=0.01)
    assert targets.first_token_ms == 30 + 190


def test_the_largest_batch_under_the_bound_is_taken():
    sizes = [BatchSize(n, n * 45, 15 + n * 3) for n in (1, 2, 4, 8, 16, 32, 64)]

    assert micro_batch(sizes, 115).items == 32
    assert micro_batch(sizes, 1).items == 1
    assert micro_batch([], 100) is None


def a_measurement() -> Measured:
    sizes = tuple(BatchSize(n, n * 45, 15 + n * 3) for n in (1, 16, 32))
    steps = (a_step(2, 600, 640), a_step(4, 650, 1600))
    return Measured(IDLE, tuple(levels()), tuple(prompts()), steps, sizes, 1085.0)


@pytest.mark.parametrize(
    ("now", "total"),
    [(PoolNow(1, 1), 16), (PoolNow(2, 4, others=8, endpoints=2), 24), (PoolNow(30, 10), 40)],
)
def test_what_is_proposed_is_lawful_beside_what_is_kept(now, total):
    proposal = concluded(a_measurement(), now).proposal

    pool = PoolSettings(name="main", reserve=now.reserve, batch_min=now.batch_min, **proposal.pool)
    assert (pool.total, pool.ceiling) == (total, total - now.reserve)
    assert pool.target_p95_ms == 1085
    assert proposal.endpoint == {"max_batch_items": 32, "max_batch_tokens": 1440}


def test_levels_at_which_calls_wait_for_a_place_do_not_spoil_the_model():
    full = [Level(32, 1024, 31.2, 93.0)]  # 16 places: nothing is gained, each waits twice as long
    found = concluded(replace(a_measurement(), levels=(*levels(), *full)), PoolNow(1, 1))

    assert found.saturation == 16
    assert found.fit.fixed_ms == pytest.approx(C0)


def test_without_an_embedding_model_nothing_is_said_of_batches():
    found = concluded(replace(a_measurement(), sizes=()), PoolNow(1, 1))

    assert found.proposal.endpoint == {}
    assert found.micro_batch is None


def test_the_target_is_one_and_three_quarters_of_a_call_alone_or_the_one_given():
    assert Plan().target_ms(600) == 1050
    assert Plan(target_p95_ms=800).target_ms(600) == 800
    with pytest.raises(UsageError, match="a call that is alone takes 600 ms"):
        Plan(target_p95_ms=500).target_ms(600)


def test_rates_rise_past_the_capacity_and_never_past_the_most_allowed():
    rates = Plan().rates(10)

    assert rates == sorted(rates)
    assert rates[0] == 3
    assert rates[-1] > 20
    assert Plan(max_rps=7).rates(10) == [3, 6, 7]
    assert Plan(max_rps=1).rates(10) == [1]


def test_levels_double_up_to_the_endpoints_most():
    assert Plan().levels(1) == [1]
    assert Plan().levels(8) == [1, 2, 4, 8]
    assert Plan().levels(12) == [1, 2, 4, 8, 12]


def test_the_default_takes_less_than_90_s_where_a_call_takes_600_ms():
    assert Plan().expected_s(0.6, 8, embeds=True) < 90
    assert Plan().expected_s(0.6, 32, embeds=True) < 90


def test_calls_that_are_alone_are_summed_up():
    found = idle_of([a_call(600), a_call(620), TimedCall(0.0, error="timeout")])

    assert (found.calls, found.p50_ms, found.p95_ms) == (2, 600, 620)
    assert found.output_tokens == 48
