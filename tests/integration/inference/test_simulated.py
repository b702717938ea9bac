"""The simulated endpoint behaves like a loaded server that one can look into."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx2
import numpy as np
import pytest

from app.domain.inference import ChatRequest, EmbedRequest, Message
from app.inference.simulated import embeddings
from app.inference.streaming import SoFar
from app.inference.wire import Wire
from tests.waiting import until


def a_chat(max_tokens=16, content="Ada wrote it. Bob slept. Who wrote it?"):
    return ChatRequest("fake-chat", (Message("user", content),), max_tokens)


def a_batch(size=64):
    return EmbedRequest(
        "fake-embed", tuple(f"short text number {at} about cats and dogs" for at in range(size))
    )


def post(server, path, **body):
    return server.client.post(f"{server.url}{path}", json=body)


def test_related_texts_have_related_vectors(server, wire_to):
    wire = wire_to(server.url)
    texts = ("a kitten sleeps on the sofa", "the cat naps on a couch", "interest rates rose again")
    kitten, cat, rates = wire.embed(EmbedRequest("fake-embed", texts), deadline_s=5).vectors

    assert kitten @ cat > kitten @ rates + 0.2


def test_hashed_words_are_unit_vectors_and_always_the_same():
    hashed = embeddings.HashedWords()
    texts = ["cats and dogs", "dogs and cats", "!!", "interest rates"]
    vectors = hashed(texts)

    assert vectors.shape == (4, 256)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert np.array_equal(vectors, hashed(texts))
    assert vectors[0] @ vectors[1] == pytest.approx(1)
    assert vectors[0] @ vectors[3] < 0.9


def test_dimensions_are_cut_or_refused(server):
    body = {"model": "fake-embed", "input": "cats"}
    short = post(server, "/embeddings", **body, dimensions=64).json()["data"][0]["embedding"]

    assert len(short) == 64
    assert np.linalg.norm(short) == pytest.approx(1, abs=1e-5)
    assert post(server, "/embeddings", **body, dimensions=300).status_code == 400


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/embeddings", {"model": "fake-embed", "input": ["a", "  "]}, 400),
        ("/embeddings", {"model": "fake-embed", "input": []}, 400),
        ("/embeddings", {"model": "fake-embed", "input": ["a"] * 2_049}, 400),
        ("/embeddings", {"model": "fake-embed", "input": [[1, 2]]}, 400),
        ("/embeddings", {"model": "fake-embed", "input": "a", "encoding_format": "hex"}, 400),
        ("/embeddings", {"model": "other", "input": "a"}, 404),
        ("/chat/completions", {"model": "fake-chat", "messages": []}, 400),
        ("/chat/completions", {"model": "fake-chat", "messages": ["hi"]}, 400),
        ("/chat/completions", {"model": "fake-chat"}, 400),
        (
            "/chat/completions",
            {
                "model": "fake-chat",
                "messages": [{"role": "user", "content": "a"}],
                "max_tokens": 0.5,
            },
            400,
        ),
    ],
)
def test_bad_requests_are_refused_as_real_servers_do(server, path, body, status):
    answer = post(server, path, **body)

    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_answers_are_extracts_the_same_every_time(server):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Ada wrote the program in 1843. Bob slept. Who wrote it?"},
    ]
    body = {"model": "fake-chat", "messages": messages, "max_tokens": 6}
    first, second = (post(server, "/chat/completions", **body).json() for _ in range(2))

    assert first["choices"][0]["message"]["content"] == "Ada wrote the program in 1843."
    assert first["choices"] == second["choices"]
    assert first["usage"]["completion_tokens"] == 6


def test_ignore_eos_gives_exactly_max_tokens_and_json_is_json(server):
    body = {"model": "fake-chat", "messages": [{"role": "user", "content": "Hi there."}]}
    long = post(server, "/chat/completions", **body, max_tokens=100, ignore_eos=True).json()
    schema = {
        "type": "object",
        "properties": {"verdict": {"enum": ["pass", "fail"]}, "score": {"type": "integer"}},
    }
    shape = {"type": "json_schema", "json_schema": {"name": "v", "schema": schema}}
    shaped = post(server, "/chat/completions", **body, response_format=shape).json()

    assert long["usage"]["completion_tokens"] == 100
    assert len(long["choices"][0]["message"]["content"].split()) == 100
    assert shaped["choices"][0]["message"]["content"] == '{"verdict":"pass","score":1}'


@pytest.mark.parametrize("stream", [True, False])
def test_hanging_up_frees_the_place(start, stream, wire_to):
    slow = start("--places", "1", "--fault", '{"kind": "slow", "factor": 20}')
    wire = wire_to(slow.url)
    body = {
        "model": "fake-chat",
        "messages": [{"role": "user", "content": "Go on."}],
        "max_tokens": 500,
        "ignore_eos": True,
        "stream": stream,
    }
    with httpx2.Client() as client:
        if stream:
            with client.stream("POST", f"{slow.url}/chat/completions", json=body) as answer:
                chunks = answer.iter_raw()
                next(chunks)
                assert wire.metrics().running == 1
        else:
            patience = httpx2.Timeout(60, read=0.6)
            with pytest.raises(httpx2.ReadTimeout):
                client.post(f"{slow.url}/chat/completions", json=body, timeout=patience)

    def outcomes():
        return [one["outcome"] for one in slow.ledger()["outcomes"]]

    until(lambda: outcomes() == ["hung_up"], 5, "the end of a call of two minutes")
    assert wire.metrics().running == 0


def test_no_more_run_than_there_are_places(start, wire_to):
    two = start("--places", "2", "--speed", "5")
    wire = wire_to(two.url)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: wire.chat(a_chat(30), deadline_s=20), range(8)))

    assert two.ledger()["most_running"] == 2
    assert two.ledger()["most_in_flight"] > 2


def test_the_lowest_priority_value_is_served_first(start, wire_to):
    one = start("--places", "1", "--scheduling", "priority")
    order = []

    def ask(priority):
        body = {
            "model": "fake-chat",
            "messages": [{"role": "user", "content": "Hi."}],
            "max_tokens": 5 if priority else 60,
            "ignore_eos": True,
            "priority": priority,
        }
        one.client.post(f"{one.url}/chat/completions", json=body)
        order.append(priority)

    wire = wire_to(one.url)
    threads = [threading.Thread(target=ask, args=(priority,)) for priority in (0, 9, 5, 1)]
    threads[0].start()
    until(lambda: wire.metrics().running == 1)
    for waiting, thread in enumerate(threads[1:], start=1):
        thread.start()
        until(lambda count=waiting: wire.metrics().waiting == count)
    for thread in threads:
        thread.join()

    assert order == [0, 1, 5, 9]


@contextlib.contextmanager
def load(url, concurrency):
    """Embedding batches of 64 short texts, `concurrency` at a time, as long as the block runs."""
    stop = threading.Event()
    wire = Wire(url)

    def work():
        while not stop.is_set():
            wire.embed(a_batch(), deadline_s=60)

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        wire.close()


def latency_s(url, times):
    """The least of so many: what the machine does besides makes some of them longer."""
    wire = Wire(url)
    seconds = []
    for _ in range(times):
        started = time.monotonic()
        wire.chat(a_chat(16), deadline_s=60)
        seconds.append(time.monotonic() - started)
    wire.close()
    return min(seconds)


def test_batch_load_really_hurts_interactive_latency(start):
    served = start("--places", "8")
    alone = latency_s(served.url, times=3)
    with load(served.url, 7):
        crowded = latency_s(served.url, times=2)

    assert alone > 0.19  # Sixteen steps of 12 ms.
    assert crowded > 2 * alone


def test_steps_last_as_long_as_the_model_says(start, wire_to):
    served = start()
    wire = wire_to(served.url)
    started = time.monotonic()
    wire.chat(ChatRequest("fake-chat", (Message("user", "Ada wrote " * 100),), 100), deadline_s=20)
    seconds = time.monotonic() - started

    # 250 prompt tokens: 15 ms; 100 steps of 12.54 ms. Never sooner; later on a busy machine.
    assert 0.98 * 1.27 < seconds < 4 * 1.27


def test_the_ledger_knows_what_was_sent_twice(server, wire_to):
    wire = wire_to(server.url)
    wire.embed(EmbedRequest("fake-embed", ("one", "two")), deadline_s=5)
    wire.embed(EmbedRequest("fake-embed", ("two", "three")), deadline_s=5)
    ledger = server.ledger()
    page = server.client.get(f"{server.root}/metrics").text

    assert (ledger["requests"], ledger["inputs"], ledger["distinct_inputs"]) == (2, 4, 3)
    assert ledger["inputs_sent_more_than_once"] == 1
    assert ledger["most_times_one_input_was_sent"] == 2
    assert [one["outcome"] for one in ledger["timings"]] == ["ok", "ok"]
    assert "simulated_embeddings_inputs_total 4\n" in page
    assert 'simulated_requests_total{path="embeddings",outcome="ok"} 2\n' in page


def test_faults_count_down_are_shown_and_are_cleared(server):
    server.order({"kind": "status", "status": 503, "remaining": 2, "path": "embeddings"})
    body = {"model": "fake-embed", "input": "cats"}
    statuses = [post(server, "/embeddings", **body).status_code for _ in range(3)]
    shown = server.client.get(f"{server.root}/faults").json()

    assert statuses == [503, 503, 200]
    assert [(one["kind"], one["remaining"]) for one in shown] == [("status", 0)]
    assert server.client.delete(f"{server.root}/faults").json() == []


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"kind": "explode"}, "known: status, delay"),
        ({"kind": "status", "statuz": 1}, "no field 'statuz'"),
        ({"kind": "delay", "delay_s": "long"}, "delay_s must be a number"),
        ({"status": 1}, "`kind`"),
        ({"kind": "reject_text"}, "`text`"),
        ({"kind": "vectors", "mode": "odd"}, "known: nan"),
    ],
)
def test_a_wrong_fault_is_refused_with_what_would_be_right(server, wrong, named):
    answer = server.client.post(f"{server.root}/faults", json=wrong)

    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]


def test_a_fault_with_probability_strikes_about_so_often(server):
    server.order({"kind": "status", "status": 503, "probability": 0.3})
    body = {"model": "fake-embed", "input": "cats"}
    with httpx2.Client() as client:
        statuses = [
            client.post(f"{server.url}/embeddings", json=body).status_code for _ in range(100)
        ]

    assert 15 <= statuses.count(503) <= 45


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_with_a_stream_open(start, number):
    served = start()
    body = {
        "model": "fake-chat",
        "messages": [{"role": "user", "content": "Go on."}],
        "max_tokens": 5_000,
        "ignore_eos": True,
        "stream": True,
    }
    with (
        httpx2.Client() as client,
        client.stream("POST", f"{served.url}/chat/completions", json=body) as answer,
    ):
        chunks = answer.iter_raw()
        next(chunks)
        os.kill(served.process.pid, number)
        with pytest.raises(httpx2.TransportError):
            for _ in chunks:
                pass
    assert served.process.wait(30) == 0  # The stream had a minute to go.


def test_small_embeddings_are_answered_quickly(start, wire_to):
    served = start("--speed", "1000", "--places", "64")
    wire = wire_to(served.url)
    request = EmbedRequest("fake-embed", ("a small text",))

    def seconds(act):
        started = time.monotonic()
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: act(), range(100)))
        return time.monotonic() - started

    embedding_s = min(seconds(lambda: wire.embed(request, deadline_s=60)) for _ in range(2))
    assert embedding_s < 8 * seconds(wire.models)  # A page that costs no more than being asked.


BEGUN = ({"role": "user", "content": "one two three four five six seven"},)


def test_an_answer_that_was_begun_is_gone_on_with_only_when_told(server):
    asked = {"model": "fake-chat", "max_tokens": 4}
    messages = [*BEGUN, {"role": "assistant", "content": "one two three"}]
    told = {"continue_final_message": True, "add_generation_prompt": False}
    answers = [
        post(server, "/chat/completions", messages=messages, **{**asked, **more}).json()
        for more in ({}, told, {**told, "max_tokens": 5})
    ]
    texts = [one["choices"][0]["message"]["content"] for one in answers]

    assert texts == ["one two three four", " four five six seven", " four five six seven one"]
    assert answers[1]["usage"]["completion_tokens"] == 4
    both = {"continue_final_message": True}
    refused = post(server, "/chat/completions", **asked, messages=messages, **both)
    assert (refused.status_code, "Cannot set both" in refused.text) == (400, True)


def test_an_answer_that_was_whole_is_gone_on_with_by_nothing(server, wire_to):
    whole = " ".join(["one two three four five six seven"] * 3)
    messages = (Message("user", whole), Message("assistant", whole))
    reply = wire_to(server.url).chat(
        ChatRequest("fake-chat", messages, 30, goes_on=True), deadline_s=10
    )

    assert (reply.text, reply.finish_reason, reply.usage.completion_tokens) == ("", "stop", 0)
    assert not reply.usage.rough


def test_tokens_are_told_with_every_piece_where_that_is_asked(server, wire_to):
    wire, so_far = wire_to(server.url), SoFar()
    told: list[int] = []
    asked = replace(a_chat(8), counts=True)
    wire.chat(
        asked,
        deadline_s=10,
        on_text=lambda _: told.append(so_far.usage(asked).completion_tokens),
        so_far=so_far,
    )

    assert told == list(range(1, 9))
    assert so_far.usage(asked).prompt_tokens == 10
    assert not so_far.usage(asked).rough
