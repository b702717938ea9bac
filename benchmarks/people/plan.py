"""What is run: each contender's legs, as values."""

from __future__ import annotations

from dataclasses import dataclass

DIRECT, CELERY, GIVEWAY, LANE = "direct", "celery", "giveway", "lane"
CONTENDERS = (DIRECT, CELERY, GIVEWAY, LANE)
WARM_UP_S = 2.0
"""People come at the same rate before each leg, and are not counted."""


@dataclass(frozen=True, slots=True)
class Leg:
    """So many requests a second for so long, at such a distance of the database.

    `distance_ms` is the round trip that the proxy is set to; None: no proxy at all. `busy`: another
    process of the same priority works on every core meanwhile.
    """

    contender: str
    rps: float
    seconds: float
    distance_ms: float | None = None
    busy: bool = False

    @property
    def needs_proxy(self) -> bool:
        """Whether the database stands behind the proxy."""
        return self.distance_ms is not None


def full(contenders: tuple[str, ...] = CONTENDERS) -> list[Leg]:
    """All of it: rates at no distance, distances, a busy machine."""
    legs = [Leg(one, rps, 15.0) for one in contenders for rps in (10, 20, 50, 100, 150)]
    with_database = [one for one in contenders if one in (GIVEWAY, LANE)]
    for one in with_database:
        legs += [Leg(one, 100, 15.0, 0.0), Leg(one, 50, 15.0, 2.5), Leg(one, 50, 15.0, 5.0)]
        legs += [Leg(one, 100, 60.0, 5.0)]
    legs += [Leg(one, 300, 15.0) for one in contenders if one in (DIRECT, LANE)]
    legs += [Leg(one, 30, 60.0, busy=True) for one in contenders]
    return _together(legs)


def quick(contenders: tuple[str, ...] = CONTENDERS) -> list[Leg]:
    """Under a minute, to see that it works: figures of such short legs say little."""
    legs = [Leg(one, rps, 3.0) for one in contenders for rps in (20, 50)]
    legs += [Leg(one, 50, 3.0, 2.5) for one in contenders if one == GIVEWAY]
    return _together(legs)


def _together(legs: list[Leg]) -> list[Leg]:
    """A contender is started once beside the database, and once with the proxy before it."""
    return sorted(legs, key=lambda leg: (CONTENDERS.index(leg.contender), leg.needs_proxy))
