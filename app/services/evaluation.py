"""Evaluation: what a run says, and what a second one says against it. Reads only."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.evaluation.comparing import Comparison, compared
from app.domain.evaluation.runs import MOST_UNSCORED, RunItem, item_of
from app.domain.evaluation.summary import Summary, refusal, summarised
from app.domain.jobs import Job
from app.errors import NotFound, StateConflict
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


class Evaluation:
    """The use case behind `giveway eval`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, reference: str, most_unscored: float = MOST_UNSCORED) -> Run:
        """The run with this key or id. NotFound: there is none; StateConflict: it is no run, or its
        scores are no longer kept."""
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

    def pair(self, first: str, second: str, most_unscored: float = MOST_UNSCORED) -> Pair:
        """Two runs over what they have in common. StateConflict: no metric, or no item."""
        one, other = (self.run(name, most_unscored) for name in (first, second))
        mine, theirs = rates_of(one.job), rates_of(other.job)
        shared = {name: rate for name, rate in mine.items() if name in theirs}
        if not shared:
            raise StateConflict(
                f"the runs share no metric: {first} has {', '.join(mine)}, {second} has "
                f"{', '.join(theirs)}"
            )
        comparison = compared(one.items, other.items, shared)
        if not comparison.common:
            raise StateConflict(
                f"the runs share no item: of {len(one.items):,} and {len(other.items):,} none has "
                "the same key, question and expected answer in both"
            )
        return Pair(one, other, comparison)

    def shown(self, job_id: int) -> Generator[Any, None, None]:
        """Each item with its question, expected answer, answers and scores, streamed."""
        return made.evaluated(self._database, job_id)


def rates_of(job: Job) -> Mapping[str, bool]:
    """The run's metrics, and whether their values are 0 and 1 only."""
    return {name: scorer(name).rate for name in job.params["scorers"]}
