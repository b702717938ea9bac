"""Replaying: a stored decision, made again from its stored arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain.throttle.decide import decide
from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, Decision, PolicySettings, State


@dataclass(frozen=True, slots=True)
class Arguments:
    """What `decide` was given."""

    state: State
    reading: Reading | None
    policy: PolicySettings
    bounds: Bounds
    now: datetime
    override: int | None
    deadline_places: int | None

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Arguments:
        """The arguments as `LimitStore.record` stored them."""
        reading = plain.get("reading")
        return cls(
            state=State.from_json(plain["state"]),
            reading=None if reading is None else Reading.from_json(reading),
            policy=PolicySettings.from_json(plain["policy"]),
            bounds=Bounds.from_json(plain["bounds"]),
            now=datetime.fromisoformat(plain["now"]),
            override=plain.get("override"),
            deadline_places=plain.get("deadline_places"),
        )


def replayed(arguments: Arguments) -> Decision:
    """The decision that these arguments lead to today."""
    return decide(
        arguments.state,
        arguments.reading,
        arguments.policy,
        arguments.bounds,
        arguments.now,
        override=arguments.override,
        deadline_places=arguments.deadline_places,
    )


def differences(
    arguments: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Where the replay of a stored decision is not what was stored: path → (stored, now).

    Empty: exactly the same. Compared as JSON, so that a NaN equals itself.
    """
    stored = _flat(Decision.from_json(result).to_json())
    now = _flat(replayed(Arguments.from_json(arguments)).to_json())
    return {
        name: (stored.get(name), now.get(name))
        for name in sorted(stored.keys() | now.keys())
        if stored.get(name) != now.get(name)
    }


def _flat(plain: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested members by their path: `state.capacity`."""
    found: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[before + name] = value
    return found
