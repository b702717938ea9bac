"""How an event stands in the log."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from app.domain import events
from app.domain.events import Event, LimitMoved, Nobody, Several, columns_of, facts_of, type_of


class Why(StrEnum):
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class EndpointCooled(Event):
    endpoint: str
    pool: str
    why: Why
    for_s: float


COOLED = EndpointCooled("gpu-a", "main", Why.BUSY, 2.5)


def test_a_new_event_needs_nothing_but_its_class():
    assert type_of(COOLED) == "endpoint_cooled"
    assert columns_of(COOLED) == {"pool": "main", "endpoint": "gpu-a", "job_id": None}
    assert facts_of(COOLED) == {"why": "busy", "for_s": 2.5}


def test_every_event_there_is_can_be_written_down():
    known = [one for one in vars(events).values() if isinstance(one, type) and one is not Event]
    kinds = [one for one in known if issubclass(one, Event)]

    assert LimitMoved in kinds
    for kind in kinds:
        names = [field.name for field in fields(kind)]
        one = kind(*("x" for _ in names))
        assert type_of(one).replace("_", "").isalpha()
        assert set(facts_of(one)) | set(columns_of(one)) >= set(names)


def test_no_two_events_are_called_the_same():
    kinds = [one for one in vars(events).values() if isinstance(one, type)]
    names = [type_of(one.__new__(one)) for one in kinds if issubclass(one, Event)]

    assert len(names) == len(set(names))


def test_several_observers_see_all_of_it_in_order():
    seen: list[tuple[int, Event]] = []

    class Notes:
        def __init__(self, number: int) -> None:
            self.number = number

        def saw(self, event: Event) -> None:
            seen.append((self.number, event))

    Several(Notes(1), Nobody(), Notes(2)).saw(COOLED)

    assert seen == [(1, COOLED), (2, COOLED)]
