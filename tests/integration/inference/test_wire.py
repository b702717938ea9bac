"""The wire keeps its deadlines, closes at once, and turns every failure into one leaf."""

from __future__ import annotations

import os
import select
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time

import numpy as np
import orjson
import pytest

from app import errors
from app.domain.inference import ChatRequest, EmbedRequest, Message
from app.inference.cancel import Cancel
from app.inference.wire import Wire
from tests.integration.inference.conftest import read_request
from tests.waiting import until

TEXTS = EmbedRequest("fake-embed", ("cats and dogs", "a red car", "the sea at night"))


def a_chat(max_tokens=16, content="Ada wrote it in 1843. Bob slept. Who wrote it?", **more):
    return ChatRequest("fake-chat", (Message("user", content),), max_tokens, **more)


def took(act, leaf):
    """Seconds until `act` ended with `leaf`, and the error."""
    started = time.monotonic()
    with pytest.raises(errors.EndpointError) as raised:
        act()
    assert type(raised.value) is leaf, repr(raised.value)
    return time.monotonic() - started, raised.value


def http(body, status="200 OK", kind="application/json", more=""):
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


# What works


def test_vectors_are_unit_length_and_the_usage_is_the_servers(wire):
    reply = wire.embed(TEXTS, deadline_s=10, dim=256)

    assert reply.vectors.shape == (3, 256)
    assert reply.vectors.dtype == np.float32
    assert np.linalg.norm(reply.vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert (reply.usage.rough, reply.model) == (False, "fake-embed")
    assert reply.usage.prompt_tokens == 4 + 3 + 4


def test_base64_and_float_lists_agree(wire, server):
    listed = server.client.post(
        f"{server.url}/embeddings", json={"model": TEXTS.model, "input": list(TEXTS.texts)}
    ).json()
    encoded = wire.embed(TEXTS, deadline_s=10).vectors

    assert np.array_equal(
        np.array([one["embedding"] for one in listed["data"]], dtype=np.float32), encoded
    )


def test_a_chat_streams_its_text_and_tells_the_first_token(wire):
    pieces, firsts = [], []
    reply = wire.chat(
        a_chat(), deadline_s=10, on_first_token=lambda: firsts.append(1), on_text=pieces.append
    )

    assert reply.text == "".join(pieces)
    assert reply.text.startswith("Ada wrote it in 1843.")
    assert len(pieces) > 3
    assert firsts == [1]
    assert (reply.usage.completion_tokens, reply.usage.rough) == (16, False)
    assert reply.finish_reason == "length"


def test_connections_are_kept_for_the_next_call_also_after_a_stream(wire):
    for _ in range(3):
        wire.embed(TEXTS, deadline_s=10)
        wire.chat(a_chat(4), deadline_s=10)

    assert len(wire._pool().connections) == 1


def test_sixteen_threads_share_a_wire(wire):
    replies = []
    threads = [
        threading.Thread(target=lambda: replies.append(wire.embed(TEXTS, deadline_s=20)))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(replies) == 16
    assert all(np.array_equal(one.vectors, replies[0].vectors) for one in replies)


def test_models_and_gauges_are_read(wire, start, rude, wire_to):
    assert wire.models() == ("fake-chat", "fake-embed")
    assert wire.metrics().running == 0
    assert wire.metrics().kv_cache_use == 0

    llama = rude(lambda c, _: c.sendall(http(b"llamacpp:requests_processing 3\n")))
    gauges = wire_to(llama).metrics()
    assert (gauges.running, gauges.waiting) == (3, None)
    none = rude(lambda c, _: c.sendall(http(b"{}", "404 Not Found")))
    assert wire_to(none).metrics().running is None


def test_no_texts_give_no_vectors_and_no_call(wire, server):
    assert wire.embed(EmbedRequest("fake-embed", ()), deadline_s=5, dim=256).vectors.shape == (
        0,
        256,
    )
    assert server.ledger()["requests"] == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own(wire):
    wire.embed(TEXTS, deadline_s=10)
    pool = wire._pool()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            own = wire._pool() is not pool
            wire.embed(TEXTS, deadline_s=10)
            os.write(write_end, b"own" if own else b"shared")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as told:
        assert told.read() == b"own"
    wire.embed(TEXTS, deadline_s=10)


def test_a_server_that_ignores_streaming_is_understood(rude, wire_to):
    body = orjson.dumps(
        {"choices": [{"message": {"content": "Ada."}, "finish_reason": "stop"}], "model": "m"}
    )
    seen = []
    one = wire_to(rude(lambda c, _: c.sendall(http(body))))
    reply = one.chat(a_chat(), deadline_s=5, on_text=seen.append)

    assert (reply.text, reply.finish_reason, seen) == ("Ada.", "stop", ["Ada."])
    assert reply.usage.rough


def test_a_refused_field_is_left_out_once_and_for_all(rude, wire_to):
    asked = []

    def behave(connection, count):
        asked.append(count)
        if count == 0:
            said = b'{"error": {"message": "encoding_format is not supported"}}'
            connection.sendall(http(said, "400 Bad Request", more="connection: close\r\n"))
        else:
            data = orjson.dumps({"data": [{"index": 0, "embedding": [1.0, 2.0]}]})
            connection.sendall(http(data, more="connection: close\r\n"))

    one = wire_to(rude(behave))
    request = EmbedRequest("m", ("x",))
    first = one.embed(request, deadline_s=5)
    second = one.embed(request, deadline_s=5)

    assert first.vectors.tolist() == second.vectors.tolist() == [[1.0, 2.0]]
    assert len(asked) == 3
    assert first.usage.rough


def test_a_priority_is_dropped_where_the_server_does_not_schedule_by_it(wire):
    assert wire.chat(a_chat(priority=5), deadline_s=10).usage.completion_tokens == 16


def test_events_cut_anywhere_are_put_together(rude, wire_to):
    event = orjson.dumps({"choices": [{"delta": {"content": "grüße "}}]})
    last = orjson.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    stream = b": ping\r\n\r\ndata: " + event + b"\r\n\r\ndata:" + last + b"\n\ndata: [DONE]\n\n"

    def behave(connection, _count):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for at in range(0, len(stream), 3):
            connection.sendall(stream[at : at + 3])
            time.sleep(0.001)

    with_pieces = wire_to(rude(behave)).chat(a_chat(), deadline_s=5)

    assert (with_pieces.text, with_pieces.finish_reason) == ("grüße ", "stop")


# Faults


@pytest.mark.parametrize(
    ("fault", "leaf"),
    [
        ({"kind": "status", "status": 429}, errors.RateLimited),
        ({"kind": "status", "status": 429, "code": "insufficient_quota"}, errors.QuotaExhausted),
        ({"kind": "status", "status": 503}, errors.Overloaded),
        ({"kind": "status", "status": 529}, errors.Overloaded),
        ({"kind": "status", "status": 500}, errors.ServerFault),
        ({"kind": "status", "status": 401}, errors.AuthFailed),
        ({"kind": "status", "status": 404}, errors.ModelMissing),
        ({"kind": "status", "status": 413}, errors.TooLong),
        ({"kind": "status", "status": 400, "code": "content_filter"}, errors.ContentRefused),
        ({"kind": "status", "status": 400}, errors.BadRequest),
        ({"kind": "drop"}, errors.ConnectionFailed),
        ({"kind": "bad_json"}, errors.BadReply),
        ({"kind": "reject_text", "text": "red"}, errors.BadRequest),
        ({"kind": "vectors", "mode": "nan"}, errors.BadReply),
        ({"kind": "vectors", "mode": "short"}, errors.BadReply),
        ({"kind": "vectors", "mode": "doubled"}, errors.BadReply),
        ({"kind": "vectors", "mode": "zero"}, errors.BadReply),
        ({"kind": "vectors", "mode": "wrong_dim"}, errors.BadReply),
    ],
)
def test_each_fault_of_embeddings_is_its_own_leaf_once(wire, server, fault, leaf):
    server.order(fault | {"remaining": 1, "path": "embeddings"})

    took(lambda: wire.embed(TEXTS, deadline_s=10, dim=256), leaf)
    wire.embed(TEXTS, deadline_s=10, dim=256)


@pytest.mark.parametrize(
    ("fault", "leaf"),
    [
        ({"kind": "status", "status": 429}, errors.RateLimited),
        ({"kind": "status", "status": 500}, errors.ServerFault),
        ({"kind": "drop"}, errors.ConnectionFailed),
        ({"kind": "reject_text", "text": "1843"}, errors.BadRequest),
    ],
)
def test_each_fault_of_a_stream_is_its_own_leaf_once(wire, server, fault, leaf):
    server.order(fault | {"remaining": 1, "path": "chat"})

    took(lambda: wire.chat(a_chat(), deadline_s=10), leaf)
    wire.chat(a_chat(), deadline_s=10)


def test_shuffled_vectors_land_on_their_own_texts(wire, server):
    straight = wire.embed(TEXTS, deadline_s=10).vectors
    server.order({"kind": "vectors", "mode": "shuffled"})

    assert np.array_equal(wire.embed(TEXTS, deadline_s=10).vectors, straight)


def test_retry_after_reaches_the_error_in_any_form(wire, server):
    for said, seconds in (("7", 7.0), ("banana", None), ("-3", None), ("1e12", 3600.0)):
        server.order({"kind": "status", "status": 429, "retry_after": said, "remaining": 1})
        _, error = took(lambda: wire.embed(TEXTS, deadline_s=10), errors.RateLimited)
        assert error.retry_after_s == seconds


def test_blank_text_too_long_text_and_a_wrong_model_are_told_apart(wire):
    blank = EmbedRequest("fake-embed", ("fine", " "))
    long = EmbedRequest("fake-embed", ("word " * 10_000,))
    took(lambda: wire.embed(blank, deadline_s=5), errors.BadRequest)
    took(lambda: wire.embed(long, deadline_s=5), errors.TooLong)
    took(lambda: wire.embed(EmbedRequest("nope", ("x",)), deadline_s=5), errors.ModelMissing)
    took(lambda: wire.chat(a_chat(1_000_000), deadline_s=5), errors.TooLong)


def test_a_key_is_asked_for_and_never_told(start, wire_to):
    guarded = start("--api-key", "sk-very-secret-key", "--speed", "50")
    _, error = took(
        lambda: wire_to(guarded.url, "sk-wrong-secret-key").embed(TEXTS, deadline_s=5),
        errors.AuthFailed,
    )
    right = wire_to(guarded.url, "sk-very-secret-key")

    assert "secret" not in str(error)
    assert right.embed(TEXTS, deadline_s=5).vectors.shape == (3, 256)
    assert "secret" not in repr(right)


# Connections that break


def test_nobody_listening_is_a_failed_connection(wire_to):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    took(
        lambda: wire_to(f"http://127.0.0.1:{port}/v1").embed(TEXTS, deadline_s=60),
        errors.ConnectionFailed,  # And not its time that is over.
    )


def test_an_address_that_is_none_is_a_config_error():
    with pytest.raises(errors.ConfigError, match="http://HOST:PORT/v1"):
        Wire("localhost:8000/v1")


def test_a_host_that_swallows_packets_costs_the_connect_timeout_and_no_more(wire_to):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # Two connections fill its backlog; the next one is never answered.
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        until(lambda: select.select([], fillers, [], 0)[1])
        one = wire_to(f"http://127.0.0.1:{address[1]}/v1", connect_timeout_s=0.3)
        seconds, _ = took(lambda: one.embed(TEXTS, deadline_s=120), errors.EndpointTimeout)
        for filler in fillers:
            filler.close()

    assert 0.25 < seconds < 30  # Of the two minutes that the call had.


def reset(connection, _count):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("behave", "leaf"),
    [
        (reset, errors.ConnectionFailed),
        (lambda c, _: None, errors.ConnectionFailed),
        (lambda c, _: c.sendall(http(b"{}")[:40]), errors.ConnectionFailed),
        (lambda c, _: c.sendall(http(b'{"data": []}')[:-3]), errors.ConnectionFailed),
        (lambda c, _: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n" * 9), errors.BadReply),
        (lambda c, _: c.sendall(http(b"<html>hello</html>")), errors.BadReply),
        (lambda c, _: c.sendall(http(b"[1, 2]")), errors.BadReply),
        (lambda c, _: c.sendall(http(b"{}")), errors.BadReply),
        (lambda c, _: c.sendall(http(b'{"data": [1]}')), errors.BadReply),
        (lambda c, _: c.sendall(http(b'{"data": [{"embedding": "?!"}]}')), errors.BadReply),
        (lambda c, _: c.sendall(http(b'{"data": [{"embedding": "AAA="}]}')), errors.BadReply),
        (lambda c, _: c.sendall(http(b"oops", "503 No")[:-2]), errors.Overloaded),
    ],
)
def test_broken_servers_are_told_apart(rude, behave, leaf, wire_to):
    one = wire_to(rude(behave))
    took(lambda: one.embed(EmbedRequest("m", ("x",)), deadline_s=5), leaf)


@pytest.mark.parametrize(
    ("stream", "leaf"),
    [
        (b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n', errors.ConnectionFailed),
        (b"data: {broken\n\n", errors.BadReply),
        (b'data: {"choices": [1]}\n\n', errors.BadReply),
        (b'data: {"choices": [{"delta": {"content": 7}}]}\n\n', errors.BadReply),
        (b'data: {"error": {"message": "boom", "code": 500}}\n\n', errors.ServerFault),
        (b'data: {"error": {"message": "x", "type": "o", "code": 503}}\n\n', errors.Overloaded),
        (b"", errors.ConnectionFailed),
    ],
)
def test_broken_streams_are_told_apart(rude, stream, leaf, wire_to):
    one = wire_to(rude(lambda c, _: c.sendall(http(stream, kind="text/event-stream"))))
    took(lambda: one.chat(a_chat(), deadline_s=5), leaf)


# TLS


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A certificate for 127.0.0.1 that this process trusts; its file holds the key too."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    path = tmp_path / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    path.write_bytes((tmp_path / "key").read_bytes() + (tmp_path / "cert").read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
    return path


@pytest.mark.parametrize("flag", [Cancel, threading.Event])
def test_over_tls_calls_work_and_keep_deadlines_and_cancels(certificate, rude, wire_to, flag):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    vector = orjson.dumps({"data": [{"index": 0, "embedding": [1.0, 2.0]}]})

    def behave(connection, count):
        with context.wrap_socket(connection, server_side=True) as secure:
            read_request(secure)
            if count == 0:
                secure.sendall(http(vector, more="connection: close\r\n"))
            else:
                for byte in http(vector * 90):
                    secure.sendall(bytes([byte]))
                    time.sleep(0.02)

    one = wire_to(rude(behave, reads=False).replace("http:", "https:"))
    request = EmbedRequest("m", ("x",))
    assert one.embed(request, deadline_s=5).vectors.tolist() == [[1.0, 2.0]]

    seconds, _ = took(lambda: one.embed(request, deadline_s=0.4), errors.EndpointTimeout)
    assert 0.35 < seconds < 20  # The answer takes more than a minute.

    cancelled = flag()
    threading.Timer(0.3, cancelled.set).start()
    seconds, _ = took(
        lambda: one.embed(request, deadline_s=60, cancelled=cancelled), errors.Abandoned
    )
    assert seconds < 20


def test_a_certificate_that_nobody_vouches_for_is_a_failed_connection(
    certificate, rude, wire_to, monkeypatch
):
    monkeypatch.delenv("SSL_CERT_FILE")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    url = rude(lambda c, _: context.wrap_socket(c, server_side=True).close(), reads=False)
    one = wire_to(url.replace("http:", "https:"))
    _, error = took(
        lambda: one.embed(EmbedRequest("m", ("x",)), deadline_s=5), errors.ConnectionFailed
    )

    assert "TLS" in str(error)


# Deadlines and cancelling


@pytest.mark.parametrize("kind", ["hang", "drip"])
def test_the_deadline_of_the_whole_call_holds(wire, server, kind):
    server.order({"kind": kind, "delay_s": 0.02})

    for act in (
        lambda: wire.embed(TEXTS, deadline_s=0.4),
        lambda: wire.chat(a_chat(), deadline_s=0.4),
    ):
        seconds, error = took(act, errors.EndpointTimeout)
        assert 0.35 < seconds < 20  # The answers take a minute, or for ever.
        assert "0.4 s" in str(error)
    until(lambda: wire.metrics().running == 0)


def test_the_first_byte_has_a_deadline_of_its_own(server, wire_to):
    server.order({"kind": "hang"})
    one = wire_to(server.url, first_byte_timeout_s=0.3)
    seconds, error = took(lambda: one.embed(TEXTS, deadline_s=60), errors.EndpointTimeout)

    assert 0.25 < seconds < 30
    assert "began" in str(error)


def test_a_stream_that_never_ends_after_done_is_not_waited_for(rude, wire_to):
    done = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
    told = threading.Event()

    def behave(connection, _count):
        connection.sendall(http(done + b"data: [DONE]\n\n" + b" " * 99)[:-99])
        told.wait(120)  # Open for as long as nobody has the answer.

    assert wire_to(rude(behave)).chat(a_chat(), deadline_s=60).text == "a"
    told.set()


@pytest.mark.parametrize("flag", [Cancel, threading.Event])
@pytest.mark.parametrize("waits_for", ["first byte", "more text", "vectors"])
def test_a_cancel_closes_at_once_and_frees_the_place(start, flag, waits_for, wire_to):
    slow = start("--places", "1", "--fault", '{"kind": "slow", "factor": 60}')
    one = wire_to(slow.url)
    cancelled, seen = flag(), threading.Event()

    def act():
        if waits_for == "vectors":
            long = EmbedRequest("fake-embed", ("many words " * 900,))
            return one.embed(long, deadline_s=60, cancelled=cancelled)
        return one.chat(a_chat(50), deadline_s=60, on_first_token=seen.set, cancelled=cancelled)

    thread = threading.Thread(target=took, args=(act, errors.Abandoned))
    thread.start()
    until(lambda: one.metrics().running == 1)
    if waits_for == "more text":
        until(seen.is_set)
    cancelled.set()
    until(lambda: not thread.is_alive(), 0.5, "the end of the call")  # Of forty seconds.
    until(lambda: one.metrics().running == 0, 0.5, "the place's return")
    assert [each["outcome"] for each in slow.ledger()["outcomes"]] == ["hung_up"]


def test_a_call_cancelled_before_it_begins_sends_nothing(wire, server):
    cancelled = Cancel()
    cancelled.set()
    took(lambda: wire.embed(TEXTS, deadline_s=5, cancelled=cancelled), errors.Abandoned)

    assert server.ledger()["requests"] == 0


def test_a_cancel_that_comes_too_late_harms_no_other_call(wire):
    cancelled = Cancel()
    wire.embed(TEXTS, deadline_s=5, cancelled=cancelled)
    slow = threading.Thread(target=lambda: wire.chat(a_chat(64), deadline_s=20))
    slow.start()
    cancelled.set()
    slow.join()

    assert wire.embed(TEXTS, deadline_s=5).vectors.shape == (3, 256)
