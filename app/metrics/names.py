"""The names of what Prometheus reads. No label is a job, a key, a user or a tenant.

Times are in seconds, as Prometheus wants them. A pool's people are those of the last `window_s`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge: its name, what it means, and its labels in their order."""

    name: str
    about: str
    labels: tuple[str, ...] = ("pool",)


LIMIT = Metric("giveway_limit", "Batch requests that may be in flight now.")
TOTAL = Metric("giveway_places", "Requests that may be in flight, both classes together.")
PRESSURE = Metric("giveway_pressure", "How people fare: 1 is on target; absent: not decided.")
IN_FLIGHT = Metric("giveway_in_flight", "Requests in flight.", ("pool", "class"))
WAITING = Metric("giveway_people_waiting", "Interactive requests without a place.")
BACKLOG_ITEMS = Metric("giveway_backlog_items", "Items of jobs that may run, without a result.")
BACKLOG = Metric("giveway_backlog_requests", "Requests that it takes to do the backlog.")
OLDEST_WAIT = Metric(
    "giveway_oldest_wait_seconds", "How long the one that waits longest has.", ("pool", "class")
)
LATENCY = Metric(
    "giveway_people_latency_seconds",
    "What people waited in the window; part is queue, first_token or whole.",
    ("pool", "part", "quantile"),
)
ON_TARGET = Metric("giveway_people_on_target_ratio", "Share on target in the window.")
PEOPLE = Metric("giveway_people_requests", "Interactive requests that ended in the window.")
PEOPLE_FAILED = Metric("giveway_people_failed", "Those of them that failed.")
WANTED = Metric("giveway_scale_wanted", "Endpoints that automatic scaling wants.")
ENDPOINT_STATE = Metric(
    "giveway_endpoint_state",
    "1 for the state an endpoint is in: ready, slow, cooling, half_open, open or draining.",
    ("pool", "endpoint", "state"),
)
ENDPOINT_PLACES = Metric(
    "giveway_endpoint_places", "Requests that it takes at once.", ("pool", "endpoint")
)
ENDPOINT_IN_FLIGHT = Metric(
    "giveway_endpoint_in_flight", "Requests in flight there.", ("pool", "endpoint", "class")
)
ALL = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
