"""Every way in which an answer comes with 200, cut anywhere: its text, or its true code."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import errors
from app.domain.cleaning import Flag, cleaned
from app.domain.inference import ChatReply, ChatRequest, EmbedRequest, Message
from app.inference.events import Event, Events
from app.inference.replies import answered, embed_reply
from app.inference.streaming import Incoming, SoFar, Streamed

ASKED = ChatRequest("m", (Message("user", "hello"),))
LEAVES = tuple(errors.EndpointError.__subclasses__())
DONE = b"data: [DONE]\n\n"


def said(body: bytes, size: int = 1 << 20, request: ChatRequest = ASKED, **more: Any) -> ChatReply:
    """The answer in `body`, which comes `size` bytes at a time."""
    incoming = Incoming(Streamed(request, **more))
    for at in range(0, len(body), size):
        if incoming.feed(body[at : at + size]):
            break
    return incoming.reply()


def stream(*events: Any, end: bytes = DONE) -> bytes:
    """Events as a server sends them; bytes go out as they are."""
    return b"".join(
        one if isinstance(one, bytes) else b"data: " + orjson.dumps(one) + b"\n\n" for one in events
    ) + end  # fmt: skip


def piece(content: object, reason: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {"content": content, **more}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def whole(content: object, reason: Any = "stop", **more: Any) -> bytes:
    message = {"role": "assistant", "content": content, **more}
    return orjson.dumps({"choices": [{"index": 0, "message": message, "finish_reason": reason}]})


HE = piece("he")
TOO_LONG = {"object": "error", "message": "The prompt is too long", "code": 400}
FAILURES: list[tuple[object, type[errors.EndpointError]]] = [
    (TOO_LONG, errors.TooLong),
    ({"error": TOO_LONG}, errors.TooLong),
    ({"choices": None, "error_type": "overloaded", "error_message": "busy"}, errors.Overloaded),
    ({"choices": None, "error_type": "internal", "error_message": "boom"}, errors.ServerFault),
    ({"choices": [], "error": {"message": "boom", "code": "429"}}, errors.RateLimited),
    ({"error": {"message": "x", "code": "503"}}, errors.Overloaded),
    ({"error": {"message": "x", "code": 502.0}}, errors.ServerFault),
    ({"error": {"message": "x", "status": "429 Too Many Requests"}}, errors.RateLimited),
    ({"error": {"message": "slow down", "type": "rate_limit_error"}}, errors.RateLimited),
    ({"error": {"message": "x", "status": "RESOURCE_EXHAUSTED"}}, errors.RateLimited),
    ({"error": {"message": "x", "code": 8, "status": "UNAVAILABLE"}}, errors.Overloaded),
    ({"error": {"message": "x", "code": "insufficient_quota"}}, errors.QuotaExhausted),
    ({"error": {"message": "x", "code": "context_length_exceeded"}}, errors.TooLong),
    ({"error": {"message": "x", "code": "content_filter"}}, errors.ContentRefused),
    ({"error": {"message": "x", "type": "invalid_request_error"}}, errors.BadRequest),
    ({"error": {"message": "x", "type": "authentication_error"}}, errors.AuthFailed),
    ({"error": {"message": "x", "type": "timeout_error"}}, errors.EndpointTimeout),
    ({"error": {"message": "The server had an error", "type": "server_error"}}, errors.ServerFault),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
     errors.Overloaded),
    ({"error": "Model is overloaded", "error_type": "Overloaded"}, errors.Overloaded),
    ({"error": "an error was encountered while running the model"}, errors.ServerFault),
    ({"error": {"error": {"message": "prompt is too long", "code": 400}}}, errors.TooLong),
    ({"errors": [{"message": "Rate limit reached", "code": 10000}]}, errors.RateLimited),
    ({"text": "**NETWORK ERROR**", "error_code": 50001}, errors.ServerFault),
    ({"detail": "Internal failure"}, errors.ServerFault),
    ({"detail": [{"loc": ["body"], "msg": "value is not valid"}], "status": 422},
     errors.BadRequest),
    ({"message": "Too many requests", "code": 429}, errors.RateLimited),
    ({"message": "the model is at capacity"}, errors.Overloaded),
]  # fmt: skip
ENDS: list[tuple[str, type[errors.EndpointError]]] = [
    ("error", errors.ServerFault),
    ("abort", errors.ServerFault),
    ("network_error", errors.ServerFault),
    ("insufficient_system_resource", errors.Overloaded),
]


@pytest.mark.parametrize(("failure", "leaf"), FAILURES, ids=str)
def test_an_error_in_a_200_is_its_true_code_wherever_it_comes(
    failure: Any, leaf: type[errors.EndpointError]
) -> None:
    for body in (
        stream(HE, failure),
        stream(failure),
        stream(failure, end=b""),
        stream(HE, piece("", "stop"), failure),
        orjson.dumps(failure),
    ):
        with pytest.raises(errors.EndpointError) as raised:
            said(body)
        assert type(raised.value) is leaf, (body, raised.value)


@pytest.mark.parametrize(("failure", "leaf"), FAILURES, ids=str)
def test_so_it_is_in_the_answer_to_a_request_for_vectors(
    failure: Any, leaf: type[errors.EndpointError]
) -> None:
    with pytest.raises(errors.EndpointError) as raised:
        answered(orjson.dumps(failure), ("a text",))
    assert type(raised.value) is leaf


@pytest.mark.parametrize(("reason", "leaf"), ENDS)
def test_an_answer_that_its_server_broke_off_is_none(
    reason: str, leaf: type[errors.EndpointError]
) -> None:
    for body in (stream(HE, piece("", reason)), whole("he", reason)):
        with pytest.raises(leaf):
            said(body)


def test_a_choice_tells_its_own_error() -> None:
    told = {"code": 503, "message": "no healthy upstream"}
    for choice in ({"error": told}, {"finish_reason": {"type": "abort", "status_code": 503}}):
        with pytest.raises(errors.Overloaded):
            said(stream(HE, {"choices": [{"index": 0, "delta": {}, **choice}]}))


@pytest.mark.parametrize(
    ("event", "leaf"),
    [
        (b'event: error\ndata: {"message": "The prompt is too long", "code": 400}\n\n',
         errors.TooLong),
        (b'data: {"code": "503"}\r\nevent: error\r\n\r\n', errors.Overloaded),
        (b"event: error\ndata: the prompt is too long\n\n", errors.TooLong),
        (b"event: error\n\n", errors.ServerFault),
        (b"event:error\ndata:\n\n", errors.ServerFault),
        (b'error: {"code": 500, "message": "boom"}\n\n', errors.ServerFault),
        (b'event: internal_server_error\ndata: {"x": 1}\n\n', errors.ServerFault),
    ],
)  # fmt: skip
def test_an_event_that_is_called_an_error_is_one(
    event: bytes, leaf: type[errors.EndpointError]
) -> None:
    for body in (stream(HE, event), stream(event), stream(HE, event, end=b"")):
        with pytest.raises(leaf):
            said(body)


@pytest.mark.parametrize(
    ("body", "leaf"),
    [
        (stream(piece(None, refusal="I cannot"), piece(None, "stop", refusal=" do that.")),
         errors.ContentRefused),
        (whole(None, refusal="I cannot do that."), errors.ContentRefused),
        (whole([{"type": "refusal", "refusal": "No."}]), errors.ContentRefused),
        (stream(piece("Well", refusal="No."), piece("", "stop")), errors.ContentRefused),
        (stream(piece(None, "content_filter")), errors.ContentRefused),
        (whole(None, "content_filter"), errors.ContentRefused),
        (whole("", "SAFETY"), errors.ContentRefused),
        (whole("", "refusal"), errors.ContentRefused),
        (stream(piece("", "stop")), errors.BadReply),
        (stream(piece(None, "length", reasoning_content="hm")), errors.BadReply),
        (stream(piece(" \n", "stop")), errors.BadReply),
        (stream(), errors.BadReply),
        (stream({"id": "x"}, {"choices": [], "usage": {"prompt_tokens": 3}}), errors.BadReply),
        (whole(""), errors.BadReply),
        (whole(None), errors.BadReply),
        (whole([]), errors.BadReply),
        (whole("hm", tool_calls="x"), errors.BadReply),
        (whole([{"type": "image_url", "image_url": {}}]), errors.BadReply),
        (whole(7), errors.BadReply),
        (whole([7]), errors.BadReply),
        (orjson.dumps({"choices": []}), errors.BadReply),
        (b"<html>sign in</html>", errors.BadReply),
        (b"[1, 2]", errors.BadReply),
        (stream(HE, end=b""), errors.ConnectionFailed),
        (b"", errors.ConnectionFailed),
        (b": ping\n\n", errors.ConnectionFailed),
    ],
)  # fmt: skip
def test_what_has_no_text_is_no_success(body: bytes, leaf: type[errors.EndpointError]) -> None:
    for size in (1 << 20, 3):
        with pytest.raises(errors.EndpointError) as raised:
            said(body, size)
        assert type(raised.value) is leaf, raised.value


def test_a_model_that_used_up_its_tokens_thinking_says_so_and_is_no_broken_endpoint() -> None:
    with pytest.raises(errors.BadReply, match="give it more tokens") as raised:
        said(stream(piece(None, "length", reasoning="hm")))
    assert raised.value.doubtful


def test_a_refusal_does_not_repeat_the_question() -> None:
    secret = "how does the patient called Anna feel today"
    asked = ChatRequest("m", (Message("user", secret),))
    with pytest.raises(errors.ContentRefused) as raised:
        said(whole(None, refusal=f"I do not know {secret}"), request=asked)
    assert "Anna" not in str(raised.value)


def test_who_may_be_silent_is_but_may_not_fail() -> None:
    asked = ChatRequest("m", (Message("user", "hello"),), may_be_silent=True)
    assert said(stream(piece("", "stop")), request=asked).text == ""
    for body in (stream(TOO_LONG), whole(None, refusal="No.")):
        with pytest.raises(errors.EndpointError):
            said(body, request=asked)


def test_a_held_back_answer_with_text_is_done_and_says_why_it_ended() -> None:
    reply = said(stream(HE, piece("", "content_filter")))
    assert (reply.text, reply.finish_reason) == ("he", "content_filter")


def test_calls_of_tools_are_an_answer_put_together_from_their_pieces() -> None:
    def call(at: int, **more: Any) -> dict[str, Any]:
        return piece(None, tool_calls=[{"index": at, **more}])

    reply = said(
        stream(
            call(0, id="a", type="function", function={"name": "look", "arguments": ""}),
            call(1, id="b", function={"name": "go", "arguments": '{"x'}),
            call(0, function={"arguments": '{"at": '}),
            call(1, function={"arguments": '": 1}'}),
            call(0, function={"arguments": "1}"}),
            piece(None, "tool_calls"),
        )
    )
    assert (reply.text, reply.finish_reason) == ("", "tool_calls")
    assert reply.tool_calls == (
        {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "go", "arguments": '{"x": 1}'}},
    )
    old = said(whole(None, "function_call", function_call={"name": "f", "arguments": "{}"}))
    assert old.tool_calls[0]["function"] == {"name": "f", "arguments": "{}"}


# What is lawful


@pytest.mark.parametrize(
    "body",
    [
        stream(b"data:\n\n", HE, b"data: \n\n", piece("llo", "stop")),
        stream(b": ping\n\nid: 7\nretry: 10\n\nevent: ping\n\n", HE, piece("llo", "stop")),
        b"\xef\xbb\xbf" + stream(HE, piece("llo", "stop")),
        stream(HE, piece("llo", "stop")).replace(b"\n", b"\r\n"),
        stream(HE, piece("llo", "stop")).replace(b"\n", b"\r"),
        stream(HE, piece("llo", "stop")).replace(b"\n\n", b"\n"),
        stream(HE, piece("llo", "stop")).replace(b"data: ", b"data:"),
        stream(HE, piece("llo", "stop")).replace(b"data: ", b"event: message\ndata: "),
        stream(HE, piece("llo", "stop")).replace(b', "', b',\ndata: "'),
        stream(HE, piece("llo", "stop"), end=b""),
        stream(HE, piece("llo", "stop"), end=b"data: [DONE]"),
        stream(HE, piece("llo")),
        stream(HE, {"choices": None}, {}, {"choices": [], "error": None}, piece("llo", "stop")),
        stream(HE, piece("llo", "stop", refusal=None, tool_calls=[])),
        stream(piece([{"type": "text", "text": "he"}]), piece(["llo"], "stop")),
        whole("hello"),
        b"\xef\xbb\xbf\n " + whole("hello"),
        whole([{"type": "thinking", "thinking": []}, {"type": "text", "text": "hello"}]),
        whole([{"type": "text", "text": "hel"}, {"type": "image_url"}, {"text": "lo"}]),
        whole({"type": "text", "text": "hello"}),
    ],
)
@pytest.mark.parametrize("size", [1 << 20, 1, 3])
def test_lawful_answers_are_read(body: bytes, size: int) -> None:
    pieces: list[str] = []
    firsts: list[int] = []
    reply = said(body, size, on_text=pieces.append, on_first_token=lambda: firsts.append(1))
    assert (reply.text, "".join(pieces), firsts) == ("hello", "hello", [1])


def half(text: bytes, reason: bytes = b"null") -> bytes:
    return (
        b'data: {"choices": [{"delta": {"content": "' + text + b'"}, "finish_reason": '
        + reason + b"}]}\n\n"
    )  # fmt: skip


def test_two_halves_of_an_emoji_are_the_emoji_wherever_they_are_cut() -> None:
    for body in (
        stream(half(b"a\\ud83d"), half(b"\\ude00b", b'"stop"')),
        stream(half(b"a\\ud83d\\ude00b", b'"stop"')),
        stream(half(b"a\\ud83d"), half(b""), half(b"\\ude00b", b'"stop"')),
        b'{"choices": [{"message": {"content": "a\\ud83d\\ude00b"}}]}',
    ):
        pieces: list[str] = []
        reply = said(body, on_text=pieces.append)
        assert (reply.text, "".join(pieces)) == ("a😀b", "a😀b")
        assert not cleaned(reply.text).flags


def test_half_a_character_is_shown_as_one_that_is_not_known_and_flagged() -> None:
    for body in (
        stream(half(b"a\\ud83d", b'"stop"')),
        stream(half(b"a"), half(b"\\ud83d"), half(b"", b'"stop"')),
        b'{"choices": [{"message": {"content": "a\\ud83d"}}]}',
        b'{"choices": [{"message": {"content": "a\xed\xa0\xbd"}}]}',
    ):
        pieces: list[str] = []
        reply = said(body, on_text=pieces.append)
        assert "".join(pieces) == "a\ufffd"
        assert (cleaned(reply.text).text, cleaned(reply.text).flags) == (
            "a\ufffd",
            {Flag.SURROGATE},
        )


def test_a_name_that_cannot_be_stored_is_none() -> None:
    body = orjson.dumps({"model": "m\x00", "data": [{"embedding": [1.0]}]})
    assert embed_reply(answered(body), EmbedRequest("m", ("a",)), None).model == "m"
    with pytest.raises(errors.BadReply, match="not JSON"):
        answered(b'{"data": NaN}')


def test_what_has_come_is_there_as_soon_as_it_is_whole() -> None:
    so_far = SoFar()
    incoming = Incoming(Streamed(ASKED, so_far=so_far))
    first = stream(HE, end=b"")
    assert not incoming.feed(first[:-1])
    assert so_far.text == ""
    assert not incoming.feed(first[-1:])
    assert so_far.text == "he"
    assert incoming.feed(stream(piece("llo", "stop")) + b"junk that nobody reads")
    assert incoming.reply().text == "hello"


@given(st.binary(max_size=300), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_any_bytes_end_in_an_answer_or_in_a_code(body: bytes, size: int) -> None:
    for start in (b"", b"data: ", b"{"):
        with suppress(*LEAVES):
            assert said(start + body, size).text


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 999) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "message", "content", "error", "code", "type", "finish_reason",
                 "tool_calls", "function", "refusal", "status", "index", "usage"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=14,
)  # fmt: skip


@given(_JSON)
@settings(max_examples=300, deadline=None)
def test_any_json_ends_in_an_answer_or_in_a_code(value: Any) -> None:
    delta = {"choices": [{"delta": value, "message": value}]}
    for body in (stream(value), stream(delta), orjson.dumps(value), orjson.dumps(delta)):
        with suppress(*LEAVES):
            reply = said(body)
            assert reply.text or reply.tool_calls


@given(st.lists(st.text("ab\r\n:é", max_size=8), max_size=6), st.integers(1, 7))
@settings(max_examples=200, deadline=None)
def test_events_do_not_depend_on_where_they_are_cut(lines: list[str], size: int) -> None:
    body = "".join(f"data: {line}\n\n" for line in lines).encode()

    def read(size: int) -> list[Event]:
        events = Events()
        found = [
            event for at in range(0, len(body), size) for event in events.feed(body[at : at + size])
        ]
        return found + events.end()

    assert read(size) == read(len(body) or 1)


def test_a_line_without_an_end_is_refused() -> None:
    with pytest.raises(errors.BadReply, match="longer than"):
        Events().feed(b"x" * (9 << 20))
