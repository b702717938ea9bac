"""Replies that no server should give, and words that Postgres refuses: neither harms a job."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pytest

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, Message
from app.domain.requests import NewRequest
from app.errors import BadParams
from app.services.submission import JobRequest
from tests.rig import MakeRig, Texts
from tests.scripted import Says, scripted, vectors

NUL, HALF, BOTH = b"bad \\u0000 input", b"lone \\ud800 half", b"both \\u0000\\udfff"


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, NUL), (400, HALF), (400, BOTH), (429, NUL), (500, HALF)],
    ids=["400 nul", "400 half", "400 both", "429 nul", "500 half"],
)
def test_an_error_text_that_postgres_refuses_is_stored_all_the_same(
    rig: MakeRig, status: int, message: bytes
) -> None:
    body = b'{"error": {"message": "' + message + b'", "type": "t", "code": "c"}}'
    with scripted(lambda _: Says(status, body)) as server:
        one = rig(endpoints=[server.at()], batch={"max_attempts": 1, "retry_base_s": 0.01})
        job = one.submit(["a text"]).job
        one.wiring.execution.run(job.id)
        assert one.one("SELECT count(*) FROM chunks WHERE state = 'leased'") == 0
        job = one.work(job.id)
    if status in (400, 500):
        assert (job.state, one.progress(job.id).failed) == ("completed", 1)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 2**40},
        {"prompt_tokens": 10**30},
        {"prompt_tokens": 5, "completion_tokens": -7},
        {"prompt_tokens": True},
        {"prompt_tokens": 5.5},
        {"prompt_tokens": "many"},
    ],
    ids=str,
)
def test_a_count_of_tokens_that_cannot_be_is_none(rig: MakeRig, usage: dict[str, Any]) -> None:
    with scripted(lambda body: vectors(body, **usage)) as server:
        one = rig(endpoints=[server.at()])
        job = one.work(one.submit(["a text"]).job.id)
    progress = one.progress(job.id)
    assert (job.state, progress.done) == ("completed", 1)
    assert (progress.prompt_tokens, progress.completion_tokens) == (2, 0)


@pytest.mark.parametrize("bad", ["a\x00b", "a\ud800b"], ids=["nul", "half"])
@pytest.mark.parametrize("where", ["prefix", "tenant", "webhook"])
def test_what_a_job_is_given_and_postgres_refuses_is_refused_before_it(
    rig: MakeRig, where: str, bad: str
) -> None:
    one = rig()
    params = {"model": "fake-embed", "collection": "docs"}
    more: dict[str, Any] = {}
    match where:
        case "prefix":
            params["prefix"] = bad
        case "webhook":
            more["webhook"] = {"url": f"http://hook/{bad}"}
        case _:
            more["tenant"] = bad
    with pytest.raises(BadParams, match=f"{where} holds what cannot be kept"):
        one.wiring.submission.submit(JobRequest("embed", params, **more), Texts(["a text"]))
    assert one.one("SELECT count(*) FROM jobs") == 0


def test_vectors_in_any_order_are_stored_with_their_own_texts(rig: MakeRig) -> None:
    one = rig()
    texts = [f"text number {n} of {n % 7}" for n in range(60)]
    one.work(one.submit(texts, key="calm", collection="calm").job.id)
    one.endpoint.order({"kind": "vectors", "mode": "shuffled"})
    job = one.work(one.submit(texts, key="shuffled", collection="shuffled").job.id)
    assert one.progress(job.id).done == 60
    rows = one.rows(
        "SELECT c.name, e.key, e.vector::text FROM embeddings e"
        " JOIN collections c ON c.id = e.collection_id"
    )
    stored = {(row.name, row.key): np.fromstring(row.vector[1:-1], sep=",") for row in rows}
    assert len(stored) == 2 * 60
    for n in range(60):
        assert np.allclose(stored["calm", f"k{n}"], stored["shuffled", f"k{n}"], atol=1e-5)


HE = b'data: {"choices":[{"delta":{"content":"he"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
STREAMS = [
    (HE + b'data: {"object":"error","message":"The prompt is too long","code":400}\n\n' + DONE,
     "too_long"),
    (HE + b'data: {"choices":null,"error_type":"overloaded","error_message":"busy"}\n\n' + DONE,
     "overloaded"),
    (HE + b'event: error\ndata: {"message":"boom"}\n\n', "server_error"),
    (HE + b'data: {"choices":[{"delta":{},"finish_reason":"error"}]}\n\n' + DONE, "server_error"),
    (HE + b'data: {"error":{"message":"x","code":"429"}}\n\n' + DONE, "rate_limited"),
    (b'data: {"choices":[{"delta":{"content":null,"refusal":"I cannot."}}]}\n\n' + DONE,
     "content_refused"),
    (b'data: {"choices":[{"delta":{},"finish_reason":"content_filter"}]}\n\n' + DONE,
     "content_refused"),
    (b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n' + DONE, "bad_reply"),
    (DONE, "bad_reply"),
]  # fmt: skip
WHOLE = [
    ({"choices": [{"message": {"content": None, "refusal": "I cannot."}}]}, "content_refused"),
    ({"choices": [{"message": {"content": "he"}, "finish_reason": "error"}]}, "server_error"),
    ({"error": {"message": "slow down", "code": "429"}}, "rate_limited"),
    ({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}, "bad_reply"),
]
BODIES = [*STREAMS, *((orjson.dumps(value), code) for value, code in WHOLE)]


def asked(content: str = "hello") -> tuple[NewRequest, ChatRequest]:
    new = NewRequest(uuid.uuid4(), "main", "chat", "fake-chat", clock.now())
    return new, ChatRequest("fake-chat", (Message("user", content),), 8)


@pytest.mark.parametrize(("body", "code"), BODIES)
def test_an_error_in_a_200_is_no_answer_to_an_item_nor_to_a_person(
    rig: MakeRig, body: bytes, code: str
) -> None:
    with scripted(lambda _: Says(200, body)) as server:
        one = rig(endpoints=[server.at()], batch={"max_attempts": 1, "retry_base_s": 0.01})
        job = one.wiring.submission.submit(
            JobRequest("generate", {"model": "fake-chat"}, key="job"), Texts(["a text"])
        ).job
        one.wiring.execution.run(job.id)
        assert one.rows("SELECT error_code FROM batch_calls") == [(code,)]
        assert one.one("SELECT count(*) FROM results WHERE status = 'done'") == 0

        one.execute("UPDATE endpoints SET cool_until = NULL")
        with pytest.raises(errors.EndpointError) as raised:
            one.wiring.interactive.run(*asked())
        assert raised.value.code == code
        assert one.rows("SELECT state, error_code FROM interactive_requests") == [("failed", code)]


def test_an_error_in_a_200_to_a_request_for_vectors_is_its_true_code(rig: MakeRig) -> None:
    with scripted(lambda _: Says(200, {"error": {"message": "x", "code": "429"}})) as server:
        one = rig(endpoints=[server.at()])
        one.wiring.execution.run(one.submit(["a text"]).job.id)
    assert one.rows("SELECT error_code FROM batch_calls") == [("rate_limited",)]


def test_half_a_character_is_kept_as_one_that_is_not_known_and_flagged(rig: MakeRig) -> None:
    body = b'data: {"choices":[{"delta":{"content":"a\\ud83d"},"finish_reason":"stop"}]}\n\n'
    with scripted(lambda _: Says(200, body)) as server:
        one = rig(endpoints=[server.at()])
        job = one.wiring.submission.submit(
            JobRequest("generate", {"model": "fake-chat"}, key="job"), Texts(["a text"])
        ).job
        one.work(job.id)
        reply = one.wiring.interactive.run(*asked()).reply
    assert one.one("SELECT output FROM results") == {
        "text": "a\ufffd",
        "finish_reason": "stop",
        "cleaned": "surrogate",
    }
    assert isinstance(reply, ChatReply)
    assert reply.finish_reason == "stop"


@pytest.mark.parametrize(("kind", "sent"), [("vllm", 10), ("tei", None)])
def test_batch_says_that_it_can_wait_where_a_server_heeds_it(
    rig: MakeRig, kind: str, sent: int | None
) -> None:
    def answer(body: Mapping[str, Any]) -> Says:
        return vectors(body) if "encoding_format" in body else Says(404)

    with scripted(answer) as server:
        one = rig(endpoints=[server.at(kind=kind)])
        one.work(one.submit(["a text"]).job.id)
        told = [body.get("priority") for body in server.asked if "encoding_format" in body]
        assert told == [sent]
