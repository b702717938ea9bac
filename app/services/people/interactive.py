"""The door to the lane: ask from a thread, from any event loop, or for a stream of text."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

from app import errors
from app.domain.inference import ChatRequest, EmbedRequest
from app.domain.merging import MergeRule
from app.domain.requests import NewRequest, Unbegun
from app.services.people.lane import Lane, LaneRules
from app.services.people.sharing import Sharing
from app.services.people.tickets import Answered, Asked
from app.services.pools import Pools, pool_for
from app.services.rates import Rates
from app.storage.database import Database
from app.storage.dropped_store import DroppedStore
from app.storage.request_store import RequestStore

T = TypeVar("T")

_END_PATIENCE_S = 0.3
_CLOSE_S = 5.0


class Interactive:
    """The use case behind `giveway.interactive.*` tasks, and behind whoever serves people.

    The lane and its thread are made with the first request of a process. Thread-safe.
    """

    def __init__(
        self,
        database: Database,
        pools: Pools,
        rates: Rates,
        worker: Callable[[], str],
        rules: LaneRules,
        merging: MergeRule,
    ) -> None:
        self._database = database
        self._pools = pools
        self._rates = rates
        self._worker = worker
        self._rules = rules
        self._merging = merging
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def pool_for(self, model: str) -> str:
        """The pool that serves `model`."""
        return pool_for(self._database, self._pools, model).name

    def cancel(self, request_id: UUID, *, even_running: bool = True) -> str | None:
        """Nobody waits for the request any more: it is not sent, or its call is closed.

        Its state before; None: its message has not come yet, and is dropped when it does. Without
        `even_running` only a request that waits for a place is taken back; None: it does not.
        """
        with self._database.transaction() as tx:
            store = RequestStore(tx)
            return store.cancel(request_id) if even_running else store.cancel_queued(request_id)

    def never_begun(self, dropped: Sequence[Unbegun]) -> None:
        """Record requests that ended before a worker began them."""
        # Not longer: nobody waits for it, and a row less says little.
        with suppress(errors.DatabaseUnavailable):
            self._database.patiently(lambda tx: DroppedStore(tx).record(dropped), _END_PATIENCE_S)

    def run(self, request: NewRequest, asked: Asked) -> Answered:
        """The first endpoint's answer, for a thread that waits for it.

        Raises a leaf of EndpointError; the row then says its code. A request that found no place
        before its deadline is dropped unstarted: EndpointTimeout. One whose caller went away is
        dropped, or its call is closed: Abandoned.
        """
        running = self._lane()
        return running.ask(running.answered(request, asked)).result()

    async def call(self, request: NewRequest, asked: Asked) -> Answered:
        """The same from an event loop, whichever. Cancelled, it closes the call."""
        running = self._lane()
        return await asyncio.wrap_future(running.ask(running.answered(request, asked)))

    async def stream(
        self, request: NewRequest, asked: ChatRequest
    ) -> AsyncIterator[str | Answered]:
        """The pieces of the answer as they come, and at the end how it was answered.

        Raises as `run` does. Who stops listening (closes the generator) closes the call.
        """
        running, loop = self._lane(), asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()

        def put(piece: str | None) -> None:
            with suppress(RuntimeError):  # The listener's loop may be closed by now.
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        asking = running.ask(running.lane.call(request, asked, put))
        asking.add_done_callback(lambda _: put(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield asking.result()
        finally:
            asking.cancel()

    def settle(self) -> None:
        """Wait until what became of all requests by now is written; a moment at most."""
        running = self._running
        if running is not None and running.pid == os.getpid():
            running.ask(running.lane.settled()).result()

    def close(self) -> None:
        """End the lane of this process, when what is to be written is."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None and running.pid == os.getpid():
            running.close()

    def _lane(self) -> _Running:
        running = self._running
        if running is None or running.pid != os.getpid():
            with self._lock:
                running = self._running
                if running is None or running.pid != os.getpid():
                    running = self._running = _Running(self._made)
        return running

    def _made(self) -> tuple[Lane, Sharing]:
        lane = Lane(self._database, self._pools, self._rates, self._worker(), self._rules)
        return lane, Sharing(lane, self._pools, self._merging)


class _Running:
    """A lane with its loop, in a thread of their own."""

    lane: Lane
    _sharing: Sharing

    def __init__(self, make: Callable[[], tuple[Lane, Sharing]]) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="giveway-lane", daemon=True)
        self._thread.start()

        async def made() -> tuple[Lane, Sharing]:
            return make()

        self.lane, self._sharing = self.ask(made()).result()

    def ask(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do it in the loop. Cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def answered(self, request: NewRequest, asked: Asked) -> Answered:
        """A chat goes straight into the lane; small embedding requests may go together."""
        if isinstance(asked, EmbedRequest):
            return await self._sharing.call(request, asked)
        return await self.lane.call(request, asked)

    def close(self) -> None:
        """End it."""
        with suppress(TimeoutError):
            self.ask(self.lane.close()).result(_CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()
