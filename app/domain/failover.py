"""Failover of a person's request: where it may go now, and which errors send it on.

    primary ── fails, is unusable, or full past a bound ──► backup ── the same ──► degraded

Each endpoint is tried once at most. A bound is a quarter of the time that the request has from its
arrival to its deadline, and two seconds at most.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from app import errors
from app.domain.routing import (
    BACKUP,
    DEGRADED,
    PRIMARY,
    Choice,
    EndpointHealth,
    EndpointSpec,
    chosen,
    room,
    usable,
)

ROLES = (PRIMARY, BACKUP, DEGRADED)
_PATIENCE_S = 2.0
_PATIENCE_SHARE = 0.25
_AWAY_S = 15.0
_FIRST_TOKEN_S = 30.0
_FIRST_TOKEN_SHARE = 0.5


def patience_s(whole_s: float) -> float:
    """How long full endpoints of one role are waited for, of `whole_s` from arrival to deadline."""
    return min(_PATIENCE_S, _PATIENCE_SHARE * whole_s)


def away_s(whole_s: float) -> float:
    """How long a request waits while every endpoint that could answer it is out of service."""
    return min(_AWAY_S, _PATIENCE_SHARE * whole_s)


def first_token_s(left_s: float, *, elsewhere: bool) -> float | None:
    """How long a call's first token may take, `left_s` before the deadline; None: all of it.

    `elsewhere`: another endpoint is left to try, for which some time must remain.
    """
    return min(_FIRST_TOKEN_S, _FIRST_TOKEN_SHARE * left_s) if elsewhere else None


def moves_on(error: errors.EndpointError) -> bool:
    """Whether another endpoint may answer better; if not, the request itself is at fault."""
    match error:
        case errors.BadRequest() | errors.TooLong() | errors.ContentRefused() | errors.Abandoned():
            return False
        case _:
            return True


def roles_open(
    model: str,
    untried: Sequence[EndpointSpec],
    health: Mapping[str, EndpointHealth],
    waited_s: float,
    bound_s: float,
) -> tuple[str, ...]:
    """The roles that a request which has waited for `waited_s` may go to, best first."""
    opened: list[str] = []
    due_s = 0.0
    for role in ROLES:
        if waited_s < due_s:
            break
        opened.append(role)
        if usable(model, untried, health, role):
            due_s += bound_s
    return tuple(opened)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a request finds as it looks for a place, all of it counted at one moment.

    `free` are the places left of the pool's total, which is about primary endpoints: backup and
    degraded ones have capacity of their own. `ahead` are the requests that wait and come first, by
    the model that they want.
    """

    specs: Sequence[EndpointSpec]
    health: Mapping[str, EndpointHealth]
    in_flight: Mapping[str, int]
    free: int
    ahead: Mapping[str, int]


def place(model: str, scene: Scene, tried: Collection[str], roles: Sequence[str]) -> Choice | None:
    """The endpoint at which the request takes a place now; None: it must wait.

    Whoever comes first and could be served keeps their place. Those who wait for another model, all
    of whose endpoints are full or away, hold nobody up.
    """
    untried = [spec for spec in scene.specs if spec.name not in tried]
    others = sum(
        min(count, room(other, scene.specs, scene.health, scene.in_flight))
        for other, count in scene.ahead.items()
        if other != model
    )
    same = scene.ahead.get(model, 0)
    by_role = {
        role: room(model, untried, scene.health, scene.in_flight, role=role) for role in roles
    }
    if PRIMARY in by_role:
        by_role[PRIMARY] = max(0, min(by_role[PRIMARY], scene.free - others))
    for role, places in by_role.items():
        if same < places:
            return chosen(model, untried, scene.health, scene.in_flight, roles=(role,))
        same -= places
    return None


def nothing_left(
    model: str,
    specs: Sequence[EndpointSpec],
    health: Mapping[str, EndpointHealth],
    tried: Collection[str],
) -> bool:
    """Whether no untried endpoint could take the request as things stand."""
    untried = [spec for spec in specs if spec.name not in tried]
    return not any(usable(model, untried, health, role) for role in ROLES)
