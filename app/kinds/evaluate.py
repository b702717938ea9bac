"""evaluate: how good a model's answers are, or answers that are there already."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from app.domain.cleaning import is_blank
from app.domain.fingerprint import ContentHash
from app.domain.inference import ChatRequest, Message, rough_tokens
from app.domain.jobs import NO_MODEL
from app.domain.results import Item, ItemResult, Status
from app.errors import UnknownName
from app.extras import install_line
from app.kinds.base import Call, Calls, Params, Prepared, Unit
from app.kinds.scorers.base import (
    NO_EXPECTED,
    Asking,
    Case,
    Local,
    Options,
    Score,
    State,
    said,
    unscored,
)
from app.kinds.scorers.registry import missing, scorer
from app.kinds.templating import checked_template, fields_of, names_no_field, rendered

EXPECTED, OUTPUT = "expected", "output"
"""Fields of an item: what the answer should be, and an answer that is there already."""
SCORER_FAULT = "scorer_fault"
NO_OUTPUT = "no_output"


class EvaluateParams(Params):
    """An item's text is the question and its field `expected` what the answer should be.

    With the model `none` nothing is asked: the answers are the items' field `output`.
    """

    model: str = NO_MODEL
    """The model under test; none: the answers are given."""
    prompt: str = "{{ text }}"
    """Template of what is asked about an item."""
    system: str | None = None
    """What the model is told before every prompt."""
    max_tokens: Annotated[int, Field(ge=1)] = 512
    """Longest answer, in tokens."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Chance in the answers, from 0 to 2."""
    repeats: Annotated[int, Field(ge=1, le=100)] = 1
    """Answers an item; several show how much they differ. Each has a seed of its own."""
    scorers: Annotated[tuple[str, ...], Field(min_length=1)]
    """How answers are scored."""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of scorers, by scorer."""

    @field_validator("prompt")
    @classmethod
    def _is_a_template(cls, prompt: str) -> str:
        return checked_template(prompt)

    @model_validator(mode="after")
    def _can_be_scored(self) -> Self:
        if self.model == NO_MODEL and self.repeats > 1:
            raise ValueError("given answers cannot be repeated: each item has one")
        if stray := self.options.keys() - set(self.scorers):
            raise ValueError(f"options for {', '.join(sorted(stray))}, which is not a scorer here")
        if len(set(self.scorers)) < len(self.scorers):
            raise ValueError("a scorer is named twice")
        for name in self.scorers:
            self.of(name)
        return self

    def of(self, name: str) -> Options:
        """The options of a scorer. ValueError: it does not exist, lacks a package, or refuses."""
        try:
            one = scorer(name)
        except UnknownName as error:
            raise ValueError(str(error)) from None
        if lacking := missing(one):
            raise ValueError(
                f"scorer {name} needs {', '.join(lacking)}; "
                f"install it with: {install_line('evaluate')}"
            )
        try:
            return one.options.model_validate(self.options.get(name, {}))
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or name}: {fault['msg']}"
                for fault in error.errors(include_input=False, include_url=False)
            )
            known = ", ".join(f.alias or n for n, f in one.options.model_fields.items()) or "none"
            raise ValueError(f"options of {name}: {faults}; known options: {known}") from None


@dataclass(frozen=True, slots=True)
class Evaluate:
    """The kind."""

    name: str = "evaluate"
    params: type[Params] = EvaluateParams
    together: bool = False

    def collection(self, params: EvaluateParams) -> None:  # noqa: ARG002
        """It makes no vectors."""
        return

    def models(self, params: EvaluateParams) -> tuple[str, ...]:
        """The model under test, if there is one, and those that scorers ask."""
        asked = [
            model
            for name in params.scorers
            if isinstance(one := scorer(name), Asking)
            for model in one.models(params.of(name))
        ]
        return (*(() if params.model == NO_MODEL else (params.model,)), *asked)

    def fields(self, params: EvaluateParams) -> dict[str, bool]:
        """The answers, where they are given; those that the prompt names, where not; and what the
        answers should be, without which some scorers have no score for any item."""
        given = params.model == NO_MODEL
        named = {OUTPUT} if given else fields_of(params.prompt) - {"text"}
        must = any(_compares(name, params) for name in params.scorers)
        return {EXPECTED: must} | dict.fromkeys(sorted(named), True)

    def warning(self, params: EvaluateParams) -> str | None:
        """A prompt that is the same for all items."""
        return None if params.model == NO_MODEL else names_no_field(params.prompt)

    def prepare(self, items: Sequence[Item], params: EvaluateParams) -> Prepared:
        """Each item's prompt, or its given answer; what has neither ends here."""
        hashes = ContentHash(params.model_dump(mode="json"))
        given = params.model == NO_MODEL
        units: list[Unit] = []
        results: list[ItemResult] = []
        for item in items:
            made = _given(item) if given else _prompt(item, params)
            if isinstance(made, ItemResult):
                results.append(made)
            else:
                tokens = 0 if given else rough_tokens(made) * params.repeats
                units.append(Unit(item, made, tokens, hashes.of(made)))
        return Prepared(units, results)

    def step(
        self, item: Item, done: Mapping[str, Any], params: EvaluateParams
    ) -> Calls | ItemResult:
        """First the answers, then what scorers ask about them, then the scores."""
        answers = _answers(item, done, params)
        if isinstance(answers, Calls):
            return answers
        cases = [Case(_question(item), one, item.payload.get(EXPECTED)) for one in answers]
        asked = {
            f"{name}:{number}:{call}": request
            for name in params.scorers
            if isinstance(one := scorer(name), Asking)
            for number, case in enumerate(cases, start=1)
            for call, request in one.ask(case, params.of(name)).items()
        }
        if not done.keys() >= asked.keys():
            return Calls(asked)
        scores = {
            name: [
                _score(name, number, case, done, params).to_json()
                for number, case in enumerate(cases, start=1)
            ]
            for name in params.scorers
        }
        output = {"answers": answers, "scores": scores}
        return ItemResult(item.seq, Status.DONE, code=_no_verdict(scores), output=output)


