"""People's reserve while primaries are away: what batch may have of the places that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.domain.routing import HEALTHY, PRIMARY, EndpointHealth, EndpointSpec
from app.domain.throttle.values import Bounds


def primary_places(
    specs: Sequence[EndpointSpec], health: Mapping[str, EndpointHealth]
) -> tuple[int, int]:
    """Places of the primaries that get work (one of each that has yet to show that it is back), and
    those that are out of service."""
    primaries = [spec for spec in specs if spec.role == PRIMARY]
    places = sum(
        places_of(spec.max_concurrency, health.get(spec.name, HEALTHY)) for spec in primaries
    )
    return places, sum(spec.max_concurrency for spec in primaries) - places


def with_reserve(limit: int, places: int, away: int, bounds: Bounds) -> int:
    """`limit`, or less where `away` places of primaries are out of service and so few are left that
    people would find none free.

    Where none is left, batch may be at backups, whose places are their own.
    """
    if not away or not 0 < places < bounds.total:
        return limit
    return min(limit, max(bounds.floor, places - bounds.reserve))


def places_of(most: int, health: EndpointHealth) -> int:
    """Requests that an endpoint of `most` places takes at a time, as it stands."""
    if not health.in_service:
        return 0
    return 1 if health.on_trial else most
