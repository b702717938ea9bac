"""What the endpoint says of its KV memory bounds the limit, from its page of metrics to a claim."""

from __future__ import annotations

from app.domain.throttle.replay import differences
from app.domain.throttle.values import Decision
from tests.rig import MakeRig, Rig
from tests.served import serving
from tests.waiting import until

POOL = [{"name": "main", "total": 32, "batch_max": 31}]


def answered(one: Rig, tokens: int) -> None:
    """Ten batch calls of late, each of which held so many tokens, and a person's of 400."""
    one.execute(
        "INSERT INTO batch_calls (job_id, pool, endpoint, ended_at, seconds, items, prompt_tokens,"
        " completion_tokens) SELECT 1, 'main', 'sim', clock_timestamp(), 3, 1, :prompt, 200"
        " FROM generate_series(1, 10)",
        prompt=tokens - 100,
    )
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state,"
        " submitted_at, started_at, first_token_at, finished_at, prompt_tokens, completion_tokens)"
        " SELECT gen_random_uuid(), 'main', 'chat', 'm', 'sim', 'done', now() - interval '2 s',"
        " now() - interval '2 s', now() - interval '1.9 s', clock_timestamp(), 350, 100"
    )


def ticked(one: Rig, capacity: float = 20.0) -> Decision:
    """The next decision, a second after the last, of a pool that bears so many requests."""
    one.execute(
        "UPDATE throttle_limits SET computed_at = now() - interval '1 s', state = state ||"
        " jsonb_build_object('capacity', CAST(:c AS float8), 'slow_start', false,"
        " 'interactive_peak', 0, 'decided_at', now() - interval '1 s')",
        c=capacity,
    )
    decision = one.wiring.throttling.tick("main")
    assert decision is not None
    return decision


def memory_seen(one: Rig) -> bool:
    gauges = one.wiring.scraping.gauges(one.wiring.pools.named("main"))
    return (
        gauges is not None and gauges.kv_capacity_tokens is not None and gauges.age_s < 2
    )  # Fresh enough to be so at the tick that follows.


def test_memory_bounds_the_limit_from_the_endpoints_page_to_the_claim(rig: MakeRig) -> None:
    with serving("--kv-tokens", "10000") as small:
        told = {"name": "sim", "base_url": small.url, "models": ["fake-chat", "fake-embed"]}
        one = rig(pools=POOL, endpoints=[{**told, "max_concurrency": 32}])
        free = ticked(one)
        answered(one, tokens=1_000)
        until(lambda: memory_seen(one))
        bound = ticked(one)
        shown = one.wiring.inspection.pool("main")

        # 9,200 − 1,000 kept free, by 1,000 each.
        assert free.limit == 20
        assert (bound.limit, bound.reason) == (8, "memory")
        assert (shown.limit, shown.reason) == (8, "memory")
        assert shown.kv is not None
        assert (shown.kv.per_batch_tokens, shown.kv.capacity_tokens) == (1_000, 10_000)
        rows = one.rows("SELECT arguments, result FROM throttle_decisions")
        assert len(rows) == 2
        for arguments, result in rows:
            assert differences(arguments, result) == {}


def test_without_a_page_of_metrics_nothing_is_bounded(rig: MakeRig) -> None:
    one = rig(pools=POOL)
    one.wiring.throttling._gauges = lambda _: None
    answered(one, tokens=1_000_000)
    decision = ticked(one)

    assert (decision.limit, decision.state.kv is not None) == (20, True)
    assert one.wiring.inspection.pool("main").limit == 20


def test_a_decision_made_before_there_were_sizes_replays_exactly(rig: MakeRig) -> None:
    """Such a row has neither the figures nor the place where they are kept."""
    one = rig(pools=POOL)
    until(lambda: memory_seen(one))
    ticked(one)
    [(arguments, result)] = one.rows("SELECT arguments, result FROM throttle_decisions")
    assert arguments["reading"]["gauges"]["kv_capacity_tokens"] > 0
    for name in ("people_kv_tokens", "batch_kv_tokens"):
        del arguments["reading"][name]
    del arguments["state"]["kv"], result["state"]["kv"]

    assert differences(arguments, result) == {}
