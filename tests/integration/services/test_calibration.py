"""An endpoint whose constants are known is measured, and they come out again."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from app import errors
from app.domain.calibration.measured import Measured
from app.domain.calibration.plan import Plan
from app.domain.calibration.proposal import Findings, PoolNow, concluded
from app.domain.inference import ChatRequest, Message
from app.domain.routing import EndpointSpec
from app.inference.simulated.settings import ModelCosts
from app.inference.wires import Wires
from app.services.calibration import Calibration, Subject
from tests.served import Served, serving
from tests.waiting import until

pytestmark = pytest.mark.slow

PLACES = 4
QUICK = Plan(max_tokens=20, prompt_words=32, seconds_per_step=1.5, idle_calls=5, repeats=3)
SHORT = Plan(max_tokens=20, prompt_words=32, seconds_per_step=0.5, idle_calls=2, repeats=1)
"""For those who look at no figure."""
TRUE = ModelCosts()


def at(server: Served, max_concurrency: int = PLACES) -> Subject:
    models = ("fake-chat", "fake-embed")
    spec = EndpointSpec("sim", "main", "simulated", server.url, models, max_concurrency)
    return Subject(spec, "fake-chat", "fake-embed")


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving("--places", str(PLACES)) as served:
        yield served


@pytest.fixture
def calm(server: Served) -> Iterator[Served]:
    server.calm()
    yield server
    server.calm()


@pytest.fixture
def own() -> Iterator[Served]:
    """An endpoint that may be left in the middle of a step of seconds."""
    with serving("--places", str(PLACES)) as served:
        yield served


@pytest.fixture
def calibration() -> Iterator[Calibration]:
    wires = Wires()
    yield Calibration(wires)
    wires.close()


def silent(*_: object) -> None:
    """Hears progress and says nothing."""


@pytest.fixture(scope="module")
def measured(server: Served) -> Measured:
    """One whole run, shared: it lets more in flight than the server has places."""
    wires = Wires()
    try:
        calibration, subject = Calibration(wires), at(server, max_concurrency=2 * PLACES)
        call_s = calibration.first_call_s(subject, QUICK)
        return calibration.measure(subject, QUICK, call_s, silent)
    finally:
        wires.close()


@pytest.fixture(scope="module")
def found(measured: Measured) -> Findings:
    return concluded(measured, PoolNow(reserve=1, batch_min=1))


def test_the_servers_true_constants_come_out(found: Findings):
    assert found.fit.fixed_ms == pytest.approx(TRUE.step_s * 1000, rel=0.5)
    assert found.fit.per_prompt_token_ms == pytest.approx(TRUE.prefill_token_s * 1000, rel=0.5)
    assert found.fit.typical_error < 0.25


def test_the_places_of_the_server_are_found_though_more_were_allowed(found: Findings):
    assert found.saturation == PLACES
    assert found.proposal.pool["total"] == PLACES
    assert found.proposal.pool["batch_max"] == PLACES - 1


def test_the_knee_is_near_what_the_places_can_bear(measured: Measured, found: Findings):
    call_s = measured.idle.p50_ms / 1000

    assert found.knee.reached
    assert 0.4 * PLACES / call_s < found.knee.rps < 1.3 * PLACES / call_s
    assert not measured.steps[-1].keeps(measured.target_p95_ms)
    assert all(step.keeps(measured.target_p95_ms) for step in measured.steps[:-1])


def test_people_are_too_many_about_when_the_places_are_taken(found: Findings):
    assert PLACES <= found.proposal.people_capacity <= 3 * PLACES


def test_the_batch_proposed_holds_the_engine_no_longer_than_half_the_target(found: Findings):
    assert found.micro_batch.call_ms <= found.batch_bound_ms
    assert found.proposal.endpoint["max_batch_items"] == found.micro_batch.items > 1


def test_no_prompt_is_sent_twice():
    with serving("--places", "4", "--speed", "20", "--ledger") as server:
        wires = Wires()
        calibration, subject = Calibration(wires), at(server)
        plan = Plan(max_tokens=20, seconds_per_step=0.5, max_rps=5, idle_calls=3, repeats=2)
        calibration.measure(subject, plan, calibration.first_call_s(subject, plan), silent)
        wires.close()
        inputs = server.ledger()["inputs_sent_more_than_once"]

    assert inputs == 0


def test_traffic_of_others_is_seen(calm: Served, calibration: Calibration):
    subject, wires = at(calm), Wires()
    assert calibration.traffic(subject.spec) == 0
    asked = ChatRequest("fake-chat", (Message("user", "word " * 200),), max_tokens=150)
    other = threading.Thread(
        target=wires.of(subject.spec).chat, args=(asked,), kwargs={"deadline_s": 20}
    )
    other.start()
    until(lambda: calibration.traffic(subject.spec) == 1, 5, "the traffic", every_s=0.1)
    other.join()
    wires.close()


def test_an_endpoint_that_refuses_at_a_rate_is_left_at_once(calm: Served, calibration: Calibration):
    """It refuses from the second rate on: the ramp ends there, and the knee is under it."""
    rates: list[str] = []

    def told(stage: str, *_: object) -> None:
        if stage.endswith("a second") and stage not in rates:
            rates.append(stage)
            if len(rates) == 2:
                calm.order({"kind": "status", "status": 429, "path": "chat"})

    subject = at(calm)
    measured = calibration.measure(subject, SHORT, 0.3, told)

    assert len(measured.steps) == len(rates) == 2
    assert measured.steps[-1].errors
    assert not measured.steps[-1].keeps(1e9)
    assert len([call for call in measured.steps[-1].calls if call.error]) <= PLACES


def test_ctrl_c_closes_what_is_in_flight(own: Served, calibration: Calibration):
    seen: list[float] = []

    def told(stage: str, done: float, *_: object) -> None:
        if not stage.endswith("a second"):
            return
        if not seen:  # From here on a call takes minutes.
            own.order({"kind": "slow", "factor": 1_000})
        seen.append(done)
        if calibration.traffic(at(own).spec):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibration.measure(at(own), SHORT, 0.3, told)

    until(lambda: calibration.traffic(at(own).spec) == 0, 1, "the end of the calls", every_s=0.1)


def test_a_model_that_does_not_answer_is_told_before_anything_is_loaded(
    calm: Served, calibration: Calibration
):
    calm.order({"kind": "status", "status": 503, "path": "chat", "message": "loading"})

    with pytest.raises(errors.EndpointError, match=r"nothing was measured: .*loading"):
        calibration.first_call_s(at(calm), QUICK)


def test_a_target_that_cannot_be_kept_is_refused(calm: Served, calibration: Calibration):
    plan = Plan(max_tokens=20, target_p95_ms=20, idle_calls=2)

    with pytest.raises(errors.UsageError, match="can never be kept"):
        calibration.measure(at(calm), plan, 0.3, silent)
