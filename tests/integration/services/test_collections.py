"""Collections over their life: what changes, what goes, what is wrong, another model, the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson
import pytest

from app.domain.fingerprint import fingerprint
from app.domain.indexing import IndexRules
from app.domain.jobs import Job, JobState
from app.errors import CollectionConflict, Conflict, NotFound, UsageError
from app.services import vectors as vectors_service
from app.services.indexing import Indexing
from app.services.submission import JobRequest
from app.storage.vector_store import VectorStore
from tests.rig import MakeRig, Rig
from tests.served import Served, serving

SOURCE = b"s" * 16
LONG = " ".join(f"Sentence number {n} speaks of subject {n % 7}." for n in range(60))


class Keyed:
    """Items from texts by key."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def content_hash(self) -> bytes:
        return fingerprint(*(part for pair in self._texts.items() for part in pair))

    def rows(self) -> Iterator[tuple[str, bytes]]:
        for key, text in self._texts.items():
            yield key, orjson.dumps({"text": text})

    def skipped(self) -> int:
        return 0


def submitted(one: Rig, key: str, texts: Mapping[str, str], **more: Any) -> Job:
    params = {"model": "fake-embed", "collection": "docs", **more.pop("params", {})}
    request = JobRequest("embed", params, key=key, **more)
    return one.wiring.submission.submit(request, Keyed(texts)).job


def embedded(one: Rig, key: str, texts: Mapping[str, str], **more: Any) -> Job:
    return one.work(submitted(one, key, texts, **more).id)


def at(name: str, url: str, model: str) -> dict[str, Any]:
    return {"name": name, "base_url": url, "models": [model], "max_concurrency": 16}


def keys(one: Rig) -> set[str]:
    return {row.key for row in one.rows("SELECT key FROM embeddings")}


def sent(one: Rig) -> int:
    return int(one.endpoint.ledger()["inputs"])


def best(one: Rig, query: str, collection: str = "docs") -> tuple[str, str | None]:
    hit = one.wiring.searching.search(collection, query, 1)[0]
    return hit.key, hit.text


def test_what_a_source_gives_no_more_is_deleted_and_only_that(rig: MakeRig) -> None:
    one = rig()
    more: dict[str, Any] = {"source": SOURCE, "delete_missing": True}
    embedded(one, "night 1", {"a": "one", "b": "two", "c": "three"}, **more)
    embedded(one, "other", {"x": "of another source"}, source=b"o" * 16)
    embedded(one, "file", {"y": "of no source"})
    before = sent(one)
    job = embedded(one, "night 2", {"a": "one", "c": "three, changed", "d": "four"}, **more)

    assert keys(one) == {"a", "c", "d", "x", "y"}
    assert sent(one) - before == 2
    assert one.job(job.id).deleted == 1
    again = embedded(
        one, "night 3", {"a": "one", "c": "three, changed", "d": "four"}, name="n3", **more
    )
    assert (sent(one) - before, one.job(again.id).deleted) == (2, 0)


def test_an_empty_source_and_bad_lines_delete_nothing(rig: MakeRig) -> None:
    one = rig()
    more: dict[str, Any] = {"source": SOURCE, "delete_missing": True}
    embedded(one, "night 1", {"a": "one", "b": "two"}, **more)
    embedded(one, "night 2", {}, **more)
    assert keys(one) == {"a", "b"}
    job = submitted(one, "night 3", {"a": "one"}, **more)
    one.execute("UPDATE jobs SET skipped_lines = 1 WHERE id = :id", id=job.id)
    one.work(job.id)
    assert keys(one) == {"a", "b"}


def test_an_item_that_moves_to_another_source_is_that_ones(rig: MakeRig) -> None:
    one = rig()
    embedded(one, "file", {"a": "one", "b": "two"}, source=b"f" * 16)
    more: dict[str, Any] = {"source": SOURCE, "delete_missing": True}
    embedded(one, "table", {"a": "one", "b": "two"}, **more)
    embedded(one, "table again", {"a": "one"}, **more)
    assert keys(one) == {"a"}


def test_the_newer_text_wins_whoever_writes_last(rig: MakeRig) -> None:
    """The older job's call ends after the newer job was done."""
    one = rig(batch={"chunk_items": 50, "micro_batch_items": 10})
    embedded(one, "first", {"z": "so that the dimension is known"})
    older = submitted(one, "older", {"a": "the old words"})
    _overtaken(one, older, {"a": "quite different new words"})
    assert best(one, "quite different new words") == ("a", "quite different new words")
    assert one.rows("SELECT code FROM results WHERE job_id = :id", id=older.id)[0].code == (
        "superseded"
    )


