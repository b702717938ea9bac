"""Rate budgets on real Postgres and a real endpoint: what the endpoint counts is never above."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app import clock, errors
from app.domain.inference import ChatRequest, EmbedRequest, Message, rough_tokens
from app.domain.rates import Cost
from app.domain.requests import NewRequest
from app.domain.routing import EndpointSpec
from app.domain.tokens import Basis, Counted
from app.inference.tokens import Counters
from app.inference.wire import Wire
from app.inference.wires import Wires
from app.services.rates import Rates
from app.storage import rate_store
from app.storage.database import Database
from app.storage.rate_store import RateStore
from tests.rig import MakeRig, Rig
from tests.served import Served
from tests.waiting import until

WINDOW_S = 1.0
BUDGET = 1000
PRESSED = 1.6 * BUDGET
"""Tokens that are enough to say that it was pressed: more than one window's worth."""


def spec(url: str, **more: Any) -> EndpointSpec:
    return EndpointSpec("sim", "main", "openai", url, ("fake-embed",), 32, **more)


@pytest.fixture
def rates_of(migrated_url: str) -> Iterator[Callable[..., Rates]]:
    """Makes rates of a process of their own, each with its connections."""
    made: list[Database] = []

    def make(window_s: float = WINDOW_S) -> Rates:
        database = Database(migrated_url, 4)
        made.append(database)
        return Rates(database, Counters(Wires()), 10.0, window_s)

    yield make
    for database in made:
        database.close()


def arrivals(endpoint: Served) -> list[tuple[float, int]]:
    """(when, tokens) of the requests, by the endpoint's own clock and count."""
    timings = endpoint.ledger()["timings"]
    return sorted((one["arrived_s"], one["prompt_tokens"] + one["tokens"]) for one in timings)


def spent_at(endpoint: Served) -> int:
    """The tokens of all requests so far."""
    return sum(n for _, n in arrivals(endpoint))


def most_in_any(window_s: float, seen: list[tuple[float, int]]) -> int:
    return max(sum(n for at, n in seen if since <= at < since + window_s) for since, _ in seen)


def pressed(endpoint: Served, rates_of: Callable[..., Rates]) -> int:
    """Eight workers that call as often as they are let, until it was enough; the most tokens in any
    window."""
    enough = threading.Event()
    failures: list[BaseException] = []

    def work(number: int, rates: Rates, wire: Wire) -> None:
        chance = random.Random(number)
        target = spec(endpoint.url, tokens_per_minute=BUDGET)
        while not enough.is_set():
            request = EmbedRequest("fake-embed", ("x" * 4 * chance.randint(20, 90),))
            try:
                with rates.held(target, request, deadline_s=5, interactive=number < 2) as hold:
                    hold.used(wire.embed(request, deadline_s=5).usage)
            except errors.BudgetSpent:
                time.sleep(0.01)
            except BaseException as error:  # a thread's own would go unseen
                failures.append(error)
                raise

    endpoint.order({"kind": "delay", "delay_s": 0.05, "probability": 0.5})
    wire = Wire(endpoint.url)
    threads = [
        threading.Thread(target=work, args=(number, rates_of(), wire)) for number in range(8)
    ]
    for thread in threads:
        thread.start()
    try:
        until(lambda: spent_at(endpoint) > PRESSED or failures, 20, "calls for so many tokens")
    finally:
        enough.set()
        for thread in threads:
            thread.join()
        wire.close()
    assert not failures
    return most_in_any(WINDOW_S, arrivals(endpoint))


def test_eight_workers_never_pass_the_budget_in_any_window(
    endpoint: Served, rates_of: Callable[..., Rates]
) -> None:
    assert pressed(endpoint, rates_of) <= BUDGET


