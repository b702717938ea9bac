"""Faults to order: what goes wrong, how often, and on which path.

status       answer `status` with `retry_after` (any text) as Retry-After, `code`, `message`
delay        wait `delay_s` before the request reaches the engine
hang         never answer
drop         close the connection in the middle of the reply
vectors      spoil the vectors: `mode` is nan, short, shuffled, doubled, wrong_dim or zero
bad_json     answer 200 with half a JSON document
drip         answer one byte every `delay_s`
reject_text  answer 400 to a request with `text` in any input, without saying which
             (any other fault with a `text` strikes only such requests, too)
slow         every step of the engine lasts `factor` times as long
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from app import errors

Kind = Literal[
    "status", "delay", "hang", "drop", "vectors", "bad_json", "drip", "reject_text", "slow"
]
Path = Literal["chat", "embeddings", "any"]
Mode = Literal["nan", "short", "shuffled", "doubled", "wrong_dim", "zero"]


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One fault. It strikes with `probability`, at most `remaining` times (None: no end)."""

    kind: Kind
    path: Path = "any"
    probability: float = 1.0
    remaining: int | None = None
    status: int = 500
    retry_after: str | None = None
    code: str | None = None
    message: str | None = None
    delay_s: float = 0.05
    mode: Mode = "nan"
    text: str = ""
    factor: float = 1.0


_NAMES = {field.name for field in dataclasses.fields(Fault)}
_CHOICES = {"kind": get_args(Kind), "path": get_args(Path), "mode": get_args(Mode)}


def fault(value: object) -> Fault:
    """A fault from JSON. Raises BadParams, naming what is known."""
    if not isinstance(value, Mapping) or "kind" not in value:
        raise errors.BadParams("a fault is a JSON object with a `kind`")
    for name, chosen in value.items():
        if name not in _NAMES:
            raise errors.BadParams(f"no field {name!r}; known: {', '.join(sorted(_NAMES))}")
        if name in _CHOICES and chosen not in _CHOICES[name]:
            raise errors.BadParams(f"no {name} {chosen!r}; known: {', '.join(_CHOICES[name])}")
    made = Fault(**value)
    for name in ("probability", "remaining", "status", "delay_s", "factor"):
        number = getattr(made, name)
        if number is not None and not (isinstance(number, int | float) and number >= 0):
            raise errors.BadParams(f"{name} must be a number of at least 0, not {number!r}")
    if made.kind == "reject_text" and not made.text:
        raise errors.BadParams("reject_text needs `text`")
    return made


class Faults:
    """The faults in force, in the order in which they were set."""

    def __init__(self, seed: int, first: Iterable[Fault] = ()) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self._faults: list[Fault] = list(first)

    def add(self, faults: Iterable[Fault]) -> None:
        """Put more in force."""
        self._faults.extend(faults)

    def clear(self) -> None:
        """Put none in force."""
        self._faults.clear()

    def shown(self) -> list[dict[str, Any]]:
        """All in force, as JSON; `remaining` counts down."""
        return [dataclasses.asdict(one) for one in self._faults]

    def slowness(self) -> float:
        """By how much every step is stretched now."""
        product = 1.0
        for one in self._faults:
            if one.kind == "slow":
                product *= one.factor
        return product

    def struck(self, path: Path, texts: Sequence[str]) -> list[Fault]:
        """The faults that hit one request on `path` with `texts`; each that hits is used up."""
        hits = []
        for at, one in enumerate(self._faults):
            if not self._hits(one, path, texts):
                continue
            hits.append(one)
            if one.remaining is not None:
                self._faults[at] = dataclasses.replace(one, remaining=one.remaining - 1)
        return hits

    def _hits(self, one: Fault, path: Path, texts: Sequence[str]) -> bool:
        if one.kind == "slow" or one.path not in ("any", path) or one.remaining == 0:
            return False
        if one.kind == "vectors" and path != "embeddings":
            return False
        if one.text and not any(one.text in text for text in texts):
            return False
        return self._chance.random() < one.probability