def test_a_newer_job_that_changes_nothing_wins_too(rig: MakeRig) -> None:
    """A to B to A again: the newest job makes no call, and B must not come in afterwards."""
    one = rig()
    embedded(one, "first", {"a": "the words of A"})
    older = submitted(one, "older", {"a": "other words, B"})
    _overtaken(one, older, {"a": "the words of A"})
    assert best(one, "the words of A") == ("a", "the words of A")


def test_mutant_without_asking_for_newer_jobs_old_words_win(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VectorStore, "superseded", lambda *_: set())
    one = rig()
    embedded(one, "first", {"a": "the words of A"})
    older = submitted(one, "older", {"a": "other words, B"})
    _overtaken(one, older, {"a": "the words of A"})
    assert best(one, "the words of A") == ("a", "other words, B")


def _overtaken(one: Rig, older: Job, texts: Mapping[str, str]) -> None:
    """Run `older`, and while its call is answered submit and finish a newer job with `texts`."""
    real, begun = vectors_service.VectorStore.share, []

    def share(store: VectorStore, collection_id: int) -> None:
        if not begun:
            begun.append(True)
            embedded(one, "newer", texts)
        real(store, collection_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors_service.VectorStore, "share", share)
        one.work(older.id)


def test_long_texts_are_split_found_by_their_piece_and_shrink_again(rig: MakeRig) -> None:
    one = rig(batch={"micro_batch_items": 3})
    params = {"long_texts": "split", "most_tokens": 32}
    job = embedded(one, "split", {"long": LONG, "short": "a short one"}, params=params)
    assert (job.state, one.progress(job.id).done) == (JobState.COMPLETED, 2)
    count = one.one("SELECT count(*) FROM embeddings WHERE key = 'long'")
    assert count > 10
    key, text = best(one, "Sentence number 42 speaks of subject 0.")
    assert (key, text is not None and "number 42" in text) == ("long", True)
    assert one.wiring.collections.verify("docs").sound

    before = sent(one)
    embedded(one, "again", {"long": LONG, "short": "a short one"}, params=params, name="again")
    assert sent(one) == before
    embedded(one, "shrunk", {"long": LONG[:200], "short": "a short one"}, params=params)
    assert 0 < one.one("SELECT count(*) FROM embeddings WHERE key = 'long'") < 5
    assert one.wiring.collections.verify("docs").sound


def test_a_piece_that_fails_fails_its_item_and_no_other(rig: MakeRig) -> None:
    one = rig(batch={"micro_batch_items": 2})
    bad = LONG.replace("number 30", "POISON")
    one.endpoint.order({"kind": "reject_text", "text": "POISON", "path": "embeddings"})
    params = {"long_texts": "split", "most_tokens": 32}
    job = embedded(one, "split", {"bad": bad, "good": LONG}, params=params)
    progress = one.progress(job.id)
    assert (job.state, progress.done, progress.failed) == (JobState.COMPLETED, 1, 1)
    assert one.one("SELECT count(*) FROM results") == 2


@pytest.mark.parametrize(
    ("how", "status", "code", "output"),
    [("fail", "failed", "too_long", None), ("truncate", "done", None, {"truncated_at": 116})],
)
def test_long_texts_may_be_refused_or_cut_and_the_result_says_so(
    rig: MakeRig, how: str, status: str, code: str | None, output: Any
) -> None:
    one = rig()
    embedded(one, "j", {"a": LONG}, params={"long_texts": how, "most_tokens": 32})
    row = one.rows("SELECT status, code, output FROM results")[0]
    assert (row.status, row.code, row.output) == (status, code, output)


def test_verify_finds_every_fault(rig: MakeRig) -> None:
    one = rig()
    embedded(one, "j", {f"k{n}": f"text {n}" for n in range(20)}, source=SOURCE)
    assert one.wiring.collections.verify("docs").sound
    one.execute("DELETE FROM embeddings WHERE key = 'k1'")
    one.execute("UPDATE embeddings SET content_hash = 'x' WHERE key = 'k2'")
    one.execute(
        "UPDATE embeddings SET vector = array_fill(0, ARRAY[vector_dims(vector)])::vector "
        "WHERE key = 'k3'"
    )
    one.execute("UPDATE embeddings SET vector = '[1,2]' WHERE key = 'k4'")
    one.execute("UPDATE embeddings SET key = 'stranger' WHERE key = 'k5'")
    one.execute("UPDATE embeddings SET piece = 2 WHERE key = 'k6'")
    found = one.wiring.collections.verify("docs")
    assert {fault: sorted(keys) for fault, (_, keys) in found.faults.items()} == {
        "missing": ["k1", "k5"],
        "stale": ["k2"],
        "zeros": ["k3"],
        "wrong_length": ["k4"],
        "orphan": ["stranger"],
        "hole": ["k6"],
    }


