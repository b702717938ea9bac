"""`giveway endpoints`: servers seen, added, tried, drained and removed while everything runs."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from app.inference.trying import versioned
from tests.commands import done, giveway
from tests.rig import Rig
from tests.scripted import Says, scripted
from tests.served import Served


def listed(name: str) -> dict[str, Any]:
    found = {one["name"]: one for one in done("endpoints", "list")["endpoints"]}
    return found[name]


def test_the_list_shows_state_places_and_what_was_done(stack: Rig) -> None:
    stack.work(stack.submit([f"text {n}" for n in range(100)]).job.id)
    (one,) = done("endpoints", "list")["endpoints"]

    assert (one["name"], one["state"], one["role"]) == ("sim", "ok", "primary")
    assert one["added"] is False
    assert (one["finished"], one["failed"], one["failure_rate"]) == (10, 0, 0.0)
    assert one["mean_ms"] > 0
    assert one["running"] == 0
    said = giveway("endpoints", "list").out
    assert said.splitlines()[0].split()[:6] == ["NAME", "POOL", "KIND", "ROLE", "STATE", "RUNNING"]


def test_one_that_is_added_serves_a_model_of_its_own_until_it_is_removed(
    stack: Rig, endpoint: Served
) -> None:
    told = done(
        *("endpoints", "add", "late", "--url", endpoint.url, "--model", "fake-embed,extra"),
        *("--set", "requests_per_minute=60"),
    )
    assert told == {"endpoint": "late", "pool": "main", "state": "added", "running": 0}
    assert listed("late")["models"] == ["fake-embed", "extra"]
    assert listed("late")["added"] is True

    assert done("endpoints", "drain", "late")["state"] == "draining"
    assert listed("late")["declared"]["requests_per_minute"] == 60
    assert listed("sim")["declared"]["requests_per_minute"] is None
    assert listed("late")["state"] == "draining"
    assert done("endpoints", "undrain", "late")["state"] == "undrained"
    assert done("endpoints", "remove", "late")["state"] == "removed"
    ran = giveway("endpoints", "drain", "late")
    assert (ran.code, "no endpoint 'late'; known: " in ran.err) == (2, True)


def test_one_that_is_added_has_limits_of_its_models(stack: Rig, endpoint: Served) -> None:
    done(
        *("endpoints", "add", "late", "--url", endpoint.url, "--model", "fake-embed,qwen:8b"),
        *("--limit", "fake-embed:max_batch_items=4,max_input_tokens=512"),
        *("--limit", "qwen:8b:max_batch_tokens=9000", "--limit", "fake-embed:max_batch_items=3"),
    )
    none = {"max_batch_items": None, "max_batch_tokens": None, "max_input_tokens": None}
    assert listed("late")["declared"]["limits"] == [
        {"model": "fake-embed"} | none | {"max_batch_items": 3, "max_input_tokens": 512},
        {"model": "qwen:8b"} | none | {"max_batch_tokens": 9000},
    ]
    done("endpoints", "drain", "sim")
    job = stack.work(stack.submit([f"text {n}" for n in range(10)]).job.id)
    assert (job.state, endpoint.ledger()["requests"]) == ("completed", 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--url", "gpu-b:8000"), "base_url: must be an address such as http://"),
        (("--url", "http://me:secret@gpu-b/v1"), "base_url: must hold no password"),
        (("--kind", "vlm"), "kind: "),
        (("--role", "spare"), "role: "),
        (("--api-key-env", "sk-12 34"), "api_key_env: "),
        (("--stands-in-for", "big"), "stands_in_for is for role = "),
        (("--pool", "x"), "no pool 'x'; known: main"),
        (("--set", "colour=red"), "colour: "),
        (("--set", "colour"), "--set takes KEY=VALUE"),
        (("--limit", "max_batch_items=3"), "--limit takes MODEL:KEY=VALUE"),
        (("--limit", "m:max_batch_items"), "--limit takes MODEL:KEY=VALUE"),
        (("--limit", "m:colour=3"), "colour: "),
        (("--limit", "m:max_batch_items=none"), "max_batch_items: "),
        (("--limit", "other:max_batch_items=3"), "limits are for model 'other'"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(
    stack: Rig, arguments: tuple[str, ...], said: str
) -> None:
    base = {"--url": "http://127.0.0.1:9/v1", "--model": "m"}
    given = [word for pair in base.items() if pair[0] not in arguments for word in pair]
    ran = giveway("endpoints", "add", "late", *given, *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "secret" not in ran.err
    assert "sk-12" not in ran.err
    assert stack.one("SELECT count(*) FROM endpoints WHERE added IS NOT NULL") == 0


def test_a_key_that_is_not_set_here_is_pointed_out(stack: Rig, endpoint: Served) -> None:
    ran = giveway(
        *("endpoints", "add", "late", "--url", endpoint.url, "--model", "m"),
        *("--api-key-env", "NO_SUCH_KEY", "--set", "requests_per_minute=60"),
    )
    assert ran.code == 0
    assert "NO_SUCH_KEY is not set here" in ran.err
    assert stack.wiring.endpoints.one("late").requests_per_minute == 60


def test_a_good_endpoint_passes_every_check(stack: Rig, endpoint: Served) -> None:
    found = done("endpoints", "test", "--url", endpoint.url, "--kind", "simulated")

    assert found["ok"] is True
    assert [one["name"] for one in found["checks"]] == [
        *("reachable", "models", "chat, fake-chat", "streaming, fake-chat", "going on, fake-chat"),
        *("embedding, fake-embed", "batch, fake-embed", "base64, fake-embed"),
        "usage, fake-embed",
    ]
    assert all(one["ok"] for one in found["checks"])
    assert giveway("endpoints", "test", "--url", endpoint.url).out.startswith("ok      reachable: ")


def test_one_that_begins_an_answer_anew_works_but_not_for_resuming(stack: Rig) -> None:
    text = "A river begins where water comes out of the ground, and it ends in the sea. " * 2
    message = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    with scripted(lambda _: Says(body={"choices": [message]})) as server:
        found = done("endpoints", "test", "--url", server.url, "--kind", "ollama")

    wrong = {one["name"]: one["detail"] for one in found["checks"] if not one["ok"]}
    assert found["ok"] is True
    assert "leave --resume-streamed out" in wrong["going on, fake-chat"]
    assert server.asked[-1]["messages"][-1]["role"] == "assistant"


def test_a_declared_one_is_tried_by_name_before_any_stack_runs(
    endpoint: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    declared = {"name": "gpu-a", "base_url": endpoint.url, "models": ["fake-chat"]}
    Path("giveway.toml").write_text(
        "[[endpoints]]\n" + "".join(f"{key} = {json.dumps(declared[key])}\n" for key in declared)
    )

    assert done("endpoints", "test", "gpu-a")["ok"] is True


@pytest.mark.parametrize("mode", ["nan", "short"])
def test_one_that_spoils_vectors_fails_its_test(stack: Rig, endpoint: Served, mode: str) -> None:
    endpoint.order({"kind": "vectors", "mode": mode})
    ran = giveway("endpoints", "test", "--url", endpoint.url, "--model", "fake-embed", "--json")

    assert ran.code == 1
    assert ran.document["ok"] is False
    wrong = {one["name"]: one["detail"] for one in ran.document["checks"] if not one["ok"]}
    assert wrong["embedding, fake-embed"].startswith("bad_reply: ")


def test_one_that_is_not_there_and_a_model_that_it_lacks_are_told(
    stack: Rig, endpoint: Served
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ran = giveway("endpoints", "test", "--url", f"http://127.0.0.1:{port}/v1", "--json")
    assert (ran.code, [one["name"] for one in ran.document["checks"]]) == (1, ["reachable"])

    ran = giveway("endpoints", "test", "--url", endpoint.url, "--model", "gone", "--json")
    assert ran.code == 1
    assert ran.document["checks"][1]["detail"].startswith("model_missing: not listed: gone; ")
    ran = giveway("endpoints", "test")
    assert (ran.code, "name an endpoint, or give its address" in ran.err) == (2, True)


def test_an_address_without_its_version_is_told_the_one_that_works(endpoint: Served) -> None:
    bare = endpoint.url.removesuffix("/v1")
    ran = giveway("endpoints", "test", "--url", bare, "--model", "fake-embed", "--json")
    last = ran.document["checks"][-1]

    assert ran.code == 1
    assert (last["name"], last["ok"]) == ("base_url", False)
    assert f"the server answers at {endpoint.url}: set base_url" in last["detail"]


def test_an_address_that_has_a_version_or_no_server_is_told_none() -> None:
    assert versioned("http://127.0.0.1:8000/v1") is None
    assert versioned("http://127.0.0.1:8000/compatible-mode/v1/") is None
    assert versioned("https://example.org/v1beta/openai") is None
    assert versioned("http://127.0.0.1:8000/") == "http://127.0.0.1:8000/v1"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ran = giveway("endpoints", "test", "--url", f"http://127.0.0.1:{port}", "--json")
    assert [check["name"] for check in ran.document["checks"]] == ["reachable"]
