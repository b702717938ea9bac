"""Whether a job's items and results are still kept."""

from __future__ import annotations

from app.domain.jobs import Job
from app.errors import StateConflict


def check_kept(job: Job) -> None:
    """StateConflict: retention has deleted them, so that nothing would look like an empty job."""
    if job.pruned_at is not None:
        raise StateConflict(
            f"the items and results of job {job.key!r} were deleted on {job.pruned_at:%Y-%m-%d} "
            "([retention] keep_jobs_days); submit it again under another key to have them anew"
        )
