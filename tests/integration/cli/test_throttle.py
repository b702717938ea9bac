"""`giveway throttle` and `giveway db`, on the tables themselves."""

from __future__ import annotations

import pytest

from app.domain.throttle.readings import Gauges
from tests.commands import done, giveway
from tests.rig import Rig


@pytest.fixture
def ticked(stack: Rig) -> Rig:
    """Three decisions, made as the control worker makes them."""
    stack.submit(["a"] * 60)
    for _ in range(3):
        tick_later(stack)
    return stack


def tick_later(stack: Rig) -> None:
    """A decision, half a second after the last: one that comes sooner is passed over."""
    ago = "now() - interval '0.55 s'"
    stack.execute(
        f"UPDATE throttle_limits SET computed_at = {ago},"
        f" state = state || jsonb_build_object('decided_at', {ago})"
    )
    assert stack.wiring.throttling.tick("main") is not None


def test_the_limit_is_shown_with_its_reason_and_what_people_get(ticked: Rig) -> None:
    (pool,) = done("throttle", "show")["pools"]

    assert pool["name"] == "main"
    assert pool["policy"] == "budget"
    assert 1 <= pool["limit"] <= pool["batch_max"] == 31
    assert {"p50_ms", "p95_ms", "p99_ms", "pressure", "reason", "valid_until"} <= set(pool)
    assert {"batch_in_flight", "interactive_in_flight", "interactive_waiting"} <= set(pool)
    said = giveway("throttle", "show", "--pool", "main").out
    assert said.startswith("pool         main  (total 32, reserve 1)\nlimit        ")


def test_what_takes_the_endpoints_memory_is_shown_where_it_is_known(ticked: Rig) -> None:
    assert done("throttle", "show")["pools"][0]["kv"] is None
    ticked.execute(
        "INSERT INTO batch_calls (job_id, pool, endpoint, ended_at, seconds, items, prompt_tokens,"
        " completion_tokens) VALUES (1, 'main', 'sim', clock_timestamp(), 3, 1, 900, 200)"
    )
    ticked.wiring.throttling._gauges = lambda _: Gauges(kv_capacity_tokens=140_000)
    tick_later(ticked)
    (pool,) = done("throttle", "show")["pools"]
    page = giveway("throttle", "show").out

    assert (pool["kv"]["capacity_tokens"], pool["kv"]["per_batch_tokens"]) == (140_000, 1_000)
    assert "\nmemory       140,000 tokens, of which a batch request in flight takes 1,000\n" in page


