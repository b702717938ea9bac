"""Evaluation: what a run says, and what a second one says against it. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.evaluation.comparing import Comparison, compared
from app.domain.evaluation.runs import MOST_UNSCORED, RunItem, item_of
from app.domain.evaluation.summary import Summary, refusal, summarised
from app.domain.jobs import Job
from app.errors import NotFound, StateConflict, UnknownName
from app.extras import need
from app.kinds.scorers.registry import scorer
from app.services import made
from app.services.kept import check_kept
from app.storage.database import Database
from app.storage.evaluation_store import EvaluationStore
from app.storage.job_store import JobStore

KIND = "evaluate"


@dataclass(frozen=True, slots=True)
class Run:
    """A run with its figures. `refused` says why it gives no verdict; None: it gives one."""

    job: Job
    items: list[RunItem]
    summary: Summary
    refused: str | None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs, and the second against the first."""

    first: Run
    second: Run
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Shown:
    """An item as both runs have it: question, expected answer, and what each run answered; one
    text a repeat, or why there is none."""

    question: Any
    expected: Any
    first: tuple[str, ...]
    second: tuple[str, ...]


def check_installed() -> None:
    """MissingPart: what works out the figures is not installed. For before anything is paid."""
    need("figures of evaluation runs need", "evaluate", ["scipy"])


class Evaluation:
    """The use case behind `giveway eval`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, reference: str, most_unscored: float = MOST_UNSCORED) -> Run:
        """The run with this key or id. NotFound: there is none; StateConflict: it is no run, or its
        scores are no longer kept; MissingPart."""
        check_installed()
        with self._database.transaction() as tx:
            job = JobStore(tx).find(reference)
            if job is None:
                raise NotFound(f"no job with key or id {reference!r}; see `giveway jobs list`")
            if job.kind != KIND:
                raise StateConflict(
                    f"job {job.key!r} is of kind {job.kind}; only a job of kind {KIND} has scores"
                )
            check_kept(job)
            items = [
                item_of(row.key, row.content, row.status, row.code, row.scores)
                for row in EvaluationStore(tx).scored(job.id)
            ]
        summary = summarised(items, rates_of(job))
        return Run(job, items, summary, refusal(summary, most_unscored))

    def pair(
        self,
        first: str,
        second: str,
        most_unscored: float = MOST_UNSCORED,
        *,
        margins: Mapping[str | None, float] | None = None,
        shared_only: bool = False,
    ) -> Pair:
        """Two runs over the same items. StateConflict: they share no metric, or no item, or one has
        items that the other has not, which `shared_only` allows. `margins` are by metric; that of
        None is for all others. UnknownName: one is for no metric that both have."""
        one, other = (self.run(name, most_unscored) for name in (first, second))
        mine, theirs = rates_of(one.job), rates_of(other.job)
        shared = {name: rate for name, rate in mine.items() if name in theirs}
        if not shared:
            raise StateConflict(
                f"the runs share no metric: {first} has {', '.join(mine)}, {second} has "
                f"{', '.join(theirs)}"
            )
        comparison = compared(one.items, other.items, shared, _of_metrics(margins or {}, shared))
        if not comparison.common:
            raise StateConflict(
                f"the runs share no item: of {len(one.items):,} and {len(other.items):,} none has "
                "the same key, question and expected answer in both"
            )
        if not (comparison.is_whole or shared_only):
            raise StateConflict(
                f"the runs are over different items: {comparison.only_first:,} only in {first}, "
                f"{comparison.only_second:,} only in {second}, {comparison.changed:,} with another "
                f"question or expected answer; over the {comparison.common:,} in both: "
                "--shared-only (in Python shared_only=True)"
            )
        return Pair(one, other, comparison)

    def flipped(self, pair: Pair) -> Mapping[str, Shown]:
        """Every item that flipped by any metric, by its key in the first run."""
        flips = {f.key: f for one in pair.comparison.metrics.values() for f in one.flips}
        before = self._rows(pair.first, {one for f in flips.values() for one, _ in f.keys})
        after = self._rows(pair.second, {other for f in flips.values() for _, other in f.keys})
        found: dict[str, Shown] = {}
        for key, flip in flips.items():
            row = before[key]
            firsts = [text for one, _ in flip.keys for text in _answers(before[one])]
            seconds = [text for _, other in flip.keys for text in _answers(after[other])]
            found[key] = Shown(row.question, row.expected, tuple(firsts), tuple(seconds))
        return found

    def _rows(self, run: Run, keys: Collection[str]) -> Mapping[str, Any]:
        return {row.key: row for row in self.shown(run.job.id) if row.key in keys} if keys else {}

    def shown(self, job_id: int) -> Generator[Any, None, None]:
        """Each item with its question, expected answer, answers and scores, streamed."""
        return made.evaluated(self._database, job_id)


def _of_metrics(margins: Mapping[str | None, float], metrics: Collection[str]) -> dict[str, float]:
    """Margins by metric; that under None is for those without one of their own."""
    for name in margins:
        if name is not None and name not in metrics:
            raise UnknownName("metric", name, list(metrics))
    general = margins.get(None)
    found = dict.fromkeys(metrics, general) | {n: m for n, m in margins.items() if n is not None}
    return {name: margin for name, margin in found.items() if margin is not None}


def _answers(row: Any) -> list[str]:
    given = (row.output or {}).get("answers") or []
    return [str(one) for one in given] or [f"({row.code})"]


def rates_of(job: Job) -> Mapping[str, bool]:
    """The run's metrics, and whether their values are 0 and 1 only."""
    return {name: scorer(name).rate for name in job.params["scorers"]}
