"""Money: what calls cost is on record, and a job pauses at its budget."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from app import clock, errors
from app.domain.inference import ChatRequest, Message, rough_tokens
from app.domain.requests import NewRequest
from tests.rig import MakeRig, Rig

TEXTS = [f"document number {n:03d} speaks of subject {n % 7}" for n in range(100)]
MICRO_BATCH = 10
A_CALL = MICRO_BATCH * rough_tokens(TEXTS[0]) / 1000
"""At a price of 1,000 for a million tokens."""


def priced(rig: MakeRig, **more: Any) -> Rig:
    one = rig()
    endpoint = {
        "name": "sim",
        "base_url": one.endpoint.url,
        "models": ["fake-chat", "fake-embed"],
        "max_concurrency": 32,
        "input_price": 1000.0,
        "output_price": 4000.0,
    }
    return rig(endpoints=[endpoint], **more)


def with_budget(one: Rig, budget: float) -> int:
    job_id = one.submit(TEXTS).job.id
    one.execute("UPDATE jobs SET budget = :budget", budget=budget)
    return job_id


def test_every_call_and_its_chunk_say_what_they_cost(rig: MakeRig) -> None:
    one = priced(rig)
    job = one.work(one.submit(TEXTS[:50]).job.id)
    assert one.progress(job.id).money == pytest.approx(5 * A_CALL)
    assert one.rows("SELECT count(*), min(model) FROM batch_calls") == [(5, "fake-embed")]
    assert one.one("SELECT sum(money) FROM batch_calls") == pytest.approx(5 * A_CALL)
    assert one.one("SELECT money FROM chunks") == pytest.approx(5 * A_CALL)


def test_a_persons_request_says_what_it_cost(rig: MakeRig) -> None:
    one = priced(rig)
    request = NewRequest(uuid.uuid4(), "main", "chat", "fake-chat", clock.now())
    asked = ChatRequest("fake-chat", (Message("user", "Hello there. How are you?"),), 8)
    usage = one.wiring.interactive.run(request, asked).reply.usage
    cost = (usage.prompt_tokens * 1000 + usage.completion_tokens * 4000) / 1e6
    assert one.one("SELECT money FROM interactive_requests") == pytest.approx(cost)


def test_a_job_pauses_at_its_budget_with_the_sums_in_its_reason(rig: MakeRig) -> None:
    one = priced(rig)
    job = one.work(with_budget(one, budget=2.5 * A_CALL))
    spent = one.progress(job.id).money

    assert job.state == "paused"
    assert job.reason == f"budget: spent {spent:.2f} of {2.5 * A_CALL:.2f}"
    assert spent == pytest.approx(3 * A_CALL)  # One call beyond, that of the one worker.
    assert one.rows("SELECT count(*) FROM chunks WHERE state = 'leased'") == [(0,)]
    assert one.rows("SELECT DISTINCT attempt, crashes FROM chunks") == [(0, 0)]


def test_with_several_workers_it_overshoots_by_their_calls_in_flight_at_most(
    rig: MakeRig,
) -> None:
    one = priced(rig, batch={"chunk_items": 25})
    one.endpoint.order({"kind": "delay", "delay_s": 0.1, "path": "embeddings"})
    job_id = with_budget(one, budget=2.5 * A_CALL)
    threads = [threading.Thread(target=one.wiring.execution.run, args=(job_id,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert one.job(job_id).state == "paused"
    assert one.progress(job_id).money <= (2.5 + 4) * A_CALL


def test_it_goes_on_with_more_and_not_without(rig: MakeRig) -> None:
    one = priced(rig)
    job_id = one.work(with_budget(one, budget=2.5 * A_CALL)).id

    with pytest.raises(errors.UsageError, match="jobs resume job --budget MORE"):
        one.wiring.steering.resume("job")
    with pytest.raises(errors.UsageError, match="has spent"):
        one.wiring.steering.resume("job", budget=A_CALL)
    assert one.job(job_id).state == "paused"
    assert one.job(job_id).budget == pytest.approx(2.5 * A_CALL)

    assert one.wiring.steering.resume("job", budget=100.0).budget == 100.0
    assert one.work(job_id).state == "completed"
    assert one.progress(job_id).money == pytest.approx(10 * A_CALL)


def test_a_job_whose_last_call_spends_the_budget_is_completed(rig: MakeRig) -> None:
    one = priced(rig)
    job_id = with_budget(one, budget=10 * A_CALL)
    one.wiring.execution.run(job_id)
    one.wiring.execution.run(job_id)
    assert one.progress(job_id).done == 100
    one.wiring.execution.run(job_id)  # A late doorbell.
    one.wiring.completion.sweep()
    assert one.job(job_id).state == "completed"


TEN_TOKENS = {"a": 3, "b": 4, "[UNK]": 0}


@pytest.mark.parametrize(
    "most",
    [
        {"max_input_tokens": 16},
        {
            "max_input_tokens": 8192,
            "limits": [{"model": "fake-embed", "max_input_tokens": 16}],
        },
    ],
    ids=["of the endpoint", "of its model"],
)
def test_a_text_that_is_known_to_be_too_long_fails_before_it_is_sent(
    rig: MakeRig, tmp_path: Path, most: dict[str, Any]
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(TEN_TOKENS, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_truncation(8)  # As many such files have it; it must not hide what is too long.
    made.save(str(tmp_path / "tokenizer.json"))
    one = rig()
    endpoint = {
        "name": "sim",
        "base_url": one.endpoint.url,
        "models": ["fake-embed"],
        "tokenizer": str(tmp_path / "tokenizer.json"),
        **most,
    }
    one = rig(endpoints=[endpoint])
    job = one.work(one.submit(["a b " * 8, "a b " * 9, "a" * 500, "b"]).job.id)

    assert (one.progress(job.id).done, one.progress(job.id).failed) == (3, 1)
    assert one.rows("SELECT seq, code, error FROM results WHERE status = 'failed'") == [
        (2, "too_long", "18 tokens, but endpoint 'sim' takes 16 an input")
    ]
    assert one.endpoint.ledger()["requests"] == 1


def test_nothing_is_refused_by_a_guess(rig: MakeRig) -> None:
    one = rig()
    endpoint = {
        "name": "sim",
        "base_url": one.endpoint.url,
        "models": ["fake-embed"],
        "max_input_tokens": 16,
    }
    one = rig(endpoints=[endpoint])
    job = one.work(one.submit(["a b " * 30]).job.id)
    assert one.progress(job.id).done == 1


def test_prices_change_nothing_for_a_job_without_a_budget(rig: MakeRig) -> None:
    one = priced(rig)
    assert one.work(one.submit(TEXTS).job.id).state == "completed"
