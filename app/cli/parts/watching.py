"""Watching a job until it ends: a live line, through outages of the database too."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from app import clock
from app.cli import render
from app.cli.parts.pace import Seen, items_per_s, left_s
from app.cli.parts.progress import EVERY_S
from app.domain.jobs import CLAIMABLE, OPEN, JobState, way_on
from app.errors import DatabaseUnavailable
from app.services.inspection import Inspection, JobView

if TYPE_CHECKING:
    from rich.progress import Progress

LOOK_S = 0.5
PATIENCE_S = 120.0
"""A database that is away for longer is an error; one that is restarted is waited for."""


def watch(
    inspection: Inspection,
    reference: str,
    *,
    look_s: float = LOOK_S,
    patience_s: float = PATIENCE_S,
) -> JobView:
    """Show the job on standard error until it ends or is stuck; what it was then.

    One that a person paused is waited for: who did that will resume it. NotFound: no such job.
    DatabaseUnavailable: for longer than `patience_s`. Who stops the waiting does not stop the job,
    and is told so.
    """
    try:
        return _watched(inspection, reference, look_s, patience_s)
    except KeyboardInterrupt:
        render.note(f"the job goes on; watch it with: giveway jobs watch {reference}")
        render.note(f"stop it with: giveway jobs cancel {reference}")
        raise typer.Exit(render.INTERRUPTED) from None


def _watched(inspection: Inspection, reference: str, look_s: float, patience_s: float) -> JobView:
    seen: list[Seen] = []
    with _screen() as screen:
        while True:
            view = _looked(inspection, reference, screen, patience_s)
            made = view.progress
            seen = [*seen[-120:], Seen(clock.monotonic_s(), made.done + made.failed)]
            if view.job.stuck or view.job.state not in OPEN:
                screen.end(view)
                break
            screen.show(view, items_per_s(seen))
            threading.Event().wait(look_s)
    if view.job.stuck:
        render.note(f"it goes no further by itself: {way_on(view.job.key)}")
    return view


def line(view: JobView, per_s: float | None) -> str:
    """The job in one line: share, pace, what is left, and why it waits or what it may have."""
    job, made = view.job, view.progress
    parts = [f"{made.done + made.failed:,}/{made.total:,} ({made.share:.0%})"]
    if job.state is not JobState.RUNNING:
        parts.insert(0, job.state.value + (f" ({job.reason})" if job.reason else ""))
    if job.state in OPEN:
        parts.append("- items/s" if per_s is None else f"{per_s:,.0f} items/s")
        left = left_s(made.pending, per_s)
        parts.append(f"{render.span(left)} left" if left is not None else "time left unknown")
        if view.why is None or view.job.state not in CLAIMABLE:
            parts.append(f"{made.in_flight} in flight of {view.limit} ({view.limit_reason})")
        else:
            parts.append(f"waits: {view.why} ({view.why.code})")
    if made.retrying:
        parts.append(f"{made.retrying:,} retrying")
    parts.append(f"{made.failed:,} failed")
    return ", ".join(parts)


def _looked(
    inspection: Inspection, reference: str, screen: _Lines | _Bar, patience_s: float
) -> JobView:
    since = clock.monotonic_s()
    while True:
        try:
            return inspection.job(reference)
        except DatabaseUnavailable:
            if clock.monotonic_s() - since > patience_s:
                raise
            screen.say("Postgres does not answer; the job goes on when it is back")
            threading.Event().wait(1.0)


@contextmanager
def _screen() -> Iterator[_Lines | _Bar]:
    if not render.on_terminal():
        yield _Lines()
        return
    bar = _Bar()
    with bar.bars:
        yield bar


class _Lines:
    """A plain line every few seconds, and one at the end."""

    def __init__(self) -> None:
        self._said_at: float | None = None

    def show(self, view: JobView, per_s: float | None) -> None:
        self.say(f"{view.job.key}: {line(view, per_s)}")

    def say(self, text: str) -> None:
        now = clock.monotonic_s()
        if self._said_at is None or now - self._said_at >= EVERY_S:
            self._said_at = now
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def end(self, view: JobView) -> None:
        self._said_at = None
        self.show(view, None)


class _Bar:
    """One bar that is redrawn in place."""

    def __init__(self) -> None:
        self.bars: Progress = _bars()
        self._task: Any = self.bars.add_task("", total=None, said="")

    def show(self, view: JobView, per_s: float | None) -> None:
        made = view.progress
        self.bars.update(
            self._task,
            description=view.job.key,
            total=made.total or None,
            completed=made.done + made.failed,
            said=line(view, per_s),
        )

    def say(self, text: str) -> None:
        self.bars.update(self._task, said=text)

    def end(self, view: JobView) -> None:
        self.show(view, None)


def _bars() -> Progress:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, ProgressColumn, Task
    from rich.text import Text

    class Said(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(str(task.fields["said"]))

    class Key(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text.from_markup(escape(task.description))

    return Progress(Key(), BarColumn(bar_width=24), Said(), console=Console(stderr=True))
