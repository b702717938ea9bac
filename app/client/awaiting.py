"""The same verbs for programs with an event loop: each call runs in a thread, and is awaited.

async with AsyncGiveway() as giveway:
    job = await giveway.submit("embed", rows, model="fake-embed", collection="docs")
    standing = await job.wait()
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from app import clock
from app.client.collections import Collections
from app.client.giveway import Giveway
from app.client.jobs import JobHandle, Standing, looks, teller
from app.client.operations import Endpoints, Throttle
from app.client.schedules import Schedules

_THREADS = 16
_END = object()
_Threads = ThreadPoolExecutor


class _Awaited:
    """An object of the client whose calls are awaited, and so are properties that look something
    up. What is an object of the client in turn comes back the same way. A call that is cancelled
    is not waited for any more; its thread runs to its end."""

    def __init__(self, target: Any, threads: _Threads) -> None:
        self._target = target
        self._threads = threads

    def __repr__(self) -> str:
        return f"async {self._target!r}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if isinstance(inspect.getattr_static(type(self._target), name, None), property):
            return self._run(getattr, self._target, name)
        found = getattr(self._target, name)
        if isinstance(found, _OURS):
            return _awaited(found, self._threads)
        if not callable(found):
            return found

        async def call(*given: Any, **named: Any) -> Any:
            return await self._run(found, *given, **named)

        call.__name__, call.__doc__ = name, found.__doc__
        return call

    async def _run(self, act: Callable[..., Any], *given: Any, **named: Any) -> Any:
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._threads, lambda: act(*given, **named))
        return _awaited(made, self._threads)


class AsyncJobHandle(_Awaited):
    """A job, as `JobHandle`: `await job.wait()`, `async for row in await job.results()`."""

    async def wait(
        self,
        timeout_s: float | None = None,
        *,
        progress: bool | Callable[[Standing], None] = False,
    ) -> Standing:
        """As `JobHandle.wait`. It holds no thread between two looks, so a thousand may wait."""
        until = None if timeout_s is None else clock.monotonic_s() + timeout_s
        told = teller(progress)
        for look_s in looks():
            standing: Standing = await self._run(self._target.standing)
            told(standing)
            if standing.ended or standing.stuck:
                return standing
            left_s = look_s if until is None else min(look_s, until - clock.monotonic_s())
            if left_s <= 0:
                raise TimeoutError(
                    f"job {self._target.key!r} is {standing.state} after {timeout_s:g} s"
                )
            await asyncio.sleep(left_s)
        raise AssertionError("looks has no end")


class AsyncGiveway(_Awaited):
    """`Giveway` for an event loop, with the same arguments: every call of it, of its jobs,
    schedules, collections, throttle and endpoints is awaited. An async context manager."""

    def __init__(self, config: str | Path | None = None, data: str | Path | None = None) -> None:
        """As `Giveway`."""
        super().__init__(
            Giveway(config, data), ThreadPoolExecutor(_THREADS, thread_name_prefix="giveway")
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the calls that still run, and close what was opened."""
        await asyncio.to_thread(self._threads.shutdown)
        self._target.close()


_OURS = (JobHandle, Schedules, Collections, Throttle, Endpoints)


def _awaited(value: Any, threads: _Threads) -> Any:
    if isinstance(value, JobHandle):
        return AsyncJobHandle(value, threads)
    if isinstance(value, _OURS):
        return _Awaited(value, threads)
    if isinstance(value, list):
        return [_awaited(one, threads) for one in value]
    return _each(value, threads) if isinstance(value, Iterator) else value


async def _each(rows: Iterator[Any], threads: _Threads) -> AsyncIterator[Any]:
    """Row after row, each fetched in a thread; what it holds is given back at the end."""
    loop = asyncio.get_running_loop()
    try:
        while (row := await loop.run_in_executor(threads, next, rows, _END)) is not _END:
            yield row
    finally:
        close = getattr(rows, "close", None)
        if close is not None:
            await loop.run_in_executor(threads, close)
