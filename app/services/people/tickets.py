"""A ticket: a call of people's on its way through the lane, and the time it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest
from app.domain.requests import NewRequest
from app.domain.routing import DEGRADED, Choice
from app.inference.cancel import Cancel

Asked = ChatRequest | EmbedRequest
Reply = ChatReply | EmbedReply


@dataclass(frozen=True, slots=True)
class Window:
    """A request's time, on the monotonic clock: when it came, until when a call may start, and
    until when its answer is wanted."""

    came_s: float
    start_by_s: float
    answer_by_s: float

    @property
    def whole_s(self) -> float:
        """From its arrival to its deadline."""
        return self.answer_by_s - self.came_s


def window(
    request: NewRequest, now: datetime, now_s: float, deadline_s: float, call_timeout_s: float
) -> Window:
    """The window of a request that comes now. Its own deadline only ever makes it shorter."""
    longest_s = deadline_s + call_timeout_s
    if request.deadline_at is not None:
        longest_s = min(longest_s, (request.deadline_at - now).total_seconds())
    return Window(now_s, now_s + min(deadline_s, longest_s), now_s + longest_s)


class Ticket:
    """One call. It stands for one request, or for several that whoever holds it put together.

    `gone` is set once nobody waits for it: it then goes nowhere, and a call in flight is closed.
    Used by the lane's loop alone.
    """

    def __init__(
        self,
        requests: Sequence[NewRequest],
        asked: Asked,
        own: Window,
        call: UUID | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        first = requests[0]
        self.requests = list(requests)
        self.asked = asked
        self.window = own
        self.call = call or first.id
        """What counts as one in the line and in flight."""
        self.on_text = on_text
        self.pool, self.model, self.task_type = first.pool, first.model, first.task_type
        self.gone = Cancel()
        self.leavers: Callable[[UUID], None] | None = None
        """Told of each request that nobody waits for any more."""
        self.recorded = False
        """Whether its rows are there, as far as is known."""
        self.sent_to_database = False
        """Whether its rows may be there."""
        self.tried: set[str] = set()
        """Endpoints that were asked."""
        self.failed: errors.EndpointError | None = None
        """How the last of them failed."""
        self.elsewhere = False
        """Whether another endpoint could be asked, should the call fail."""
        self.sent_s: float | None = None
        """When the first call began; None: nothing was sent yet."""
        self.first_token_s: float | None = None

    @property
    def is_late(self) -> bool:
        """Whether no call may start any more."""
        return clock.monotonic_s() >= self.window.start_by_s

    @property
    def waited_s(self) -> float:
        """Since it came."""
        return max(0.0, clock.monotonic_s() - self.window.came_s)

    def leave(self, request_id: UUID) -> None:
        """Nobody waits for this request any more; when nobody does for any, the call is off."""
        if len(self.requests) > 1:
            self.requests = [one for one in self.requests if one.id != request_id]
        elif self.requests[0].id == request_id:
            self.gone.set()
        if self.leavers is not None:
            self.leavers(request_id)

    def why_not(self) -> errors.EndpointError | None:
        """Why no call may start any more; None: one may."""
        unsent = self.sent_s is None
        if self.gone.is_set():
            told = "its caller is gone"
            return errors.Abandoned(
                f"{told}; the request was dropped unstarted" if unsent else told
            )
        if not self.is_late:
            return None
        if self.failed is not None:
            return self.failed
        return errors.EndpointTimeout(
            f"no place in pool {self.pool!r} within {self.waited_s:.3g} s, when its deadline "
            "passed; the request was dropped unstarted"
        )


@dataclass(frozen=True, slots=True)
class Served:
    """The reply and where it came from; monotonic seconds of the call's start and first token."""

    reply: Reply
    choice: Choice
    sent_s: float
    first_token_s: float | None


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply and where it came from, with times in milliseconds since submission."""

    reply: Reply
    choice: Choice
    queue_ms: float
    first_token_ms: float | None
    total_ms: float

    @property
    def endpoint(self) -> str:
        """Who answered."""
        return self.choice.spec.name

    @property
    def degraded(self) -> bool:
        """Whether a degraded endpoint answered, maybe with another model."""
        return self.choice.role == DEGRADED


def answered(served: Served, reply: Reply, own: Window) -> Answered:
    """`served` as one of those sees it who waited for it."""
    first_s = served.first_token_s
    return Answered(
        reply,
        served.choice,
        max(0.0, served.sent_s - own.came_s) * 1000,
        None if first_s is None else (first_s - own.came_s) * 1000,
        (clock.monotonic_s() - own.came_s) * 1000,
    )
