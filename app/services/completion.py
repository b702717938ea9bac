"""Completion: level-triggered. A sweep finishes jobs with nothing left to do."""

from __future__ import annotations

from app.domain.events import JobFinished, JobSteered, Observer
from app.domain.jobs import JobState
from app.services.ending import note_end
from app.storage.after_store import AfterStore
from app.storage.collection_store import CollectionStore
from app.storage.database import Database
from app.storage.progress_store import ProgressStore


class Completion:
    """The use case. Run by a tick and after each chunk; doing it twice changes nothing."""

    def __init__(self, database: Database, observer: Observer) -> None:
        self._database = database
        self._observer = observer

    def sweep(self) -> list[int]:
        """Finish what is done, and pause what waits in vain; the ids of those that finished now."""
        with self._database.transaction() as tx:
            in_vain = AfterStore(tx).pause_in_vain()
            finished = ProgressStore(tx).finish_done()
            CollectionStore(tx).delete_missing([job_id for job_id, _ in finished])
            progress = ProgressStore(tx).progress([job_id for job_id, _ in finished])
            note_end(tx, [job_id for job_id, _ in finished])
        for job_id, _ in in_vain:
            self._observer.saw(JobSteered(job_id, JobState.PAUSED, "after_jobs"))
        for job_id, kind in finished:
            made = progress[job_id]
            self._observer.saw(
                JobFinished(job_id, kind, JobState.COMPLETED, made.done, made.failed)
            )
        return [job_id for job_id, _ in finished]
