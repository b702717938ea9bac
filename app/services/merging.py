"""Merging of small embedding requests that come together: one call, one place, a row each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID, uuid4

from app import clock, errors
from app.domain.inference import EmbedReply, EmbedRequest
from app.domain.merging import (
    MergeRule,
    Traffic,
    departs_at_s,
    has_company,
    is_small,
    shared_out,
    size_of,
    splits,
)
from app.domain.requests import NewRequest
from app.inference.cancel import Cancel
from app.services.party import Answer, Party, Share, Window
from app.services.serving import Served

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""(pool, model)."""


class Member:
    """A request that shares a call, and what became of it."""

    def __init__(self, request: NewRequest, asked: EmbedRequest, own: Window, gone: Cancel) -> None:
        self.request = request
        self.texts = asked.texts
        self.window = own
        self.gone = gone
        self.settled = threading.Event()
        self.served: Served | None = None
        self.reply: EmbedReply | None = None
        self.error: BaseException | None = None
        self.goes_alone = False
        """The call failed because of one of them: each is to be sent on its own."""


class Ride(Party):
    """A call that several requests share; they join until it departs, and may leave at any time."""

    def __init__(self, first: Member, rule: MergeRule) -> None:
        request = first.request
        super().__init__(request.pool, request.model, request.task_type, Cancel())
        self.ride = uuid4()
        self._rule = rule
        self._lock = threading.Lock()
        self._aboard: list[Member] = []
        self._left: set[UUID] = set()
        self._size = 0
        self._departed = False
        self._filled = threading.Event()
        self._opened_s = self._joined_s = clock.monotonic_s()
        self.joined(first)

    @property
    def window(self) -> Window:
        """From the first that came to the last that waits."""
        with self._lock:
            windows = [one.window for one in self._aboard]
        return Window(
            min(one.came_s for one in windows),
            max(one.start_by_s for one in windows),
            max(one.answer_by_s for one in windows),
        )

    def joined(self, member: Member) -> bool:
        """Whether `member` shares the call: it has not departed and there is room."""
        with self._lock:
            texts = sum(len(one.texts) for one in self._aboard) + len(member.texts)
            size = self._size + size_of(member.texts)
            if self._departed or (self._aboard and not self._holds(texts, size)):
                return False
            self._aboard.append(member)
            self._size = size
            self._joined_s = clock.monotonic_s()
            if texts >= self._rule.most_texts:
                self._filled.set()
            return True

    def gather(self) -> None:
        """Wait for more, as long as that makes sense."""
        while not self.gone.is_set():
            with self._lock:
                at_s = departs_at_s(self._opened_s, self._joined_s, self._rule)
            left_s = at_s - clock.monotonic_s()
            if left_s <= 0 or self._filled.wait(left_s):
                return

    def members(self) -> Sequence[NewRequest]:
        """Those who are still waiting."""
        with self._lock:
            return [m.request for m in self._aboard if m.request.id not in self._left]

    def depart(self) -> Sequence[NewRequest]:
        """Nobody joins any more, and those who left before are not carried."""
        with self._lock:
            if not self._departed:
                self._departed = True
                self._aboard = [m for m in self._aboard if m.request.id not in self._left]
        return self.members()

    def asked(self) -> EmbedRequest:
        """All texts in one request."""
        return EmbedRequest(self.model, tuple(text for m in self._aboard for text in m.texts))

    @property
    def departed(self) -> bool:
        """Whether it is on its way, so that whoever leaves now may have been sent."""
        return self._departed

    def leave(self, ids: Sequence[UUID]) -> None:
        """These wait no more; when nobody does, the call is closed."""
        with self._lock:
            self._left.update(ids)
            for member in self._aboard:
                if member.request.id in ids:
                    member.gone.set()
            empty = all(m.request.id in self._left for m in self._aboard)
        if empty:
            self.gone.set()

    def splits(self, error: errors.EndpointError) -> bool:
        """Whether each is sent on its own now."""
        return splits(error, len(self._aboard))

    def tally(self, reply: Answer) -> Sequence[Share]:
        """Those who left have no share, though the call carried them."""
        assert isinstance(reply, EmbedReply)
        parts = shared_out(reply, [member.texts for member in self._aboard])
        with self._lock:
            return [
                Share(member.request.id, part.usage.prompt_tokens, 0)
                for member, part in zip(self._aboard, parts, strict=True)
                if member.request.id not in self._left
            ]

    def settle(self, served: Served | None, error: BaseException | None) -> None:
        """Tell everybody what became of the call."""
        self.depart()
        parts: Sequence[EmbedReply | None] = [None] * len(self._aboard)
        if served is not None and isinstance(served.reply, EmbedReply):
            parts = shared_out(served.reply, [member.texts for member in self._aboard])
        alone = isinstance(error, errors.EndpointError) and self.splits(error)
        for member, part in zip(self._aboard, parts, strict=True):
            member.served, member.reply = served, part
            member.error, member.goes_alone = error, alone
            member.settled.set()

    def _holds(self, texts: int, size: int) -> bool:
        return texts <= self._rule.most_texts and size <= self._rule.most_tokens


class Merging:
    """Finds company for embedding requests of this process. `carry` takes a ride to its end."""

    def __init__(self, carry: Callable[[Ride], Served]) -> None:
        self._carry = carry
        self._lock = threading.Lock()
        self._rides: dict[Key, Ride] = {}
        self._traffic: dict[Key, Traffic] = {}

    @contextmanager
    def company(self, member: Member, rule: MergeRule) -> Iterator[Ride | None]:
        """The ride that `member` shares; None: it goes on its own."""
        key = (member.request.pool, member.request.model)
        with self._lock:
            ride = self._ride(key, member, rule)
            now = self._traffic.get(key, Traffic())
            self._traffic[key] = replace(
                now, under_way=now.under_way + 1, last_came_s=clock.monotonic_s()
            )
        try:
            yield ride
        finally:
            with self._lock:
                now = self._traffic[key]
                self._traffic[key] = replace(now, under_way=now.under_way - 1)

    def _ride(self, key: Key, member: Member, rule: MergeRule) -> Ride | None:
        if not is_small(member.texts, rule):
            return None
        ride = self._rides.get(key)
        if ride is not None and ride.joined(member):
            return ride
        if not has_company(self._traffic.get(key, Traffic()), clock.monotonic_s(), rule):
            return None
        ride = self._rides[key] = Ride(member, rule)
        threading.Thread(target=self._drive, args=(key, ride), name="giveway-ride").start()
        return ride

    def _drive(self, key: Key, ride: Ride) -> None:
        served: Served | None = None
        error: BaseException | None = None
        try:
            ride.gather()
            served = self._carry(ride)
        except BaseException as caught:  # noqa: BLE001 - whoever waits is told
            error = caught
        finally:
            with self._lock:
                if self._rides.get(key) is ride:
                    del self._rides[key]
                if len(ride.members()) > 1:
                    now = self._traffic.get(key, Traffic())
                    self._traffic[key] = replace(now, last_shared_s=clock.monotonic_s())
            ride.settle(served, error)
