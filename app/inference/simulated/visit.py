"""One request from arrival to its end, and whether its client is still there."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.requests import Request

from app.inference.simulated.faults import Path
from app.inference.simulated.ledger import Timing


class HungUp(Exception):
    """The client has closed the connection."""


class Visit:
    """One request from arrival to its end: whether the client is still there, what to book."""

    def __init__(self, request: Request, path: Path) -> None:
        self.path = path
        self.news = asyncio.Event()
        self.is_gone = False
        self.tokens = 0
        self.prompt_tokens = 0
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._arrived = self._loop.time()
        self._first_token_s: float | None = None
        self._watch: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Notice from now on when the client hangs up. The body must have been read."""
        self._watch = self._loop.create_task(self._until_gone())

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    async def wait(self) -> None:
        """Wait for news of the engine. Raises HungUp."""
        await self.news.wait()
        self.news.clear()
        self.check()

    def check(self) -> None:
        """Raises HungUp if the client is gone."""
        if self.is_gone:
            raise HungUp

    async def pause(self, seconds: float | None) -> None:
        """Sleep (None: for ever), but not longer than the client waits. Raises HungUp."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait()

    def progressed(self, made: int) -> None:
        """`made` tokens are there."""
        self.tokens = made
        if made and self._first_token_s is None:
            self._first_token_s = self._loop.time() - self._arrived

    def timing(self, outcome: str) -> Timing:
        """How it went."""
        seconds = self._loop.time() - self._arrived
        return Timing(
            self.path,
            outcome,
            self._first_token_s,
            seconds,
            self.tokens,
            self._arrived,
            self.prompt_tokens,
        )

    async def _until_gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        self.news.set()
