"""The virtual server: its speed is the published one, and adding steps up changes nothing."""

from __future__ import annotations

import pytest

from app.simulation.server import Call, Engine, ServerModel, Waiting


class Log:
    """An engine and the calls that ended in it."""

    def __init__(self, model: ServerModel | None = None) -> None:
        self.ended: list[Call] = []
        self.engine = Engine(model or ServerModel(), lambda call, _: self.ended.append(call))

    def send(self, count: int, prompt: int, output: int, *, batch: bool = True) -> list[Call]:
        calls = [Call(self.engine.now, prompt, output, batch=batch) for _ in range(count)]
        for call in calls:
            self.engine.submit(call)
        return calls

    def run(self, until: float) -> None:
        self.engine.until = until
        self.engine.run()


def test_one_request_takes_the_steps_of_the_formula() -> None:
    log = Log()
    [call] = log.send(1, prompt=100, output=3)
    log.run(10.0)

    first = 12.5 + 0.06 * 100 + 0.02
    second = 12.5 + 0.02 + 0.00009 * 101
    third = 12.5 + 0.02 + 0.00009 * 102
    assert call.first_at == pytest.approx(first / 1000)
    assert call.ended_at == pytest.approx((first + second + third) / 1000)


def test_the_speed_of_an_8b_model_on_an_a100() -> None:
    """Published: about 75 tokens/s alone, 6.6 times that with 8; with long contexts, that is."""
    model = ServerModel()

    assert model.tokens_per_s(1, context=9_000) == pytest.approx(75, rel=0.02)
    ratio = model.tokens_per_s(8, context=9_000) / model.tokens_per_s(1, context=9_000)
    assert 5.0 < ratio < 6.6


def test_adding_steps_up_gives_the_same_times_as_single_steps() -> None:
    whole, bit_by_bit = Log(), Log()
    for log in (whole, bit_by_bit):
        for n in range(12):
            log.send(1, prompt=50 + 37 * n, output=40 + 13 * n)
    whole.run(60.0)
    t = 0.0
    while t < 60.0:
        t += 0.004  # less than a step, so that each is taken alone
        bit_by_bit.run(t)

    assert len(whole.ended) == len(bit_by_bit.ended) == 12
    for one, other in zip(whole.ended, bit_by_bit.ended, strict=True):
        assert one.ended_at == pytest.approx(other.ended_at, abs=1e-6)


def test_prompts_are_read_in_chunks_of_the_token_budget() -> None:
    log = Log(ServerModel(step_tokens=512))
    [call] = log.send(1, prompt=1_024, output=2)
    log.run(10.0)

    assert call.first_at == pytest.approx((2 * 12.5 + 0.06 * 1_024 + 0.02) / 1000)


def test_a_full_engine_lets_nobody_in_and_priority_only_orders_the_line() -> None:
    for waiting, people_first in ((Waiting.FCFS, False), (Waiting.PRIORITY, True)):
        log = Log(ServerModel(max_running=2, waiting=waiting))
        log.send(4, prompt=10, output=50)
        log.run(0.1)
        [person] = log.send(1, prompt=10, output=5, batch=False)
        log.run(0.3)
        assert person.first_at is None  # priority gives no place back
        log.run(5.0)
        assert (log.ended.index(person) == 2) is people_first


def test_memory_that_runs_out_preempts_the_newest_and_loses_nothing() -> None:
    log = Log(ServerModel(kv_tokens=1_000))
    log.send(4, prompt=200, output=150)
    log.run(60.0)

    assert log.engine.preemptions > 0
    assert len(log.ended) == 4
    assert log.engine.kv_usage == 0.0


def test_closing_a_call_frees_its_place_and_memory_wherever_it_is() -> None:
    log = Log(ServerModel(max_running=2))
    running, reading, waiting = (
        *log.send(1, prompt=10, output=500),
        *log.send(1, prompt=90_000, output=5),
        *log.send(1, prompt=10, output=5),
    )
    log.run(0.2)
    assert (running.running, reading.running, waiting.running) == (True, False, False)
    for call in (running, reading, waiting):
        log.engine.close(call)

    assert (log.engine.running, log.engine.queued, log.engine.kv_usage) == (0, 0, 0.0)
    log.run(5.0)
    assert log.ended == []


def test_work_counts_tokens_read_and_given() -> None:
    log = Log()
    [call] = log.send(1, prompt=100, output=200)
    log.run(1.0)

    assert 100 < log.engine.work_of(call) < 300
    log.run(60.0)
    assert log.engine.work_of(call) == 300
