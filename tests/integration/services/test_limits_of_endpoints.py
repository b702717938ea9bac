"""What a request may hold: by inputs and by tokens, of each endpoint and of each of its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from app.declared.endpoints import endpoint_of
from app.errors import ConfigError
from app.services import cutting
from app.settings import Settings
from app.storage.endpoint_store import document_of, spec_of
from tests.integration.services.test_endpoint_health import work_until
from tests.rig import MakeRig, Rig
from tests.scripted import Says, Scripted, scripted, vectors

WIDE, NARROW = "wide-embed", "narrow-embed"
MOST = {WIDE: (2_048, 300_000), NARROW: (32, 512)}
"""Inputs and tokens that a request for the model may hold, as the server has it."""


def strict(body: Mapping[str, Any]) -> Says:
    """Refuses what is too much; a token is four characters, as rough counts have it."""
    most_items, most_tokens = MOST[body["model"]]
    if len(body["input"]) > most_items:
        return refused(f"batch size > maximum allowed batch size {most_items}")
    if sum(-(-len(text) // 4) for text in body["input"]) > most_tokens:
        return refused(f"max {most_tokens} tokens per request")
    return vectors(body)


def refused(why: str) -> Says:
    return Says(400, {"error": {"message": why, "type": "invalid_request_error"}})


def at(server: Scripted, **more: Any) -> dict[str, Any]:
    return server.at(models=[WIDE, NARROW], **more)


LIMITS = {
    "max_batch_items": 2_048,
    "max_batch_tokens": 300_000,
    "limits": [{"model": NARROW, "max_batch_items": 32, "max_batch_tokens": 512}],
}


def submit(one: Rig, model: str, texts: list[str]) -> int:
    from app.services.submission import JobRequest
    from tests.rig import Texts

    params = {"model": model, "collection": model}
    request = JobRequest("embed", params, key=model, chunk_items=5_000)
    return one.wiring.submission.submit(request, Texts(texts)).job.id


def both_models(make: MakeRig, server: Scripted) -> list[dict[str, Any]]:
    """Two jobs of the endpoint's two models; what was asked for them."""
    one = make(endpoints=[at(server, **LIMITS)])
    short = [f"text number {n}" for n in range(2_500)]
    mixed = [f"text number {n} " + "and more of it " * (n % 9) for n in range(300)]
    for model, texts in ((WIDE, short), (NARROW, mixed)):
        job = one.work(submit(one, model, texts))
        assert one.progress(job.id).done == len(texts)
    return server.asked


def test_each_model_of_an_endpoint_gets_requests_of_its_own_size(rig: MakeRig) -> None:
    with scripted(strict) as server:
        asked = both_models(rig, server)
        sizes = {m: [len(b["input"]) for b in asked if b["model"] == m] for m in (WIDE, NARROW)}
        refusals = [body for body in asked if strict(body).status != 200]
    assert refusals == []
    assert sum(sizes[WIDE]) == 2_500
    assert max(sizes[WIDE]) == 2_048
    assert sum(sizes[NARROW]) == 300
    assert max(sizes[NARROW]) > 16  # As full as they may be.


def test_mutant_that_knows_only_the_endpoints_own_limits_is_refused(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = cutting.Cutting._most

    def blind(self: Any, claimed: Any) -> Any:
        from dataclasses import replace

        spec = replace(claimed.endpoint, limits=())
        return most(self, replace(claimed, choice=replace(claimed.choice, spec=spec)))

    monkeypatch.setattr(cutting.Cutting, "_most", blind)
    with scripted(strict) as server:
        asked = both_models(rig, server)
        assert any(strict(body).status != 200 for body in asked)


def test_two_endpoints_of_one_model_get_what_each_takes(rig: MakeRig) -> None:
    """Whoever takes a chunk over from the other cuts it anew."""

    def most(items: int) -> Any:
        return lambda body: vectors(body) if len(body["input"]) <= items else refused("too many")

    with scripted(most(100)) as large, scripted(most(8)) as small:
        one = rig(
            endpoints=[
                large.at("large", max_batch_items=100, max_concurrency=1),
                small.at("small", max_batch_items=8, max_concurrency=1),
            ],
            batch={"chunk_items": 50},
        )
        job_id = one.submit([f"text number {n}" for n in range(800)]).job.id
        work_until(one, job_id, 60)
        assert one.progress(job_id).done == 800
        counts = {
            server: [len(body["input"]) for body in server.asked] for server in (large, small)
        }
    assert max(counts[large]) == 50
    assert max(counts[small]) == 8
    assert one.one("SELECT count(*) FROM batch_calls WHERE error_code IS NOT NULL") == 0


def test_limits_that_nobody_declared_are_found_by_halving(rig: MakeRig) -> None:
    with scripted(strict) as server:
        one = rig(
            endpoints=[at(server)],
            batch={"micro_batch_items": 64, "micro_batch_tokens": 16_384},
        )
        texts = [f"text number {n} " + "and more of it " * (n % 9) for n in range(256)]
        job = one.work(submit(one, NARROW, texts))
        assert (one.progress(job.id).done, one.progress(job.id).failed) == (256, 0)
        # Of each 64 at most the halves, quarters and eighths above the one that fits.
        assert len(server.asked) <= 4 * 15


def test_limits_of_a_model_may_name_only_what_the_endpoint_serves() -> None:
    base = {"name": "e", "base_url": "http://x/v1", "models": ["a", "b"]}
    with pytest.raises(ConfigError, match="limits are for model 'c', which it does not serve"):
        endpoint_of({**base, "limits": [{"model": "c"}]})
    with pytest.raises(ConfigError, match="two limits for model 'a'"):
        endpoint_of({**base, "limits": [{"model": "a"}, {"model": "a"}]})
    settings = Settings(endpoints=[{**base, "limits": [{"model": "a", "max_batch_items": 3}]}])
    assert settings.endpoints[0].limits[0].max_batch_items == 3


def test_limits_of_a_model_outlive_being_kept_in_the_table() -> None:
    spec = endpoint_of(
        {
            "name": "e",
            "base_url": "http://x/v1",
            "models": ["a", "b"],
            "max_input_tokens": 8_192,
            "limits": [{"model": "b", "max_input_tokens": 512}],
        }
    )
    kept = spec_of(document_of(spec))
    assert kept == spec
    assert (spec.takes("a").input_tokens, spec.takes("b").input_tokens) == (8_192, 512)
