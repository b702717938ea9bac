"""Micro-batches find the size that the endpoint carries well, and work goes on as fast."""

from __future__ import annotations

from app.domain.knees import Knee
from app.storage.knee_store import KneeStore
from tests.rig import MakeRig, Rig

WORDS = "the quiet harbour kept its lanterns lit while the evening boats came home "
TEXTS = [f"{n:05d} {WORDS * 2}" for n in range(28 * 256)]
LARGE = 256


COSTS = """
    CREATE FUNCTION as_modelled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        NEW.seconds := 0.0125 * ceil(NEW.prompt_tokens / 2048.0) + 0.00006 * NEW.prompt_tokens;
        RETURN NEW;
    END $$;
    CREATE TRIGGER as_modelled BEFORE INSERT ON batch_calls
        FOR EACH ROW EXECUTE FUNCTION as_modelled()
"""
"""Each call is said to have taken what it takes at an endpoint like a real one, 135 ms for a
step of 2,048 tokens, whatever this machine does besides."""


def calls(one: Rig, newest: int, oldest: int) -> tuple[float, float]:
    """(items a call, items a second) of the answered calls of those chunks' worth."""
    items, seconds, count = one.rows(
        "SELECT sum(items), sum(seconds), count(*) FROM (SELECT * FROM batch_calls"
        " ORDER BY id DESC OFFSET :skip LIMIT :most) AS c",
        skip=newest,
        most=oldest - newest,
    )[0]
    return float(items) / count, float(items) / float(seconds)


def test_a_micro_batch_that_is_too_large_shrinks_and_throughput_stays(rig: MakeRig) -> None:
    one = rig(
        batch={"chunk_items": LARGE, "micro_batch_items": LARGE, "micro_batch_tokens": 100_000}
    )
    one.execute(COSTS)
    one.wiring.learning.tick()
    assert one.rows("SELECT * FROM endpoint_knees") == []
    job_id = one.submit(TEXTS).job.id
    for _ in range(27):
        assert one.wiring.execution.run(job_id).ended == "finished"
        one.wiring.learning.tick()

    total = one.one("SELECT count(*) FROM batch_calls")
    first_items, first_rate = calls(one, total - 4, total)
    last_items, last_rate = calls(one, 0, 16)
    assert first_items == LARGE
    told = (
        f"{first_items:.0f} items a call, {first_rate:.0f}/s; {last_items:.0f}, {last_rate:.0f}/s"
    )
    assert last_items <= LARGE / 2, told
    assert last_rate >= 0.9 * first_rate, told
    print(told)
    with one.database.transaction() as tx:
        found = KneeStore(tx).find("sim", "fake-embed")
    assert found is not None
    assert found.items <= LARGE / 2


def test_calls_that_failed_or_streamed_teach_nothing(rig: MakeRig) -> None:
    one = rig()
    one.execute(
        "INSERT INTO batch_calls (job_id, pool, endpoint, model, ended_at, seconds, items,"
        " prompt_tokens, completion_tokens, first_token_s, error_code)"
        " SELECT 1, 'main', 'sim', 'm', now(), 1, 10, 100 * n, (n = 2)::int, "
        " CASE WHEN n = 3 THEN 0.1 END, CASE WHEN n = 4 THEN 'timeout' END"
        " FROM generate_series(1, 4) AS n, generate_series(1, 9)"
    )
    with one.database.transaction() as tx:
        sizes = KneeStore(tx).sizes(["main"], 60.0)
    assert [(size.calls, size.tokens) for size in sizes["sim", "m"]] == [(9, 900)]
    assert one.wiring.learning.tick() == {}


def test_what_is_learnt_is_kept_by_endpoint_and_model(rig: MakeRig) -> None:
    one = rig()
    with one.database.transaction() as tx:
        store = KneeStore(tx)
        store.write({("sim", "a"): Knee(10, 100), ("sim", "b"): Knee(20, 200)})
        store.write({("sim", "a"): Knee(5, 50)})
    with one.database.transaction() as tx:
        assert KneeStore(tx).find("sim", "a") == Knee(5, 50)
        assert KneeStore(tx).find("sim", "b") == Knee(20, 200)
        assert KneeStore(tx).find("other", "a") is None


def test_a_job_is_cut_to_what_was_learnt(rig: MakeRig) -> None:
    one = rig(batch={"chunk_items": 40, "micro_batch_items": 20})
    with one.database.transaction() as tx:
        KneeStore(tx).write({("sim", "fake-embed"): Knee(5, 1_000)})
    one.work(one.submit([f"text {n}" for n in range(40)]).job.id)
    # A tenth of room, so that an average call still fits: six.
    assert one.one("SELECT max(items) FROM batch_calls") == 6
