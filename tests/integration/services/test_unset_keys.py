"""A key that is not set where the workers run costs the jobs of that endpoint, and no others."""

from __future__ import annotations

import pytest

from app.domain.jobs import JobState
from app.services.submission import JobRequest
from tests.rig import MakeRig, Rig, Texts


def keyed(rig: MakeRig, monkeypatch: pytest.MonkeyPatch, *, models: list[str]) -> Rig:
    """An endpoint `paid` for `models` whose key is not set, beside `sim`."""
    monkeypatch.delenv("PAID_KEY", raising=False)
    sim = rig()._given["endpoints"][0]
    paid = {**sim, "name": "paid", "models": models, "api_key_env": "PAID_KEY"}
    return rig(endpoints=[paid, sim])


def test_a_job_that_needs_it_pauses_and_says_which_variable(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = keyed(rig, monkeypatch, models=["paid-embed"])
    request = JobRequest("embed", {"model": "paid-embed", "collection": "paid"}, key="paid")
    paid = one.wiring.submission.submit(request, Texts(["a", "b"])).job
    other = one.submit(["c", "d"]).job

    assert one.work(paid.id).state is JobState.PAUSED
    assert "PAID_KEY (its api_key_env) is not set" in str(one.wiring.inspection.job("paid").waits)
    assert one.work(other.id).state is JobState.COMPLETED


def test_a_job_that_another_endpoint_serves_goes_on_there(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = keyed(rig, monkeypatch, models=["fake-embed"])
    job = one.submit([f"text {n}" for n in range(60)]).job

    assert one.work(job.id).state is JobState.COMPLETED
    assert one.progress(job.id).done == 60
