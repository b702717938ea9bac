"""Fitting: which records no endpoint could take, so that a job is not made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from app.domain.inference import texts_of
from app.domain.lengths import Longest, longest_of
from app.domain.results import Item, ItemResult
from app.domain.routing import EndpointSpec
from app.kinds.base import Call, Kind, ManySteps, OneCall, Params, models_of
from app.storage.sources.reading import Judge

_REPEATED = 4
"""A prompt of a template is taken to be at most so many times as long as its item: a payload that
is shorter than its share is not looked at. What is longer all the same, the server refuses."""


def judge_of(kind: Kind, params: Params, specs: Sequence[EndpointSpec]) -> Judge | None:
    """Refuses what none of `specs` takes, judged by the calls that an item begins with; None: there
    is nothing to judge by. What a kind cuts or splits itself is judged as it is sent."""
    rooms = {model: longest_of(model, specs) for model in models_of(kind, params)}
    known = {model: room for model, room in rooms.items() if room is not None}
    if not known:
        return None
    small = min(room.surely_fits_chars for room in known.values()) // _REPEATED

    def judge(payload: Mapping[str, Any]) -> str | None:
        if _chars(payload) <= small:
            return None
        for call in _first_calls(kind, params, payload):
            room: Longest | None = known.get(call.model)
            if room is not None and (why := room.excess(texts_of(call))) is not None:
                return f"too long: it makes {why}"
        return None

    return judge


def _chars(payload: Mapping[str, Any]) -> int:
    """Characters of `payload`; what is not text is counted as JSON."""
    return sum(
        len(value) if isinstance(value, str) else len(orjson.dumps(value))
        for value in payload.values()
    )


def _first_calls(kind: Kind, params: Params, payload: Mapping[str, Any]) -> Iterable[Call]:
    """What is asked about an item before any answer is there. A kind that fails on it fails later,
    on this item alone."""
    try:
        units = kind.prepare([Item(1, "1", dict(payload))], params).units
        match kind:
            case ManySteps():
                steps = [kind.step(unit.item, {}, params) for unit in units]
                return [
                    call
                    for step in steps
                    if not isinstance(step, ItemResult)
                    for call in step.by_name.values()
                ]
            case OneCall():
                return [kind.request([unit], params) for unit in units]
            case _:
                return []
    except Exception:  # noqa: BLE001 - whatever a kind of somebody's own raises
        return []
