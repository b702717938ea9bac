"""What goes wrong in a run, by name. Each lasts a minute; a step of the clock stays."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.errors import UnknownName
from app.simulation.setup import Fault

FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        fault.name: fault
        for fault in (
            Fault("blind", "no reading reaches the controller for 60 s", blind=True),
            Fault("gauges", "the endpoint's own metrics are gone for 60 s", gauges_gone=True),
            Fault("controller", "the controller is killed, and back after 60 s", silent=True),
            Fault("database", "the database is stopped for 60 s", database_gone=True),
            Fault("slow", "one endpoint of the pool is 3 times slower for 60 s", slow_engine=3.0),
            Fault("refusals", "429 over 24 requests in flight for 60 s", refuse_over=24),
            Fault("clock_on", "the clock jumps on by an hour", clock_step_s=3600.0),
            Fault("clock_back", "the clock jumps back by an hour", clock_step_s=-3600.0),
        )
    }
)


def fault(name: str) -> Fault:
    """The fault called `name`; UnknownName lists those there are."""
    try:
        return FAULTS[name]
    except KeyError:
        raise UnknownName("fault", name, list(FAULTS)) from None
