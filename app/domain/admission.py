"""Admission: who of those that wait for a place gets one now, and at which endpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from app.domain.failover import Scene, place
from app.domain.routing import PRIMARY, Choice


@dataclass(frozen=True, slots=True)
class Waits:
    """One who waits: the model wanted, the endpoints tried already, and the roles that are open."""

    model: str
    tried: Collection[str]
    roles: Sequence[str]


def admitted(
    line: Iterable[tuple[UUID, str]], own: Mapping[UUID, Waits], scene: Scene
) -> dict[UUID, Choice]:
    """The places of those in `own` who get one now.

    `line` is everybody who waits, in order, as (call, model); a call that is there twice counts
    where it comes first. Who is not in `own` is somebody else's to admit, and keeps their place:
    nobody behind them takes what they could have.
    """
    given: dict[UUID, Choice] = {}
    ahead: Counter[str] = Counter()
    in_flight, free = dict(scene.in_flight), scene.free
    seen: set[UUID] = set()
    hopeless: set[tuple[str, frozenset[str], tuple[str, ...]]] = set()
    for call, model in line:
        if call in seen:
            continue
        seen.add(call)
        one, choice = own.get(call), None
        if one is not None:
            # Places only become fewer on the way down the line.
            kind = (one.model, frozenset(one.tried), tuple(one.roles))
            if kind not in hopeless:
                now = replace(scene, in_flight=in_flight, free=free, ahead=ahead)
                choice = place(one.model, now, one.tried, one.roles)
            if choice is None:
                hopeless.add(kind)
        if choice is None:
            ahead[model] += 1
            continue
        given[call] = choice
        name = choice.spec.name
        in_flight[name] = in_flight.get(name, 0) + 1
        free -= choice.role == PRIMARY
    return given
