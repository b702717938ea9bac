"""A job in the hands of a program: how it stands, waiting for it, its results, steering it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import clock
from app.client.frames import frame_of
from app.domain.jobs import OPEN, Job, JobState, Progress, way_on
from app.errors import StateConflict
from app.extras import need
from app.services.exporting import Exported
from app.services.kept import check_kept
from app.services.made import is_single
from app.wiring import Wiring
from app.worker import reaching

if TYPE_CHECKING:
    from pandas import DataFrame

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class Standing:
    """A job at one moment. `waits`: why nothing of it is worked on, such as its window, and
    `waits_code` the same for programs; None: something is, or it is over."""

    job: Job
    progress: Progress
    waits: str | None
    waits_code: str | None = None

    @property
    def state(self) -> JobState:
        """Its state."""
        return self.job.state

    @property
    def ended(self) -> bool:
        """Whether it will not change by itself any more."""
        return self.state not in OPEN

    @property
    def stuck(self) -> bool:
        """Whether it paused by itself: it goes no further until a person acts."""
        return self.job.stuck

    @property
    def ok(self) -> bool:
        """Completed, and no item failed."""
        return self.state is JobState.COMPLETED and self.progress.failed == 0

    def must_be_ok(self) -> Standing:
        """Itself. StateConflict: it did not complete, or items failed; a task then fails too."""
        if not self.ok:
            reason = f" ({self.job.reason})" if self.job.reason else ""
            more = f"; {way_on(self.job.key)}" if self.stuck else ""
            raise StateConflict(
                f"job {self.job.key!r} is {self.state}{reason}; "
                f"{self.progress.failed:,} of {self.progress.total:,} items failed{more}"
            )
        return self


class JobHandle:
    """A job by its id. Made by `Giveway.submit` and `Giveway.job`."""

    def __init__(self, wiring: Wiring, job: Job, *, created: bool = False) -> None:
        self._wiring = wiring
        self.id = job.id
        self.key = job.key
        self.kind = job.kind
        self.created = created
        """Whether this submission made it; False: it was there already."""

    def __repr__(self) -> str:
        return f"JobHandle({self.key!r}, id={self.id})"

    def standing(self) -> Standing:
        """How it stands now."""
        view = self._wiring.inspection.job(str(self.key))
        code = None if view.why is None else view.why.code.value
        return Standing(view.job, view.progress, view.waits, code)

    @property
    def state(self) -> JobState:
        """Its state now."""
        return self.standing().state

    def progress(self) -> Progress:
        """How far it is now."""
        return self.standing().progress

    def wait(
        self,
        timeout_s: float | None = None,
        *,
        progress: bool | Callable[[Standing], None] = False,
    ) -> Standing:
        """How it stands when it has ended or is stuck. TimeoutError: neither, after so long.

        `progress` True: a line on standard error says how far it is; a function is given each
        standing that is looked at.

        A job that paused by itself, since its budget is spent or a key is refused, is stuck: it
        needs a person. One that a person paused is waited for: who did that will resume it.
        """
        until = None if timeout_s is None else clock.monotonic_s() + timeout_s
        told = teller(progress)
        for look_s in looks():
            standing = self.standing()
            told(standing)
            if standing.ended or standing.stuck:
                return standing
            left_s = look_s if until is None else min(look_s, until - clock.monotonic_s())
            if left_s <= 0:
                raise TimeoutError(f"job {self.key!r} is {standing.state} after {timeout_s:g} s")
            threading.Event().wait(left_s)
        raise AssertionError("looks has no end")

    def results(self) -> Iterator[dict[str, Any]]:
        """Every result so far, in order, streamed: key, status, code, error, tokens, output.

        StateConflict: they are no longer kept.
        """
        check_kept(self.standing().job)
        return self._wiring.inspection.results(self.id)

    def to_pandas(self) -> DataFrame:
        """Every result so far as a DataFrame, all in memory: key, the item's own fields, status,
        code, error, tokens, and a column for each field of the output, such as `output.text`.

        StateConflict: they are no longer kept. MissingPart: pandas is not installed.
        """
        need("a data frame needs", "pandas", ["pandas"])
        job = self.standing().job
        check_kept(job)
        rows = self._wiring.inspection.results_with_items(self.id)
        return frame_of(rows, single=is_single(job))

    def failures(self, most: int = 100) -> list[dict[str, Any]]:
        """Failed items: key, code, error."""
        return self._wiring.inspection.failures(self.id, most)

    def pause(self) -> None:
        """Nothing more of it is claimed."""
        self._wiring.steering.pause(self.key)

    def webhooks(self) -> list[dict[str, Any]]:
        """What was told to its webhook, or is to be; oldest first."""
        return self._wiring.inspection.deliveries(self.id)

    def export(self, output: str | Path, format: str | None = None) -> Exported:  # noqa: A002
        """Every result so far into a file, JSONL, CSV or Parquet by its ending; in Parquet
        each field of the output is a column."""
        return self._wiring.exporting.results(self.standing().job, str(output), format)

    def resume(self, budget: float | None = None) -> None:
        """It may be claimed again; `budget` replaces the money after which it pauses."""
        self._ring(self._wiring.steering.resume(self.key, budget))

    def cancel(self) -> None:
        """It ends; its results so far are kept. Final."""
        self._wiring.steering.cancel(self.key)

    def retry(self, codes: Sequence[str] | None = None) -> int:
        """Try failed items again, all or those with `codes`; how many."""
        job, again = self._wiring.steering.retry(self.key, codes)
        self._ring(job)
        return again

    def _ring(self, job: Job) -> None:
        reaching.ring(self._wiring, job.pool)


def looks() -> Iterator[float]:
    """Seconds before each next look at a job that somebody waits for, without end."""
    look_s = _FIRST_LOOK_S
    while True:
        yield look_s
        look_s = min(1.5 * look_s, _LONGEST_LOOK_S)


def teller(progress: bool | Callable[[Standing], None]) -> Callable[[Standing], None]:
    """What is told of each standing."""
    if not isinstance(progress, bool):
        return progress
    return _Line() if progress else lambda _: None


class _Line:
    """How far a job is, on one line of a terminal; elsewhere a line each time it changes."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, standing: Standing) -> None:
        done = standing.progress
        failed = f", {done.failed:,} failed" if done.failed else ""
        waits = f"; waits: {standing.waits}" if standing.waits else ""
        so_far = done.done + done.failed
        line = f"{standing.job.key}: {standing.state}, {so_far:,} of {done.total:,}{failed}{waits}"
        if line == self._last and not standing.ended:
            return
        is_terminal = sys.stderr.isatty()
        blanks = " " * max(0, len(self._last) - len(line))
        end = "\n" if standing.ended or standing.stuck or not is_terminal else ""
        sys.stderr.write(f"\r{line}{blanks}{end}" if is_terminal else f"{line}\n")
        sys.stderr.flush()
        self._last = line
