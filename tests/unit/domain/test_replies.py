"""Every server's way of saying no ends in the right leaf, and says nothing it should not."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import errors
from app.domain.replies import LONGEST_RETRY_AFTER_S, classified, retry_after_s, safe_message

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def openai(message="", kind=None, code=None):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "leaf"),
    [
        (429, openai("Rate limit reached", "requests", "rate_limit_exceeded"), errors.RateLimited),
        (429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
         errors.QuotaExhausted),
        (429, openai("", None, "billing_hard_limit_reached"), errors.QuotaExhausted),
        (429, openai("Request too large for gpt-4 on tokens per min", "tokens"), errors.TooLong),
        (429, {"error": "Model is overloaded", "error_type": "Overloaded"}, errors.Overloaded),
        (429, {}, errors.RateLimited),
        (402, {"error": {"message": "Insufficient Balance"}}, errors.QuotaExhausted),
        (400, {"type": "error", "error": {"type": "invalid_request_error",
         "message": "Your credit balance is too low"}}, errors.QuotaExhausted),
        (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
         errors.Overloaded),
        (529, {"type": "error", "error": {"type": "overloaded_error"}}, errors.Overloaded),
        (503, {"error": "server busy, please try again"}, errors.Overloaded),
        (401, openai("Incorrect API key provided: abc", code="invalid_api_key"), errors.AuthFailed),
        (403, openai("not allowed"), errors.AuthFailed),
        (403, openai("no", code="content_filter"), errors.ContentRefused),
        (404, openai("The model `x` does not exist", code="model_not_found"), errors.ModelMissing),
        (404, {"error": "model 'x' not found"}, errors.ModelMissing),
        (400, openai("model \"x\" not found, try pulling it first"), errors.ModelMissing),
        (501, {"error": {"code": 501, "message": "does not support embeddings"}},
         errors.ModelMissing),
        (400, openai("", code="context_length_exceeded"), errors.TooLong),
        (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens",
         "type": "BadRequestError", "param": None, "code": 400}, errors.TooLong),
        (400, {"error": {"code": 400, "type": "exceed_context_size_error",
         "message": "the request exceeds the available context size"}}, errors.TooLong),
        (500, {"error": {"code": 500, "type": "server_error",
         "message": "input is too large to process. increase the physical batch size"}},
         errors.TooLong),
        (400, {"error": "the input length exceeds the context length"}, errors.TooLong),
        (422, {"error": "Input validation error: `inputs` must have less than 512 tokens",
         "error_type": "Validation"}, errors.TooLong),
        (413, {"error": "batch size 64 > maximum allowed batch size 32", "error_type": "Empty"},
         errors.TooLong),
        (413, b"<html>413 Request Entity Too Large</html>", errors.TooLong),
        (400, openai("max 300000 tokens per request", code="max_tokens_per_request"),
         errors.TooLong),
        (400, openai("prompt is too long: 210000 tokens > 200000 maximum"), errors.TooLong),
        (400, {"error": {"code": "content_filter", "status": 400, "message": "The response was",
         "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, errors.ContentRefused),
        (400, openai("rejected", code="content_policy_violation"), errors.ContentRefused),
        (400, openai("invalid input"), errors.BadRequest),
        (422, {"detail": [{"loc": ["body"], "msg": "Field required"}]}, errors.BadRequest),
        (409, {}, errors.BadRequest),
        (408, b"", errors.EndpointTimeout),
        (424, {"error": "backend", "error_type": "Backend"}, errors.ServerFault),
        (500, b"Internal Server Error", errors.ServerFault),
        (502, b"<html>Bad Gateway</html>", errors.ServerFault),
        (504, b"\xff\xfe", errors.ServerFault),
        (599, b"[" * 100_000, errors.ServerFault),
        (301, b"", errors.BadReply),
    ],
)  # fmt: skip
def test_each_refusal_is_the_right_leaf(status, body, leaf):
    as_bytes = body if isinstance(body, bytes) else json.dumps(body).encode()

    assert type(classified(status, as_bytes, {}, now=NOON)) is leaf
    if isinstance(body, dict):
        assert type(classified(status, body, {}, now=NOON)) is leaf


@given(st.integers(300, 599), st.binary(max_size=200))
def test_any_bytes_at_all_are_some_leaf(status, body):
    error = classified(status, body, {}, now=NOON)

    assert isinstance(error, errors.EndpointError)
    assert type(error) is not errors.EndpointError


@given(st.integers(300, 599), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["error", "message", "code", "type", "detail", "innererror", "msg"]),
        inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_any_json_at_all_is_some_leaf(status, value):
    error = classified(status, json.dumps(value).encode(), {}, now=NOON)

    assert isinstance(error, errors.EndpointError)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Mon, 01 Jun 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Mon, 01 Jun 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 01 Jun 2126 12:00:00 GMT"}, LONGEST_RETRY_AFTER_S),
        ({"retry-after": "999999999999"}, LONGEST_RETRY_AFTER_S),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "in a while"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_in_every_form_and_bounded(headers, seconds):
    assert retry_after_s(headers, NOON) == seconds
    assert classified(429, b"{}", headers, now=NOON).retry_after_s == seconds


@given(st.text(max_size=60))
def test_no_retry_after_can_hurt(text):
    seconds = retry_after_s({"retry-after": text}, NOON)

    assert seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER_S


def test_the_text_tells_the_status_the_code_and_the_reason():
    error = classified(
        400, openai("temperature must be at most 2", "invalid_request_error"), {}, now=NOON
    )

    assert str(error) == (
        "the endpoint answered 400 (invalid_request_error): temperature must be at most 2"
    )


SECRET = "the patient has a broken toe and is called Anna"


@pytest.mark.parametrize(
    "message",
    [
        SECRET,
        f"Bad input: {SECRET}",
        f"could not parse '{SECRET}'",
        f'could not parse "{SECRET}" at all',
        f"unexpected {SECRET}",
        f"got [{SECRET}]",
    ],
)
def test_the_input_is_never_repeated(message):
    error = classified(400, openai(message), {}, now=NOON, sent=[f"Note 7. {SECRET}. End."])

    assert "patient" not in str(error)
    assert "Anna" not in str(error)


def test_a_short_input_is_not_repeated_either():
    error = classified(400, openai("cannot embed hush now"), {}, now=NOON, sent=["hush"])

    assert "hush" not in str(error)


@pytest.mark.parametrize("key", ["sk-abcdefghijklmnop", "Bearer abcdefgh12345"])
def test_a_key_is_never_repeated(key):
    assert "abcdefgh" not in str(classified(500, openai(f"no such key {key}"), {}, now=NOON))
    assert "abcdefgh" not in str(classified(500, openai("x" * 110 + " " + key), {}, now=NOON))


def test_a_wrong_key_is_not_repeated_whatever_it_looks_like():
    error = classified(401, openai("Incorrect API key provided: hunter2xyz"), {}, now=NOON)

    assert "hunter2" not in str(error)


def test_a_message_is_cut_at_120_characters():
    assert len(safe_message("word " * 200)) <= 120
