"""What one sees of the demo while it runs: a small screen, or plain lines where none is."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from app import clock
from app.cli import render
from app.cli.parts.pace import Seen as Point
from app.cli.parts.pace import items_per_s
from app.cli.parts.progress import EVERY_S
from app.local.demo.report import TITLES

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from app.cli.parts.demo_run import Seen
    from app.local.demo.measured import Leg

_BAR = 24


class DemoView:
    """On standard error, so that standard output holds the report alone."""

    def __init__(self) -> None:
        self._live: Live | None = _live() if render.on_terminal() else None
        self._points: list[Point] = []
        self._leg = ""
        self._said_at = 0.0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._live is None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        else:
            self._live.console.print(text, markup=False, highlight=False)

    def over(self, leg: Leg) -> None:
        """A leg's figures, to stay."""
        p95_ms, pace = leg.percentile_ms(0.95), leg.items_per_s
        backfill = f", backfill {pace:,.0f} items/s" if pace is not None else ""
        self.say(f"{TITLES[leg.name]}: people's P95 {render.ms(p95_ms)}{backfill}")

    def show(self, seen: Seen) -> None:
        """How it stands."""
        if seen.leg != self._leg:
            self._leg, self._points = seen.leg, []
        if seen.job is not None:
            made = seen.job.progress
            point = Point(clock.monotonic_s(), made.done + made.failed)
            self._points = [*self._points[-60:], point]
        if self._live is not None:
            self._live.update(_screen(seen, items_per_s(self._points)))
        elif clock.monotonic_s() - self._said_at >= EVERY_S:
            self._said_at = clock.monotonic_s()
            self.say("  " + _line(seen, items_per_s(self._points)))


def _live() -> Live:
    from rich.console import Console
    from rich.live import Live

    return Live(console=Console(stderr=True), refresh_per_second=8, transient=True)


def _line(seen: Seen, pace: float | None) -> str:
    parts = [f"people's P95 {render.ms(seen.pool.reading.p95_ms)}"]
    if seen.job is not None:
        made = seen.job.progress
        flying, limit, why = seen.pool.batch_in_flight, seen.pool.limit, _words(seen.pool.reason)
        parts += [
            f"{flying} batch in flight of {limit} ({why})",
            f"{made.done:,}/{made.total:,} items",
            "" if pace is None else f"{pace:,.0f} items/s",
        ]
    return ", ".join(part for part in parts if part)


def _screen(seen: Seen, pace: float | None) -> Group:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    pool, p95_ms = seen.pool, seen.pool.reading.p95_ms
    late = p95_ms is not None and p95_ms > pool.target_p95_ms
    rows = Table.grid(padding=(0, 2))
    rows.add_row(
        "people's P95",
        Text(f"{render.ms(p95_ms):>9}", style="bold red" if late else "bold green"),
        f"target {pool.target_p95_ms:g} ms, {pool.interactive_in_flight} in flight",
    )
    if seen.job is not None:
        made = seen.job.progress
        places = "■" * pool.batch_in_flight + "□" * max(0, pool.limit - pool.batch_in_flight)
        rows.add_row(
            "batch in flight",
            Text(f"{pool.batch_in_flight:>6} of {pool.limit}"),
            f"{places}  {_words(pool.reason)}",
        )
        bar = ProgressBar(total=max(1, made.total), completed=made.done, width=_BAR)
        rows.add_row("backfill", bar, f"{made.done:,} of {made.total:,}")
        rows.add_row("", "", "" if pace is None else f"{pace:,.0f} items/s")
    return Group(Text(TITLES[seen.leg], style="bold"), rows)


def _words(reason: str) -> str:
    return str(reason).replace("_", " ")