def _compares(name: str, params: EvaluateParams) -> bool:
    """Whether the scorer says of an answer without an expected one that it lacks that."""
    one, options, case = scorer(name), params.of(name), Case("", "")
    try:
        if isinstance(one, Asking):
            asks = bool(one.ask(case, options))
            return not asks and one.read(case, {}, options).code == NO_EXPECTED
        return isinstance(one, Local) and one.score(case, options).code == NO_EXPECTED
    except Exception:  # noqa: BLE001 - a scorer that breaks says so for each item
        return False


def _no_verdict(scores: Mapping[str, Sequence[Mapping[str, Any]]]) -> str | None:
    """The code of the first metric that has no score since its judge gave none; None: all have."""
    for marks in scores.values():
        invalid = [one["code"] for one in marks if one.get("state") == State.JUDGE_INVALID]
        if invalid and not any("value" in one for one in marks):
            return str(invalid[0])
    return None


def _question(item: Item) -> str:
    return said(item.payload.get("text", ""))


def _given(item: Item) -> str | ItemResult:
    output = item.payload.get(OUTPUT)
    if output is None:
        return ItemResult(item.seq, Status.FAILED, code=NO_OUTPUT, error="the item has no answer")
    return said(output)


def _prompt(item: Item, params: EvaluateParams) -> str | ItemResult:
    if is_blank(_question(item)):
        return ItemResult(item.seq, Status.EMPTY, code="empty")
    try:
        return rendered(params.prompt, item.payload)
    except ValueError as error:
        return ItemResult(item.seq, Status.FAILED, code="template", error=str(error))


def _answers(item: Item, done: Mapping[str, Any], params: EvaluateParams) -> list[str] | Calls:
    if params.model == NO_MODEL:
        return [said(item.payload[OUTPUT])]
    names = [f"answer:{number}" for number in range(1, params.repeats + 1)]
    if done.keys() >= set(names):
        return [done[name]["text"] for name in names]
    system = (Message("system", params.system),) if params.system else ()
    messages = (*system, Message("user", rendered(params.prompt, item.payload)))
    calls: dict[str, Call] = {
        name: ChatRequest(
            params.model,
            messages,
            params.max_tokens,
            params.temperature,
            seed=number if params.repeats > 1 else None,
        )
        for number, name in enumerate(names, start=1)
    }
    return Calls(calls)


def _score(
    name: str, number: int, case: Case, done: Mapping[str, Any], params: EvaluateParams
) -> Score:
    """One answer's score; a scorer that breaks on it gives a state, and no more than that."""
    one, options = scorer(name), params.of(name)
    try:
        if isinstance(one, Asking):
            names = one.ask(case, options)
            score = one.read(case, {n: done[f"{name}:{number}:{n}"] for n in names}, options)
        else:
            assert isinstance(one, Local)
            score = one.score(case, options)
    except Exception:  # noqa: BLE001 - what it says may hold the answer's text
        return unscored(SCORER_FAULT)
    if score.value is not None and not math.isfinite(score.value):
        return unscored("not_a_number")
    return score if score.state is not State.SCORED or score.value is not None else unscored("none")


KIND = Evaluate()