def test_an_operators_word_holds_and_is_taken_back(ticked: Rig) -> None:
    set_ = done("throttle", "set", "5", "--for", "10m", "--reason", "nightly run")
    tick_later(ticked)
    (pool,) = done("throttle", "show")["pools"]

    assert (set_["override"]["value"], set_["override"]["reason"]) == (5, "nightly run")
    assert (pool["limit"], pool["reason"]) == (5, "override")
    assert done("throttle", "clear") == {"pool": "main", "cleared": True}
    assert done("throttle", "clear") == {"pool": "main", "cleared": False}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("99",), "limit 99 is outside pool 'main', which allows 1 to 31"),
        (("5", "--for", "90d"), "at most 30 days"),
        (("5", "--pool", "x"), "no pool 'x'; known: main"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(
    stack: Rig, arguments: tuple[str, ...], said: str
) -> None:
    ran = giveway("throttle", "set", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_what_is_tuned_is_shown_until_it_is_taken_back(ticked: Rig) -> None:
    tuned = done("throttle", "tune", "batch_max=3", "policy=static", "target_p95_ms=250.5")
    again = done("throttle", "tune", "batch_max=4")
    (shown,) = done("throttle", "show")["pools"]
    page = giveway("throttle", "show").out

    assert tuned["tuned"] == {"batch_max": 3, "policy": "static", "target_p95_ms": 250.5}
    assert again["tuned"] == {**tuned["tuned"], "batch_max": 4}
    assert [shown[name] for name in ("policy", "batch_max", "target_p95_ms", "tuned")] == [
        "static",
        4,
        250.5,
        again["tuned"],
    ]
    assert "\ntuned        batch_max=4, policy=static, target_p95_ms=250.5\n" in page
    untuned = done("throttle", "untune", "--pool", "main")
    assert [untuned[name] for name in ("policy", "batch_max", "tuned")] == ["budget", 31, {}]
    assert "tuned" not in giveway("throttle", "show").out


def test_tuning_is_said_in_words_too(stack: Rig) -> None:
    assert giveway("throttle", "tune", "batch_max=3").out.splitlines() == [
        "pool main: tuned batch_max=3",
        "take it back with: giveway throttle untune",
    ]
    taken = giveway("throttle", "untune").out
    assert taken == "pool main: as declared again; no longer tuned: batch_max=3\n"
    assert giveway("throttle", "untune").out == "pool main: nothing was tuned\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("traget=fast",), "no tunable setting 'traget'; known: batch_max, batch_min, "),
        (("policy=magic",), "no policy 'magic'; known: aimd, budget, "),
        (("options.magic=1",), "no option of policy 'budget' 'magic'; known: "),
        (("target_p95_ms=fast",), "target_p95_ms must be a number, not 'fast'"),
        (("batch_max=2.5",), "batch_max must be a whole number, not 2.5"),
        (("batch_max",), "say NAME=VALUE"),
        (("reserve=0",), "reserve must be 1 or more"),
        (("batch_max=3", "--pool", "x"), "no pool 'x'; known: main"),
    ],
)
def test_what_cannot_be_tuned_is_refused_and_changes_nothing(
    stack: Rig, arguments: tuple[str, ...], said: str
) -> None:
    ran = giveway("throttle", "tune", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert done("throttle", "show")["pools"][0]["tuned"] == {}


def test_history_has_the_newest_last(ticked: Rig) -> None:
    rows = done("throttle", "history", "--limit", "2")["decisions"]

    assert len(rows) == 2
    assert rows[0]["computed_at"] < rows[1]["computed_at"]
    assert {"limit", "reason", "pressure", "p95_ms", "batch_in_flight", "figures"} <= set(rows[0])
    assert len(giveway("throttle", "history").out.splitlines()) == 4
    assert done("throttle", "history", "--since", "1ms")["decisions"] == []


def test_why_batch_waits_is_one_sentence_and_a_line_for_each_job_that_waits(ticked: Rig) -> None:
    (said,) = done("throttle", "explain")["pools"]

    assert said["sentence"].startswith("Pool 'main' lets ")
    sentence, *jobs = giveway("throttle", "explain").out.splitlines()
    assert sentence == said["sentence"]
    assert [line.split(": ")[0] for line in jobs] == ["  job job"]


def test_a_pool_that_was_never_decided_on_says_so(stack: Rig) -> None:
    assert "nothing was ever decided" in giveway("throttle", "explain").out


def test_every_stored_decision_comes_out_the_same_again(ticked: Rig) -> None:
    said = done("throttle", "replay")

    assert said["ok"] is True
    assert said["pools"] == [{"name": "main", "decisions": 3, "different": 0, "examples": []}]


def test_a_decision_that_does_not_is_exit_code_1(ticked: Rig) -> None:
    ticked.execute(
        "UPDATE throttle_decisions SET result = jsonb_set(result, '{limit}', '29')"
        " WHERE id = (SELECT max(id) FROM throttle_decisions)"
    )
    ran = giveway("throttle", "replay", "--json")

    assert (ran.code, ran.document["ok"], ran.document["pools"][0]["different"]) == (1, False, 1)
    assert "limit was 29, is " in giveway("throttle", "replay").out


def test_several_pools_are_asked_to_be_named(stack: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEWAY_POOLS", '[{"name": "main"}, {"name": "other"}]')

    assert len(done("throttle", "show")["pools"]) == 2
    assert giveway("throttle", "clear").err == "giveway: name a pool with --pool: main, other\n"


def test_an_empty_database_is_upgraded_once(
    stack: Rig, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEWAY_DATABASE__URL", database_url)
    before = giveway("db", "check", "--json")
    hint = giveway("jobs", "list")
    first, second = done("db", "upgrade"), done("db", "upgrade")

    assert (before.code, before.document["ok"], before.document["revision"]) == (1, False, None)
    assert (hint.code, "giveway db upgrade" in hint.err) == (1, True)
    assert (first["was"], first["changed"], second["changed"]) == (None, True, False)
    assert done("db", "check") == {
        "ok": True,
        "revision": first["revision"],
        "head": first["revision"],
        "differences": [],
    }
    assert done("db", "downgrade", "base", "--yes")["revision"] is None


def test_a_schema_that_was_changed_by_hand_is_named(stack: Rig) -> None:
    stack.execute("ALTER TABLE jobs ADD COLUMN by_hand int")
    ran = giveway("db", "check")

    assert ran.code == 1
    assert "by_hand" in ran.out
