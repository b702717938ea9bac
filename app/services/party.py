"""Those who go to an endpoint in one call: one request, or several that share a ride."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest
from app.domain.requests import NewRequest
from app.inference.cancel import Cancel

Answer = ChatReply | EmbedReply


@dataclass(frozen=True, slots=True)
class Window:
    """A request's time, on the monotonic clock: when it came, until when a call may start, and
    until when its answer is wanted."""

    came_s: float
    start_by_s: float
    answer_by_s: float


def window(
    request: NewRequest, now: datetime, now_s: float, deadline_s: float, call_timeout_s: float
) -> Window:
    """The window of a request that comes now. Its own deadline only ever makes it shorter."""
    longest_s = deadline_s + call_timeout_s
    if request.deadline_at is not None:
        longest_s = min(longest_s, (request.deadline_at - now).total_seconds())
    return Window(now_s, now_s + min(deadline_s, longest_s), now_s + longest_s)


@dataclass(frozen=True, slots=True)
class Share:
    """What one request has of the tokens of a call."""

    id: UUID
    prompt_tokens: int
    completion_tokens: int


class Party:
    """One request on its way. `gone` is set once nobody waits for it: it then goes nowhere, and a
    call in flight is closed.
    """

    ride: UUID | None = None
    """The number that the rows of those who share a call have in common."""

    def __init__(self, pool: str, model: str, task_type: str, gone: Cancel) -> None:
        self.pool = pool
        self.model = model
        self.task_type = task_type
        self.gone = gone
        self.recorded: set[UUID] = set()
        """Requests whose rows are there."""
        self.tried: set[str] = set()
        """Endpoints that were asked."""
        self.failed: errors.EndpointError | None = None
        """How the last of them failed."""
        self.elsewhere = False
        """Whether another endpoint could be asked, should the call fail."""
        self.sent_s: float | None = None
        """When the first call began; None: nothing was sent yet."""

    @property
    def window(self) -> Window:
        """The time it has."""
        raise NotImplementedError

    def members(self) -> Sequence[NewRequest]:
        """The requests, as far as somebody still waits for them."""
        raise NotImplementedError

    def depart(self) -> Sequence[NewRequest]:
        """The requests that go; nobody joins any more."""
        return self.members()

    def asked(self) -> ChatRequest | EmbedRequest:
        """What the endpoint is asked."""
        raise NotImplementedError

    def leave(self, ids: Sequence[UUID]) -> None:
        """Nobody waits for these any more."""
        raise NotImplementedError

    def tally(self, reply: Answer) -> Sequence[Share]:
        """What each of those who still wait has of the answer."""
        raise NotImplementedError

    def splits(self, error: errors.EndpointError) -> bool:  # noqa: ARG002
        """Whether those who share the call are to be sent one by one after `error`."""
        return False

    def check(self) -> None:
        """Raises Abandoned or EndpointTimeout if no call may start any more."""
        unsent = self.sent_s is None
        if self.gone.is_set():
            told = "its caller is gone"
            raise errors.Abandoned(f"{told}; the request was dropped unstarted" if unsent else told)
        if clock.monotonic_s() < self.window.start_by_s:
            return
        if self.failed is not None:
            raise self.failed
        waited_s = max(0.0, clock.monotonic_s() - self.window.came_s)
        raise errors.EndpointTimeout(
            f"no place in pool {self.pool!r} within {waited_s:.3g} s, when its deadline passed; "
            "the request was dropped unstarted"
        )


class Alone(Party):
    """A request that shares its call with nobody."""

    def __init__(
        self, request: NewRequest, asked: ChatRequest | EmbedRequest, own: Window, gone: Cancel
    ) -> None:
        super().__init__(request.pool, request.model, request.task_type, gone)
        self._request = request
        self._asked = asked
        self._window = own

    @property
    def window(self) -> Window:
        """The request's own."""
        return self._window

    def members(self) -> Sequence[NewRequest]:
        """The request."""
        return (self._request,)

    def asked(self) -> ChatRequest | EmbedRequest:
        """What it asks."""
        return self._asked

    def leave(self, ids: Sequence[UUID]) -> None:
        """The caller is gone."""
        if ids:
            self.gone.set()

    def tally(self, reply: Answer) -> Sequence[Share]:
        """All of it."""
        usage = reply.usage
        return (Share(self._request.id, usage.prompt_tokens, usage.completion_tokens),)
