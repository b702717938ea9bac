"""A model that only an endpoint serves which was added while everything runs."""

from __future__ import annotations

import json
import os

import pytest

from tests.commands import done, giveway
from tests.integration.cli.conftest import Write
from tests.rig import Rig
from tests.served import Served


@pytest.fixture
def late(stack: Rig, endpoint: Served, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """The settings declare fake-embed alone; fake-chat is added, at a price."""
    (declared,) = json.loads(os.environ["GIVEWAY_ENDPOINTS"])
    monkeypatch.setenv("GIVEWAY_ENDPOINTS", json.dumps([{**declared, "models": ["fake-embed"]}]))
    prices = ("--set", "input_price=2.0", "--set", "output_price=10.0")
    done("endpoints", "add", "late", "--url", endpoint.url, "--model", "fake-chat", *prices)
    return stack


COMMANDS = (
    ("submit", "generate", "docs.jsonl", "--max-tokens", "8"),
    ("submit", "summarize", "docs.jsonl"),
    ("submit", "evaluate", "docs.jsonl", "--scorers", "exact", "--field", "expected=id"),
    (
        *("eval", "run", "docs.jsonl", "--expected-field", "id", "--scorer", "exact"),
        *("--max-tokens", "8", "--no-wait"),
    ),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_every_kind_of_job_is_taken_for_it(
    late: Rig, docs: Write, command: tuple[str, ...]
) -> None:
    docs(3)
    said = done(*command, "--model", "fake-chat", "--key", "k")
    assert said["key"] == "k"
    assert late.work(late.one("SELECT id FROM jobs")).state == "completed"
    assert late.endpoint.ledger()["requests"] >= 3


def test_one_that_nobody_serves_lists_those_added_too(late: Rig, docs: Write) -> None:
    docs(3)
    for command in COMMANDS:
        ran = giveway(*command, "--model", "gpt")
        assert (ran.code, "'gpt'; known: fake-chat, fake-embed" in ran.err) == (2, True), ran.err


def test_a_judge_may_be_one_and_an_estimate_knows_its_price(late: Rig, docs: Write) -> None:
    docs(10)
    judged = ("--scorer", "judge", "--option", "judge.model=fake-chat", "--no-wait")
    assert done("eval", "run", "docs.jsonl", "--output-field", "text", *judged)["n"] == 10
    said = done(*COMMANDS[0], "--model", "fake-chat", "--dry-run")
    assert said["money"] == pytest.approx((2.0 * said["prompt_tokens"] + 10.0 * 80) / 1e6)
    assert said["money_basis"] == "by the prices of endpoint 'late'"