def test_mutant_that_checks_and_then_calls_passes_the_budget(
    endpoint: Served, rates_of: Callable[..., Rates], monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = RateStore.reserve
    monkeypatch.setattr(RateStore, "reserve", lambda *_, **__: 0)
    monkeypatch.setattr(
        RateStore,
        "settle",
        lambda self, _, cost: reserve(self, "sim", cost, 0.0, interactive=False),
    )
    assert pressed(endpoint, rates_of) > BUDGET


def test_what_a_call_came_to_replaces_what_was_reserved(
    rates_of: Callable[..., Rates], rig: MakeRig
) -> None:
    one, rates = rig(), rates_of(60.0)
    target = spec("http://x/v1", tokens_per_minute=10_000)
    request = ChatRequest("fake-embed", (Message("user", "x" * 400),), max_tokens=500)
    with rates.held(target, request, deadline_s=30, interactive=False) as hold:
        ahead = "SELECT tokens, settled, at > now() + interval '29 s' FROM rate_reservations"
        # A guess of 100 tokens and a quarter more, 4 for the template, 500 for the answer.
        assert one.rows(ahead) == [(629, False, True)]
        hold.used(replied(70, 30))
    settled = "SELECT tokens, settled, at <= clock_timestamp() FROM rate_reservations"
    assert one.rows(settled) == [(100, True, True)]


def replied(prompt: int, completion: int) -> Any:
    from app.domain.inference import Usage

    return Usage(prompt, completion)


def test_a_call_that_failed_keeps_its_estimate(
    rates_of: Callable[..., Rates], rig: MakeRig
) -> None:
    one, rates = rig(), rates_of(60.0)
    target = spec("http://x/v1", requests_per_minute=5)
    request = EmbedRequest("fake-embed", ("x",))
    with (
        pytest.raises(errors.ServerFault),
        rates.held(target, request, deadline_s=30, interactive=False),
    ):
        raise errors.ServerFault("no")
    assert one.rows("SELECT requests, settled FROM rate_reservations") == [(1, True)]


def test_an_endpoint_without_a_budget_costs_no_query(rig: MakeRig) -> None:
    dead = Database("postgresql://nobody@127.0.0.1:1/none", 1)
    rates = Rates(dead, Counters(Wires()), 10.0)
    with rates.held(
        spec("http://x/v1"), EmbedRequest("m", ("x",)), deadline_s=1, interactive=False
    ):
        pass


def test_folding_keeps_every_sum(rig: MakeRig) -> None:
    one = rig()
    one.execute(
        "INSERT INTO rate_reservations (endpoint, at, requests, tokens, settled, interactive)"
        " SELECT 'sim', clock_timestamp() - make_interval(secs => n * 0.1), 1, n, n % 7 > 0,"
        " n % 3 = 0 FROM generate_series(1, 1100) AS n"
    )
    with one.database.transaction() as tx:
        store = RateStore(tx)
        store.lock("sim")
        before = store.standing("sim", 60.0)
        store.tidy("sim", 60.0, fold=True)
        after = store.standing("sim", 60.0)
    assert before.is_long
    assert after.rows < 500
    assert after.used.batch.tokens >= before.used.batch.tokens
    assert after.used.people.tokens >= before.used.people.tokens
    whole = Cost(sum(range(1, 1101)), 1100)
    assert one.rows("SELECT sum(tokens), sum(requests) FROM rate_reservations") == [
        (whole.tokens, whole.requests)
    ]


def test_a_reservation_reads_only_its_own_endpoints_window(rig: MakeRig) -> None:
    one = rig()
    one.execute(
        "INSERT INTO rate_reservations (endpoint, at, tokens, settled)"
        " SELECT 'e' || n % 50, clock_timestamp() - make_interval(secs => n % 3600), 1, true"
        " FROM generate_series(1, 100000) AS n"
    )
    one.execute("ANALYZE rate_reservations")
    for statement in (rate_store._STANDING, rate_store._LOG):
        plan = one.rows(f"EXPLAIN {statement.text}", endpoint="e1", window_s=60.0)
        told = "\n".join(row[0] for row in plan)
        assert "ix_rate_reservations_window" in told
        assert "Seq Scan on rate_reservations" not in told


# In jobs and for people.

TEXTS = [f"document number {n:03d} speaks of subject {n % 7}" for n in range(100)]
A_TEXT = rough_tokens(TEXTS[0])


def budgeted(make: MakeRig, *names: str, **more: Any) -> Rig:
    """A rig whose endpoints share the server; the first has a budget of ten texts a minute."""
    one = make()
    endpoints = [
        {
            "name": name,
            "base_url": one.endpoint.url,
            "models": ["fake-chat", "fake-embed"],
            "max_concurrency": 32,
            **(more if number == 0 else {}),
        }
        for number, name in enumerate(names)
    ]
    one.close()
    return make(endpoints=endpoints, batch={"chunk_items": 20, "micro_batch_items": 2})


def test_a_chunk_without_budget_goes_back_and_nobody_sleeps(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", tokens_per_minute=10 * A_TEXT)
    job_id = one.submit(TEXTS).job.id
    began = time.monotonic()
    report = one.wiring.execution.run(job_id)

    assert time.monotonic() - began < 25  # Of the minute after which there is budget again.
    assert report.ended == "rate_budget"
    assert 0 < report.done < 9
    assert one.rows(
        "SELECT state, attempt, crashes, error_code, not_before > now() + interval '50 s'"
        " FROM chunks WHERE no = 1"
    ) == [("ready", 0, 0, "rate_budget", True)]
    # The next doorbells find no endpoint: they take no chunk, only to hand it back.
    assert one.wiring.execution.run(job_id).ended == "endpoints"
    assert one.rows("SELECT refusals, cool_until FROM endpoints") == [(0, None)]
    assert sum(n for _, n in arrivals(one.endpoint)) <= 9 * A_TEXT


def test_an_endpoint_with_budget_left_takes_over(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", "other", tokens_per_minute=10 * A_TEXT)
    job_id = one.submit(TEXTS[:40]).job.id
    ends = [one.wiring.execution.run(job_id).ended for _ in range(4)]

    assert ends[0] == "rate_budget"
    assert one.progress(job_id).done == 40
    assert {row[0] for row in one.rows("SELECT DISTINCT endpoint FROM results")} == {"sim", "other"}


def test_an_item_larger_than_the_whole_budget_fails_alone(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", tokens_per_minute=10 * A_TEXT)
    job = one.work(one.submit([TEXTS[0], "x" * 1000, TEXTS[1]]).job.id)
    assert one.progress(job.id).done == 2
    failed = one.rows("SELECT seq, code, error FROM results WHERE status = 'failed'")
    assert [row[:2] for row in failed] == [(2, "too_long")]
    assert "a minute" in failed[0][2]


HELLO = EmbedRequest("fake-embed", (TEXTS[0],))


def asking(one: Rig, deadline_s: float = 30.0) -> Any:
    at = clock.now()
    request = NewRequest(
        uuid.uuid4(),
        "main",
        "embed",
        "fake-embed",
        at,
        deadline_at=at + timedelta(seconds=deadline_s),
    )
    return one.wiring.interactive.run(request, HELLO)


def test_people_have_the_share_that_batch_leaves(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", tokens_per_minute=20 * A_TEXT)
    job_id = one.submit(TEXTS).job.id
    assert one.wiring.execution.run(job_id).ended == "rate_budget"
    assert asking(one).endpoint == "sim"


def test_a_person_moves_on_where_the_budget_is_spent(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", "other", requests_per_minute=1)
    assert {asking(one).endpoint for _ in range(3)} == {"sim", "other"}
    assert len(arrivals(one.endpoint)) == 3
    assert one.rows("SELECT name, refusals, failures FROM endpoints ORDER BY 1") == [
        ("other", 0, 0),
        ("sim", 0, 0),
    ]


def test_a_person_waits_for_the_budget_within_the_deadline(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", requests_per_minute=1)
    one.wiring.rates._window_s = 1.0
    asking(one)
    assert asking(one).endpoint == "sim"
    (first, _), (second, _) = arrivals(one.endpoint)
    assert second - first >= 1.0


def test_a_person_who_cannot_be_served_in_time_is_told_at_once(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", requests_per_minute=1)
    asking(one)
    began = time.monotonic()
    with pytest.raises(errors.BudgetSpent) as told:
        asking(one, deadline_s=30.0)
    took_s = time.monotonic() - began
    assert took_s < 15  # Of the thirty that there were.
    assert told.value.retry_after_s is not None
    assert 60 - took_s - 10 < told.value.retry_after_s <= 60
    assert one.rows("SELECT state, error_code FROM interactive_requests WHERE state <> 'done'") == [
        ("dropped", "rate_budget")
    ]


def test_a_person_asks_another_endpoint_for_what_no_minute_holds(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", "other", tokens_per_minute=A_TEXT - 1)
    assert asking(one).endpoint == "other"
    alone = budgeted(rig, "sim", tokens_per_minute=A_TEXT - 1)
    with pytest.raises(errors.BudgetSpent, match="a minute"):
        asking(alone)


def test_a_killed_workers_reservation_counts_until_its_call_must_be_over(rig: MakeRig) -> None:
    one = rig()
    with one.database.transaction() as tx:
        RateStore(tx).reserve("sim", Cost(700), 30.0, interactive=False)
    with one.database.transaction() as tx:
        store = RateStore(tx)
        tx.execute(text("UPDATE rate_reservations SET at = at - interval '89 s'"))
        assert store.standing("sim", 60.0).used.batch.tokens == 700
        tx.execute(text("UPDATE rate_reservations SET at = at - interval '2 s'"))
        assert store.standing("sim", 60.0).used.batch.tokens == 0


# What is neither a job's nor a person's.

OPENED = (
    "UPDATE endpoints SET breaker = 'open', open_until = now() - interval '1 s',"
    " failed_task = 'embed', failed_model = 'fake-embed'"
)
RESERVED = "SELECT sum(requests), bool_and(settled) FROM rate_reservations"


def test_a_probe_counts_in_the_budget(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", requests_per_minute=3)
    one.execute(OPENED)
    assert one.wiring.probing.tick(wait_s=20) == ["sim"]

    assert one.one("SELECT breaker FROM endpoints") == "closed"
    assert one.rows(RESERVED) == [(2, True)]
    asking(one)
    with pytest.raises(errors.BudgetSpent):
        asking(one)


def test_an_endpoint_whose_budget_is_spent_is_not_probed(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", requests_per_minute=1)
    asking(one)
    one.execute(OPENED)
    assert one.wiring.probing.tick(wait_s=20) == ["sim"]

    assert len(arrivals(one.endpoint)) == 1
    assert one.one("SELECT breaker FROM endpoints") == "half_open"


def test_a_probe_is_made_even_where_it_is_the_whole_budget(rig: MakeRig) -> None:
    one = budgeted(rig, "sim", requests_per_minute=1, tokens_per_minute=10)
    one.execute(OPENED)
    one.wiring.probing.tick(wait_s=20)
    assert one.one("SELECT breaker FROM endpoints") == "closed"


def test_tokenize_calls_count_and_are_not_made_without_room(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = rig(), []
    monkeypatch.setattr(Wire, "ask", lambda *_, **__: asked.append(1) or {"count": 3})
    target = replace(spec("http://x/v1", requests_per_minute=10), kind="vllm")
    tokens = one.wiring.counters.of(target, "fake-embed")

    assert tokens.count(["a", "b", "c"]) == Counted((3, 3, 3), Basis.SERVER)
    assert one.rows(RESERVED) == [(3, True)]
    assert tokens.count(["a"] * 8).basis is Basis.ROUGH
    assert tokens.count(["a"] * 6).basis is Basis.SERVER  # One of ten is kept for people.
    assert (len(asked), one.rows(RESERVED)) == (9, [(9, True)])
