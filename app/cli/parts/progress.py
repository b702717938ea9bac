"""Progress on standard error: a bar where somebody watches, else a plain line every few seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from app import clock
from app.cli import render

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY_S = 2.0


class Steps:
    """Steps of one command, one after the other; `at` says how far the present one is."""

    def __init__(self) -> None:
        self._bars: Progress | None = _bars() if render.on_terminal() else None
        self._task: TaskID | None = None
        self._what = ""
        self._total: int | None = None
        self._unit = ""
        self._said_at = clock.monotonic_s()

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def begin(self, what: str, total: int | None = None, unit: str = "") -> None:
        """A new step; `total` None: not known."""
        self._what, self._total, self._unit = what, total, unit
        if self._bars is not None:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task(what, total=total, unit=unit)

    def step(self, what: str, total: int | None = None, unit: str = "") -> Callable[[int], None]:
        """A step that begins when it is first told how far it is."""

        def at(done: int) -> None:
            if self._what != what:
                self.begin(what, total, unit)
            self.at(done)

        return at

    def at(self, done: int) -> None:
        """How far the step is."""
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=done)
            return
        now = clock.monotonic_s()
        if now - self._said_at >= EVERY_S:
            self._said_at = now
            share = f" ({done / self._total:.0%})" if self._total else ""
            sys.stderr.write(f"{self._what}: {done:,} {self._unit}{share}\n")


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
