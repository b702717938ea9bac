"""Submitting: once a key, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.domain.jobs import JobState
from app.errors import BadParams, BadSource, CollectionConflict, KeyConflict, UnknownName
from app.services.submission import JobRequest
from tests.rig import MakeRig, Texts


def test_a_submitted_job_is_ready_with_its_items_and_chunks(rig: MakeRig) -> None:
    one = rig()
    submitted = one.submit([f"text {n}" for n in range(120)])

    assert (submitted.created, submitted.job.state, submitted.job.total) == (True, "ready", 120)
    assert one.rows("SELECT no, first_seq, last_seq, items FROM chunks ORDER BY no") == [
        (1, 1, 50, 50),
        (2, 51, 100, 50),
        (3, 101, 120, 20),
    ]


def test_the_same_key_and_request_is_the_same_job(rig: MakeRig) -> None:
    one = rig()
    first = one.submit(["a", "b"])
    again = one.submit(["a", "b"])

    assert again.job.id == first.job.id
    assert not again.created
    assert one.one("SELECT count(*) FROM items") == 2


def test_twenty_submissions_at_once_make_one_job(rig: MakeRig) -> None:
    one = rig()
    texts = [f"text {n}" for n in range(500)]
    with ThreadPoolExecutor(20) as pool:
        submitted = list(pool.map(lambda _: one.submit(texts), range(20)))

    assert len({s.job.id for s in submitted}) == 1
    assert sum(s.created for s in submitted) == 1
    assert one.one("SELECT count(*) FROM items") == 500
    assert one.one("SELECT sum(items) FROM chunks") == 500


def test_another_request_under_the_same_key_is_a_conflict_that_says_so(rig: MakeRig) -> None:
    one = rig()
    one.submit(["a"])
    with pytest.raises(KeyConflict, match=r"'job' belongs to job 1 .*other content"):
        one.submit(["b"])
    with pytest.raises(KeyConflict):
        one.submit(["a"], collection="elsewhere")


def test_without_a_key_the_content_is_the_key(rig: MakeRig) -> None:
    one = rig()
    request = JobRequest("embed", {"model": "fake-embed", "collection": "docs"})
    first = one.wiring.submission.submit(request, Texts(["a"]))
    again = one.wiring.submission.submit(request, Texts(["a"]))
    other = one.wiring.submission.submit(request, Texts(["b"]))

    assert first.job.id == again.job.id != other.job.id


class Broken(Texts):
    def rows(self) -> Iterator[tuple[str, bytes]]:
        yield from super().rows()
        raise BadSource("line 3: not JSON")


def test_a_source_that_breaks_leaves_nothing_behind(rig: MakeRig) -> None:
    one = rig()
    request = JobRequest("embed", {"model": "fake-embed", "collection": "docs"}, key="job")
    with pytest.raises(BadSource):
        one.wiring.submission.submit(request, Broken(["a", "b"]))

    counts = "SELECT (SELECT count(*) FROM {}), (SELECT count(*) FROM {})"
    assert one.rows(counts.format("jobs", "items")) == [(0, 0)]
    assert one.submit(["a", "b"]).created


def test_a_loader_that_died_is_taken_over(rig: MakeRig) -> None:
    one = rig()
    submitted = one.submit(["a", "b"])
    one.execute("DELETE FROM chunks; DELETE FROM items; UPDATE jobs SET state = 'loading'")

    again = one.submit(["a", "b"])

    assert (again.job.id, again.job.state, again.created) == (submitted.job.id, "ready", True)
    assert one.one("SELECT count(*) FROM items") == 2


def test_who_stops_the_loading_leaves_no_job(rig: MakeRig) -> None:
    class Stopped(Texts):
        def rows(self) -> Iterator[tuple[str, bytes]]:
            yield from super().rows()
            raise KeyboardInterrupt

    one = rig()
    request = JobRequest("embed", {"model": "fake-embed", "collection": "docs"}, key="job")
    with pytest.raises(KeyboardInterrupt):
        one.wiring.submission.submit(request, Stopped(["a", "b"]))

    assert one.rows("SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM items)") == [(0, 0)]


def test_a_job_of_no_items_completes(rig: MakeRig) -> None:
    one = rig()
    job = one.submit([]).job
    assert one.work(job.id).state is JobState.COMPLETED


def test_wrong_parameters_name_what_is_known(rig: MakeRig) -> None:
    submit = rig().wiring.submission.submit
    with pytest.raises(UnknownName, match=r"no job kind 'embd'; known: .*embed"):
        submit(JobRequest("embd", {}), Texts([]))
    with pytest.raises(UnknownName, match=r"'gpt-9'; known: fake-chat, fake-embed"):
        submit(JobRequest("embed", {"model": "gpt-9", "collection": "c"}), Texts([]))
    with pytest.raises(
        BadParams, match=r"colection.*known parameters: collection, .*model, .*prefix"
    ):
        submit(JobRequest("embed", {"model": "fake-embed", "colection": "c"}), Texts([]))


def test_models_are_never_mixed_in_a_collection(rig: MakeRig) -> None:
    one = rig()
    one.submit(["a"])
    request = JobRequest("embed", {"model": "fake-chat", "collection": "docs"}, key="other")
    with pytest.raises(CollectionConflict, match="'docs' holds vectors of model 'fake-embed'"):
        one.wiring.submission.submit(request, Texts(["a"]))
    assert one.one("SELECT count(*) FROM jobs") == 1
