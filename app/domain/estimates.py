"""What a job will take, before it is there: tokens, time and money, each with what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import pricing
from app.domain.routing import EndpointSpec

FEWEST_CALLS = 5
"""Fewer recent calls than this say nothing about the next ones."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and in words what it rests on. None: it is not known, and the words say why."""

    value: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class Pace:
    """Recent calls of one kind of job and model, added up. `seconds` is the time of all of them."""

    calls: int
    items: int
    seconds: float
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be sent: items, the calls they make, and their tokens. `together`: many items
    share a call, so that a call's time goes with its tokens."""

    items: int
    calls: int
    prompt_tokens: int
    together: bool


def completion_tokens(work: Work, pace: Pace | None, most: int | None) -> Figure:
    """Tokens of the answers. `most` is what the job allows an answer; None: it says nothing."""
    if work.together:
        return Figure(0, "vectors are no tokens")
    if pace is not None and pace.calls >= FEWEST_CALLS:
        mean = pace.completion_tokens / pace.calls
        basis = f"{mean:,.0f} an answer, as in the last {pace.calls:,} calls of such jobs"
        return Figure(round(mean * work.calls), basis)
    if most is not None:
        return Figure(most * work.calls, f"at most: {most:,} an answer")
    return Figure(None, "unknown: no recent calls of such jobs")


def seconds(work: Work, pace: Pace | None, places: int) -> Figure:
    """Time at `places` requests in flight, at the pace of recent calls."""
    if work.calls == 0:
        return Figure(0.0, "nothing is to be sent")
    if pace is None or pace.calls < FEWEST_CALLS:
        return Figure(None, "unknown: no recent calls of this model by such jobs")
    if work.together and pace.prompt_tokens:
        busy_s = pace.seconds / pace.prompt_tokens * work.prompt_tokens
    else:
        busy_s = pace.seconds / pace.calls * work.calls
    at = f"{places} place{'s' * (places != 1)}"
    basis = f"at {at}, at the pace of the last {pace.calls:,} calls; people come first"
    return Figure(busy_s / places, basis)


def money(work: Work, answers: Figure, specs: Sequence[EndpointSpec]) -> Figure:
    """What the calls cost at the dearest of the endpoints that may answer."""
    priced = [spec for spec in specs if spec.input_price or spec.output_price]
    if not priced:
        return Figure(None, "unknown: no endpoint of this model has a price")
    outgoing = int(answers.value or 0)
    dearest = max(priced, key=lambda s: pricing.money(s, work.prompt_tokens, outgoing))
    basis = f"by the prices of endpoint {dearest.name!r}"
    if answers.value is None:
        basis += ", answers left out"
    return Figure(pricing.money(dearest, work.prompt_tokens, outgoing), basis)
