"""Runs the engine in real time: sleeps as long as a step lasts, then tells who moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.inference.simulated.engine import Engine, Work

_FORGIVEN_S = 0.25
"""Behind by more than this (the machine slept, or is full), the lost time is not made good."""


class Runner:
    """One engine on one event loop. `slowness` multiplies every step; it is asked at each."""

    def __init__(self, engine: Engine, speed: float, slowness: Callable[[], float]) -> None:
        self.engine = engine
        self.steps = 0
        self.step_seconds = 0.0
        self.lost_seconds = 0.0
        self._speed = speed
        self._slowness = slowness
        self._news = asyncio.Event()

    def submit(self, work: Work) -> None:
        """Queue `work`; it starts with the next step."""
        self.engine.add(work)
        self._news.set()

    async def run(self) -> None:
        """Step for ever. Each step ends where the last one was due plus its own duration, so that
        a late wake-up is made good by the next sleep."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if self.engine.is_idle:
                self._news.clear()
                await self._news.wait()
                due = loop.time()
            step = self.engine.begin()
            lasts_s = step.duration_s * self._slowness() / self._speed
            due += lasts_s
            behind_s = loop.time() - due
            if behind_s > _FORGIVEN_S:
                self.lost_seconds += behind_s
                due = loop.time()
            await asyncio.sleep(max(0.0, due - loop.time()))
            self.steps += 1
            self.step_seconds += lasts_s
            for work in self.engine.end(step):
                work.on_progress()