def test_another_model_beside_and_the_swap(rig: MakeRig) -> None:
    with serving("--places", "32", "--speed", "50", "--ledger", "--models", "other-embed") as new:
        _swapped(rig, new)


def _swapped(rig: MakeRig, new: Served) -> None:
    url = rig().endpoint.url
    one = rig(endpoints=[at("sim", url, "fake-embed"), at("new", new.url, "other-embed")])
    texts = {f"k{n}": f"text number {n}" for n in range(120)} | {"k42": "a zebra by the river"}
    embedded(one, "old", texts, source=SOURCE, delete_missing=True)
    collections = one.wiring.collections
    with pytest.raises(UsageError, match="of model 'fake-embed' already"):
        collections.reembedding("docs", "fake-embed")
    with pytest.raises(NotFound, match="nothing was made to replace"):
        collections.swap("docs")
    request, items = collections.reembedding("docs", "other-embed")
    job = one.wiring.submission.submit(request, items).job
    collections.mark_replacement("docs--other-embed", "docs")
    with pytest.raises(Conflict, match="lacks 120 items"):
        collections.swap("docs")
    one.work(job.id)

    assert collections.swap("docs") == ("docs--other-embed", "docs--fake-embed")
    stats = {s.name: (s.model, s.items) for s in collections.stats()}
    assert stats == {"docs": ("other-embed", 120), "docs--fake-embed": ("fake-embed", 120)}
    assert best(one, "a zebra by the river")[0] == "k42"
    before = int(new.ledger()["inputs"])
    changed = texts | {"k0": "changed"}
    del changed["k1"]
    params = {"model": "other-embed"}
    nightly = embedded(one, "n", changed, source=SOURCE, delete_missing=True, params=params)
    assert (int(new.ledger()["inputs"]) - before, one.job(nightly.id).deleted) == (1, 1)
    with pytest.raises(CollectionConflict):
        submitted(one, "old model", texts)


def test_a_job_whose_collection_was_swapped_away_pauses_and_says_why(rig: MakeRig) -> None:
    one = rig()
    job = submitted(one, "j", {"a": "one"})
    one.execute("UPDATE collections SET model = 'another'")
    assert one.work(job.id).state is JobState.PAUSED
    assert "another" in str(one.job(job.id).reason)
    one.execute("UPDATE collections SET model = 'fake-embed'")
    one.wiring.steering.resume("j")
    assert one.work(job.id).state is JobState.COMPLETED


def test_the_index_is_built_after_a_load_used_by_searches_and_dropped_before_the_next(
    rig: MakeRig,
) -> None:
    one = rig()
    rules = IndexRules(worth=500)
    indexing = Indexing(one.database, rules)
    texts = {f"k{n}": f"text number {n} of {n % 13}" for n in range(600)}
    job = submitted(one, "bulk", texts)
    assert indexing.sweep() == {}
    one.work(job.id)
    assert indexing.sweep() == {"docs": "build"}
    assert one.wiring.collections.stats("docs")[0].indexed
    assert indexing.sweep() == {}
    assert best(one, "text number 42 of 3")[0] == "k42"
    assert "ix_embeddings_hnsw" in _plan(one)

    submitted(one, "next", {f"n{n}": f"new text {n}" for n in range(300)})
    assert indexing.sweep() == {"docs": "drop"}
    assert not one.wiring.collections.stats("docs")[0].indexed


def _plan(one: Rig) -> str:
    with one.database.transaction() as tx:
        collection = VectorStore(tx).find("docs")
        assert collection is not None
        seen: list[str] = []
        real = tx.execute

        def explained(statement: Any, *args: Any, **more: Any) -> Any:
            if "<=>" in str(statement):
                from sqlalchemy import text

                tx.execute = real  # type: ignore[method-assign]
                tx.execute(text("SET LOCAL enable_seqscan = off"))
                seen.extend(tx.execute(text(f"EXPLAIN {statement}"), *args, **more).scalars())
            return real(statement, *args, **more)

        tx.execute = explained  # type: ignore[method-assign]
        VectorStore(tx).nearest(collection, np.ones(collection.dimension or 1, np.float32), 5)
    return "\n".join(seen)
