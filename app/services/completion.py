"""Completion: level-triggered. A sweep finishes jobs with nothing left to do."""

from __future__ import annotations

from app.domain.events import JobFinished, Observer
from app.domain.jobs import JobState
from app.storage.database import Database
from app.storage.job_store import JobStore


class Completion:
    """The use case. Run by a tick and after each chunk; doing it twice changes nothing."""

    def __init__(self, database: Database, observer: Observer) -> None:
        self._database = database
        self._observer = observer

    def sweep(self) -> list[int]:
        """Finish what is done; the ids of the jobs that finished now."""
        with self._database.transaction() as tx:
            finished = JobStore(tx).finish_done()
            progress = JobStore(tx).progress([job_id for job_id, _ in finished])
        for job_id, kind in finished:
            made = progress[job_id]
            self._observer.saw(
                JobFinished(job_id, kind, JobState.COMPLETED, made.done, made.failed)
            )
        return [job_id for job_id, _ in finished]
