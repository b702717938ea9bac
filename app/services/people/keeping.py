"""The leases of people's requests, kept while this process works on them, and who is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from app import clock, errors
from app.services.people.tickets import Ticket
from app.storage.lane_store import KeepStore

log = logging.getLogger(__name__)

_LOOK_S = 0.25
"""How often it is looked who is gone. What takes less time is answered before that."""


class Keeping:
    """The requests of this process. Used by the lane's loop alone."""

    def __init__(self, store: KeepStore, lease_s: float, heartbeat_s: float) -> None:
        self._store = store
        self._lease_s = lease_s
        self._heartbeat_s = heartbeat_s
        self._held: dict[UUID, tuple[Ticket, float]] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def held(self, ticket: Ticket) -> Iterator[None]:
        """Keep the rows of the ticket for as long as the block runs."""
        now_s, ids = clock.monotonic_s(), [one.id for one in ticket.requests]
        for one in ids:
            self._held[one] = (ticket, now_s)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield
        finally:
            for one in ids:
                if self._held.get(one, (None,))[0] is ticket:
                    del self._held[one]

    async def beat(self) -> None:
        """Extend every lease once."""
        if self._held:
            await self._store.extend(list(self._held), self._lease_s)

    async def look(self) -> None:
        """Learn who is gone, of those who have been here for more than a moment."""
        since_s = clock.monotonic_s() - _LOOK_S
        ids = [one for one, (_, came_s) in self._held.items() if came_s <= since_s]
        if not ids:
            return
        for one in await self._store.cancelled(ids):
            if one in self._held:
                self._held[one][0].leave(one)

    async def close(self) -> None:
        """End it: nothing is extended any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._store.close()

    async def _run(self) -> None:
        beat_at_s = clock.monotonic_s() + self._heartbeat_s
        while True:
            await asyncio.sleep(min(_LOOK_S, self._heartbeat_s))
            try:
                if clock.monotonic_s() >= beat_at_s:
                    beat_at_s = clock.monotonic_s() + self._heartbeat_s
                    await self.beat()
                await self.look()
            except errors.GivewayError as error:
                log.warning("heartbeat missed: %s", error)
            except Exception:
                log.exception("heartbeat failed")
