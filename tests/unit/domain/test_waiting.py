"""Why a job waits: every state, and every reason there is."""

from __future__ import annotations

import runpy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.domain.jobs import OPEN, JobState
from app.domain.waiting import MEANINGS, NEEDS_SOMEBODY, ChunksNow, Facts, Hold, waiting

GENERATE = Path(__file__).parents[3] / "docs" / "reference" / "generate.py"
EXAMPLES: dict[Hold, tuple[Any, Facts]] = runpy.run_path(str(GENERATE))["examples"]()

SAYS = {
    Hold.LOADING: "being loaded",
    Hold.PAUSED_BY_HAND: "giveway jobs resume nightly",
    Hold.PAUSED: "budget spent",
    Hold.AFTER_JOBS: "waits for job first and 1 more",
    Hold.OUTSIDE_WINDOW: "until 22:00 Europe/Berlin",
    Hold.FINISHING: "every item has its result",
    Hold.POOL_GONE: "its pool 'main' is not declared",
    Hold.NO_WORKER: "no batch worker runs",
    Hold.UNKNOWN_KIND: "no running batch worker knows kind 'translate' (they know embed)",
    Hold.UNKNOWN_MODEL: "no running batch worker knows model 'new-model'",
    Hold.NO_ENDPOINT: "no endpoint of pool 'main' serves model 'm'",
    Hold.ENDPOINTS_AWAY: "gpu-a is open after connection until 12:05:00 UTC",
    Hold.RATE_BUDGET: "the rate budget of endpoint 'gpu-a'",
    Hold.RETRY_LATER: "its 3 chunks are tried again at 12:05:00 UTC",
    Hold.OPERATOR_LIMIT: "an operator holds pool 'main' at 0 until 12:05:00 UTC",
    Hold.LIMIT_REACHED: "lets 3 in (growing), and 3 batch in flight",
    Hold.PLACES_TAKEN: "all 8 places of pool 'main' are taken: 6 by people, 2 by batch",
    Hold.ENDPOINTS_FULL: "have no place free",
    Hold.TURN: "job urgent comes first",
    Hold.NO_TICKS: "nothing was ever decided",
    Hold.RINGING: "a place is free",
}


def test_every_reason_has_a_meaning_an_example_and_words():
    assert set(MEANINGS) == set(EXAMPLES) == set(SAYS) == set(Hold)


@pytest.mark.parametrize("hold", list(Hold))
def test_the_facts_that_hold_a_job_say_so(hold: Hold):
    why = waiting(*EXAMPLES[hold])

    assert why is not None
    assert why.code is hold
    assert SAYS[hold] in str(why)


@pytest.mark.parametrize("state", list(JobState))
@pytest.mark.parametrize("hold", list(Hold))
def test_whatever_holds_it_an_open_job_says_something_and_one_that_is_over_nothing(
    hold: Hold, state: JobState
):
    job, facts = EXAMPLES[hold]
    why = waiting(replace(job, state=state), facts)

    assert (why is not None) is (state in OPEN)


def test_a_job_at_work_waits_for_nothing():
    for job, facts in EXAMPLES.values():
        running = replace(job, state=JobState.RUNNING, window=None)
        at_work = replace(facts, chunks=ChunksNow(ready=3, in_flight=1), uncompleted=())
        assert waiting(running, at_work) is None


def test_what_a_person_must_look_at_names_what_to_do():
    for hold in NEEDS_SOMEBODY - {Hold.NO_ENDPOINT}:
        said = str(waiting(*EXAMPLES[hold]))
        assert "giveway " in said or "?" in said


@pytest.mark.parametrize(
    ("at", "says"),
    [
        (datetime(2026, 3, 2, 12, tzinfo=UTC), "until 21:00 UTC"),
        (datetime(2026, 3, 2, 23, tzinfo=UTC), "until 21:00 UTC tomorrow"),
    ],
)
def test_a_window_that_opens_tomorrow_says_so(at: datetime, says: str):
    job, facts = EXAMPLES[Hold.OUTSIDE_WINDOW]
    hours = {"from": "21:00", "to": "22:00", "timezone": "UTC"}
    why = waiting(replace(job, window=hours), replace(facts, now=at))

    assert str(why).endswith(says)


def test_tomorrow_is_the_zones_own():
    job, facts = EXAMPLES[Hold.OUTSIDE_WINDOW]
    hours = {"from": "01:00", "to": "02:00", "timezone": "Asia/Tokyo"}
    late = datetime(2026, 3, 2, 14, 59, tzinfo=UTC)  # 23:59 in Tokyo
    said = [
        str(waiting(replace(job, window=hours), replace(facts, now=late + timedelta(minutes=n))))
        for n in (0, 2)
    ]

    assert [one.endswith("tomorrow") for one in said] == [True, False]
