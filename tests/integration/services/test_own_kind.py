"""The kind that the docs show, from the settings to its results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.jobs import JobState
from app.kinds import registry
from app.services.submission import JobRequest
from tests.docs_kind import source
from tests.rig import MakeRig, Texts


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The page's file as an importable module; its name."""
    (tmp_path / "translate_from_docs.py").write_text(source())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_declared", {})
    registry.kinds.cache_clear()
    yield "translate_from_docs"
    registry.kinds.cache_clear()


def test_it_runs_on_a_real_endpoint(rig: MakeRig, page: str) -> None:
    one = rig(kinds={"modules": [page]})
    request = JobRequest("translate", {"model": "fake-chat", "language": "French"}, key="job")
    texts = ["The cat sat on the mat.", "", "It rains in Paris today."]
    job = one.work(one.wiring.submission.submit(request, Texts(texts)).job.id)

    made = one.progress(job.id)
    assert (job.state, made.done, made.empty, made.failed) == (JobState.COMPLETED, 3, 1, 0)
    outputs = one.rows("SELECT output FROM results WHERE status = 'done' ORDER BY seq")
    assert all(output["text"] and output["cut"] in (True, False) for (output,) in outputs)
