"""What may be done to a job, and how far it is."""

from __future__ import annotations

from dataclasses import replace

from app.domain.events import JobReady, Nobody
from app.domain.jobs import OPEN, Command, JobState, Progress, states_for

PROGRESS = Progress(
    total=100,
    done=60,
    unchanged=10,
    empty=5,
    failed=10,
    retrying=3,
    in_flight=2,
    chunks_open=4,
    prompt_tokens=1,
    completion_tokens=1,
    wasted_tokens=0,
)


def test_pending_is_what_has_no_result() -> None:
    assert (PROGRESS.pending, PROGRESS.share) == (30, 0.7)


def test_an_empty_job_is_done() -> None:
    assert replace(PROGRESS, total=0, done=0, failed=0).share == 1.0


def test_a_command_given_twice_is_no_error() -> None:
    assert JobState.PAUSED in states_for(Command.PAUSE)
    assert JobState.CANCELLED in states_for(Command.CANCEL)


def test_what_has_ended_is_neither_paused_nor_cancelled() -> None:
    for command in (Command.PAUSE, Command.RESUME, Command.CANCEL):
        assert JobState.COMPLETED not in states_for(command)
        assert JobState.FAILED not in states_for(command)
    assert JobState.COMPLETED not in OPEN


def test_nobody_takes_note_of_nothing() -> None:
    Nobody().saw(JobReady(1, "embed", 3))
