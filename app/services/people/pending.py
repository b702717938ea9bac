"""What is to be written of people's requests and has not been: it goes with the next group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app import clock
from app.domain.requests import RequestState
from app.services.people.tickets import Ticket
from app.storage.lane_store import End, Writes


@dataclass(frozen=True, slots=True)
class Tally:
    """What one request has of the tokens of a call, and of its money."""

    id: UUID
    prompt_tokens: int
    completion_tokens: int
    money: float
    rough: bool


class Pending:
    """Ends and first tokens that wait to be written, with their times on the monotonic clock."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, float | None, End]] = []
        self._firsts: dict[UUID, float] = {}
        self._answered: set[tuple[str, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._ends or self._firsts or self._answered)

    def begun(self, ticket: Ticket) -> None:
        """The first token of its answer came."""
        assert ticket.first_token_s is not None
        for one in ticket.requests:
            self._firsts[one.id] = ticket.first_token_s

    def well(self, endpoint: str, task: str) -> None:
        """The endpoint answered well: what it did before counts no more."""
        self._answered.add((endpoint, task))

    def done(self, ticket: Ticket, tallies: Sequence[Tally]) -> None:
        """It was answered."""
        for one in tallies:
            self._put(
                ticket.first_token_s,
                End(
                    one.id,
                    RequestState.DONE,
                    0.0,
                    prompt_tokens=one.prompt_tokens,
                    completion_tokens=one.completion_tokens,
                    money=one.money,
                    rough=one.rough,
                ),
            )

    def failed(self, ids: Sequence[UUID], code: str, first_s: float | None, *, sent: bool) -> None:
        """They ended with `code`; not `sent`: dropped unstarted."""
        state = RequestState.FAILED if sent else RequestState.DROPPED
        for one in ids:
            self._put(first_s, End(one, state, 0.0, error_code=code))

    def _put(self, first_s: float | None, end: End) -> None:
        self._firsts.pop(end.id, None)
        self._ends.append((clock.monotonic_s(), first_s, end))

    def take(self) -> Taken:
        """All of it, to be written now."""
        taken = Taken(self._ends, self._firsts, self._answered)
        self._ends, self._firsts, self._answered = [], {}, set()
        return taken

    def put_back(self, taken: Taken) -> None:
        """It could not be written."""
        self._ends = taken.ends + self._ends
        ended = {end.id for _, _, end in self._ends}
        self._firsts |= {one: s for one, s in taken.firsts.items() if one not in ended}
        self._answered |= taken.answered


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken out to be written."""

    ends: list[tuple[float, float | None, End]]
    firsts: dict[UUID, float]
    answered: set[tuple[str, str]]

    def writes(self) -> Writes:
        """The same by the moment at which it is sent."""
        now_s = clock.monotonic_s()
        return Writes(
            [
                End(
                    end.id,
                    end.state,
                    now_s - at_s,
                    None if first_s is None else now_s - first_s,
                    end.error_code,
                    end.prompt_tokens,
                    end.completion_tokens,
                    end.money,
                    end.rough,
                )
                for at_s, first_s, end in self.ends
            ],
            [(one, now_s - at_s) for one, at_s in self.firsts.items()],
            sorted(self.answered),
        )
