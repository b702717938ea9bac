"""`giveway eval`: figures with intervals, two runs compared, and what a script can rely on."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from app.errors import GivewayError
from tests.commands import Ran, done, giveway
from tests.integration.cli.test_report import CHROMIUM, chromium
from tests.rig import Rig

GSM8K = Path(__file__).parents[4] / "shared" / "data" / "gsm8k_test.jsonl"
GIVEN = ("--input-field", "question", "--expected-field", "answer", "--output-field", "solution")
ASKED = ("--input-field", "question", "--expected-field", "answer", "--prompt", "Q: {{ question }}")

SAME = (
    *("--text-field", "question", "--field", "expected=answer", "--field", "question=question"),
    *("--prompt", "Q: {{ question }}", "--scorers", "numeric", "--max-tokens", "8", "--key", "k"),
)
"""What ASKED asks, of `submit evaluate`."""

needs_gsm8k = pytest.mark.skipif(not GSM8K.is_file(), reason=f"{GSM8K} is not here")


@pytest.fixture
def working(stack: Rig) -> Iterator[Rig]:
    """The stack, with its work done by a thread while commands wait for it."""
    with worked_on(stack):
        yield stack


@contextmanager
def worked_on(one: Rig) -> Iterator[None]:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            for (job_id,) in one.rows("SELECT id FROM jobs WHERE state IN ('ready','running')"):
                with suppress(GivewayError):
                    one.work(job_id, most=5)
            stop.wait(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


Write = Callable[..., str]


@pytest.fixture
def problems(tmp_path: Path) -> Write:
    """Writes a data set with a solution an item; its name."""

    def write(*solutions: Any, name: str = "problems.jsonl") -> str:
        rows = [
            {
                "question": f"What is {n} + 1?",
                "answer": f"{n} and one.\n#### {n + 1}",
                "solution": s,
            }
            for n, s in enumerate(solutions)
        ]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return name

    return write


def test_given_answers_are_scored_without_a_call(working: Rig, problems: Write) -> None:
    file = problems("It is 1.", "#### 2", "The answer is $3.00", "4 or so", "no idea", "7")
    ran = giveway("eval", "run", file, *GIVEN, "--scorer", "numeric", "--key", "k", "--json")

    assert ran.code == 0, ran.err
    bounds = binomtest(4, 6).proportion_ci(method="exact")
    said = ran.document
    assert (said["n"], said["scored"], said["errors"], said["invalid"]) == (6, 6, 0, 0)
    numeric = said["metrics"]["numeric"]
    assert numeric["correct"] == 4
    assert (numeric["mean"], numeric["low"], numeric["high"]) == pytest.approx(
        (4 / 6, bounds.low, bounds.high)
    )
    assert working.endpoint.ledger()["requests"] == 0
    assert giveway("eval", "show", "k", "--json").document == said


def test_a_model_is_asked_once_an_item_and_the_same_key_asks_no_more(
    working: Rig, problems: Write
) -> None:
    command = ("eval", "run", problems(*"abcdef"), *ASKED, "--model", "fake-chat")
    more = ("--scorer", "numeric", "--scorer", "f1", "--key", "k", "--max-tokens", "8", "--json")
    ran = giveway(*command, *more)

    assert ran.code == 0, ran.err
    assert set(ran.document["metrics"]) == {"numeric", "f1"}
    assert working.endpoint.ledger()["requests"] == 6
    assert giveway(*command, *more).document == ran.document
    assert working.endpoint.ledger()["requests"] == 6
    other = giveway(*command, "--scorer", "exact", "--key", "k")
    assert (other.code, "belongs to job" in other.err) == (2, True)


def test_past_a_tenth_of_errors_there_is_no_verdict(working: Rig, problems: Write) -> None:
    file = problems(*["It is 1."] * 8, None, None)
    ran = giveway("eval", "run", file, *GIVEN, "--scorer", "numeric", "--key", "k", "--json")

    said = ran.document
    assert (ran.code, said["verdict"], said["errors"], said["scored"]) == (1, "refused", 2, 8)
    assert said["codes"] == {"no_output": 2}
    assert "2 of 10 items (20.0%) have no score, more than 10%" in said["reasons"][0]
    assert giveway("eval", "show", "k", "--max-errors", "0.2").code == 0


def test_a_metric_under_what_is_asked_fails_the_command(working: Rig, problems: Write) -> None:
    """0: a verdict, and nothing is under what is asked. 1: something is. 2: wrong use."""
    file = problems("1", "2", "no", "no")
    run = ("eval", "run", file, *GIVEN, "--scorer", "numeric", "--key", "k")
    for command in (run, ("eval", "show", "k"), ("eval", "compare", "k", "k")):
        assert giveway(*command, "--fail-under", "numeric=0.5").code == 0
        failed = giveway(*command, "--fail-under", "numeric=0.6")
        assert (failed.code, "numeric is 0.5000, under 0.6" in failed.out) == (1, True)
        for wrong in ("f1=0.5", "numeric=nan", "numeric"):
            assert giveway(*command, "--fail-under", wrong).code == 2


def test_what_it_would_take_is_told_and_every_condition_of_a_job_holds(
    stack: Rig, problems: Write
) -> None:
    command = ("eval", "run", problems(*"abc"), *ASKED, "--scorer", "numeric", "--max-tokens", "9")
    said = done(*command, "--limit", "2", "--dry-run")
    assert (said["items"], said["calls"], said["completion_tokens"]) == (2, 2, 18)
    assert stack.one("SELECT count(*) FROM jobs") == 0

    stack.submit(["text"], key="first")
    more = "--tenant research --deadline 8h --window 22:00-06:00 --after first --max-in-flight 2"
    done(*command, *more.split(), "--no-wait", "--key", "k")
    shown = done("jobs", "show", "k")
    assert re.search(r"^deadline +20", giveway("jobs", "show", "k").out, re.MULTILINE)
    assert (shown["tenant"], shown["max_in_flight"]) == ("research", 2)
    assert (shown["window"]["from"], shown["deadline_at"] is None) == ("22:00", False)
    assert stack.one("SELECT after FROM jobs WHERE key = 'k'") == [1]


def test_two_runs_are_compared_by_pairs_with_every_flip(working: Rig, problems: Write) -> None:
    first = problems("1", "2", "3", "no", "5", "no", name="first.jsonl")
    second = problems("1", "no", "3", "4", "5", "6", name="second.jsonl")
    for key, file in (("a", first), ("b", second)):
        giveway("eval", "run", file, *GIVEN, "--scorer", "numeric", "--key", key)
    ran = giveway("eval", "compare", "a", "b", "--json", "--fail-under", "numeric=0.5")

    said = ran.document
    numeric = said["metrics"]["numeric"]
    assert (ran.code, said["common"], said["verdict"]) == (0, 6, "passed")
    assert (numeric["first"], numeric["second"]) == (pytest.approx(4 / 6), pytest.approx(5 / 6))
    assert (numeric["lost"], numeric["won"], numeric["test"]) == (1, 2, "mcnemar_exact")
    assert numeric["p"] == pytest.approx(1.0)
    assert {(f["key"], f["before"], f["after"]) for f in numeric["flips"]} == {
        ("2", 1.0, 0.0),
        ("4", 0.0, 1.0),
        ("6", 0.0, 1.0),
    }
    assert numeric["flips"][0] == {
        "key": "2",
        "before": 1.0,
        "after": 0.0,
        "question": "What is 1 + 1?",
        "expected": "1 and one.\n#### 2",
        "first": ["2"],
        "second": ["no"],
    }
    assert giveway("eval", "compare", "a", "b", "--fail-under", "numeric=0.9").code == 1
    assert giveway("eval", "compare", "a", "b", "--html", "pair.html").code == 0
    page = Path("pair.html").read_text()
    assert all(text in page for text in ("What is 1 + 1?", "1 and one.", "no threshold set"))
    assert 'class="passed"' not in page


def test_no_worse_by_a_margin_is_shown_or_fails_the_command(working: Rig, problems: Write) -> None:
    file = problems(*[str(n + 1) for n in range(120)])
    for key in ("a", "b"):
        giveway("eval", "run", file, *GIVEN, "--scorer", "numeric", "--key", key)
    shown = giveway("eval", "compare", "a", "b", "--margin", "0.05", "--json")
    found = shown.document["metrics"]["numeric"]["equivalence"]
    assert (shown.code, shown.document["verdict"], found["verdict"]) == (0, "passed", "equivalent")
    unsure = giveway("eval", "compare", "a", "b", "--margin", "numeric=0.01")
    assert (unsure.code, "not shown to be no worse by 0.01" in unsure.out) == (1, True)
    for wrong in ("f1=0.1", "2", "numeric=x", "0"):
        assert giveway("eval", "compare", "a", "b", "--margin", wrong).code == 2


def test_runs_over_different_items_are_refused(working: Rig, problems: Write) -> None:
    for key, count in (("a", 4), ("b", 3)):
        file = problems(*[str(n + 1) for n in range(count)], name=f"{key}.jsonl")
        giveway("eval", "run", file, *GIVEN, "--scorer", "numeric", "--key", key)
    refused = giveway("eval", "compare", "a", "b")
    assert (refused.code, "1 only in a" in refused.err) == (2, True)
    assert giveway("eval", "compare", "a", "b", "--shared-only", "--json").document["common"] == 3


def test_without_a_threshold_nothing_has_passed(working: Rig, problems: Write) -> None:
    run = ("eval", "run", problems("1"), *GIVEN, "--scorer", "numeric", "--key", "k")
    ran = giveway(*run, "--html", "run.html")
    assert (ran.code, "verdict: no threshold set" in ran.out) == (0, True)
    assert '<p id="verdict" class="quiet">' in Path("run.html").read_text()
    asked = giveway("eval", "show", "k", "--fail-under", "numeric=0.1", "--json")
    assert asked.document["verdict"] == "passed"


def test_a_judge_and_an_embedding_model_are_asked_where_they_are_served(
    working: Rig, problems: Write
) -> None:
    """The simulated judge gives the lowest grade of the scale it is asked for."""
    ran = giveway(
        *("eval", "run", problems("one", "two", "three"), *GIVEN, "--key", "k", "--json"),
        *("--scorer", "judge", "--scorer", "embedding", "--option", "judge.model=fake-chat"),
        *("--option", "judge.repeats=2", "--option", "embedding.model=fake-embed"),
    )
    assert ran.code == 0, ran.err
    judge, embedding = (ran.document["metrics"][name] for name in ("judge", "embedding"))
    assert (judge["mean"], judge["scored"], judge["invalid"]) == (0.0, 3, 0)
    assert 0 < embedding["mean"] < 1
    assert working.endpoint.ledger()["requests"] == 3 * 2 + 3


def test_a_judge_that_gives_no_verdict_is_no_score(working: Rig, problems: Write) -> None:
    ran = giveway(
        *("eval", "run", problems("one", "two"), *GIVEN, "--key", "k", "--json"),
        *("--scorer", "judge", "--option", "judge.model=fake-chat"),
        *("--option", "judge.structured=false"),
    )
    said = ran.document
    assert (ran.code, said["invalid"], said["errors"], said["verdict"]) == (1, 2, 0, "refused")
    assert said["metrics"]["judge"]["mean"] is None
    assert said["codes"] == {"bad_verdict": 2}


def test_repeats_show_how_much_the_answers_differ(working: Rig, problems: Write) -> None:
    ran = giveway(
        *("eval", "run", problems("x", "y"), *ASKED, "--scorer", "numeric", "--repeats", "3"),
        *("--key", "k", "--json"),
    )
    numeric = ran.document["metrics"]["numeric"]
    assert (numeric["repeats"], numeric["spread"], numeric["unsteady"]) == (3, 0.0, 0)
    assert working.endpoint.ledger()["requests"] == 6


def test_who_waits_is_told_when_the_budget_is_spent(stack: Rig, problems: Write) -> None:
    command = ("eval", "run", problems(*"abcdef"), *ASKED, "--scorer", "numeric", "--key", "k")
    command = (*command, "--max-tokens", "8", "--budget", "0.5")
    done(*command, "--no-wait")
    stack.execute("UPDATE chunks SET money = 0.6 WHERE no = 1")
    assert stack.work(1).state == "paused"
    ran = giveway(*command)
    assert (ran.code, "paused: budget: spent 0.60 of 0.50)" in ran.out) == (1, True), ran.out
    waited = giveway("submit", "evaluate", "problems.jsonl", *SAME, "--wait")
    assert (waited.code, "paused (budget: spent 0.60 of 0.50)" in waited.out) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scorer", "nonsense"), "no scorer 'nonsense'; known: bleu, contains"),
        ((), "name a --scorer: bleu, contains, edit"),
        (("--scorer", "numeric", "--model", "m"), "leave out --model"),
        (("--scorer", "numeric", "--option", "x"), "--option wants SCORER.OPTION=VALUE"),
        (("--scorer", "judge"), "options of judge: model: Field required"),
        (("--scorer", "numeric", "--option", "judge.model=m"), "which is not a scorer here"),
        (("--scorer", "numeric", "--fail-under", "f1=1"), "the metrics here: numeric"),
        (("--scorer", "numeric", "--fail-under", "numeric"), "--fail-under wants METRIC=VALUE"),
        (("--scorer", "numeric", "--html", "no/where.html"), "there is no such folder"),
        (("--scorer", "numeric", "--html", "problems.jsonl"), "a page is a .html"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_loaded(
    stack: Rig, problems: Write, arguments: tuple[str, ...], said: str
) -> None:
    ran = giveway("eval", "run", problems("1"), *GIVEN, *arguments)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert stack.one("SELECT count(*) FROM jobs") == 0


def test_a_template_that_is_none_or_asks_for_a_missing_field_is_refused(
    stack: Rig, problems: Write
) -> None:
    command = ("eval", "run", problems("1"), *ASKED[:4], "--scorer", "numeric", "--prompt")
    assert "evaluate: prompt: not a template" in giveway(*command, "{{ question").err
    assert "'nonsense'" in giveway(*command, "{{ nonsense }}").err


def test_a_job_of_another_kind_and_an_unfinished_run_say_so(stack: Rig, problems: Write) -> None:
    stack.submit(["text"], key="embedded")
    assert "only a job of kind evaluate has scores" in giveway("eval", "show", "embedded").err
    command = ("eval", "run", problems("1", "2"), *GIVEN, "--scorer", "numeric", "--key", "k")
    assert giveway(*command, "--no-wait").code == 0
    ran = giveway("eval", "show", "k", "--json")
    assert (ran.code, ran.document["pending"], ran.document["verdict"]) == (1, 2, "refused")


def test_it_can_be_submitted_like_any_other_kind(working: Rig, problems: Write) -> None:
    ran = giveway(
        *("submit", "evaluate", problems("1", "no"), "--text-field", "question", "--key", "k"),
        *("--field", "expected=answer", "--field", "output=solution", "--model", "none"),
        *("--scorers", "numeric", "--wait", "--json"),
    )
    assert ran.code == 0, ran.err
    assert giveway("eval", "show", "k", "--json").document["metrics"]["numeric"]["correct"] == 1


@needs_gsm8k
def test_gsm8k_with_given_answers(working: Rig, tmp_path: Path) -> None:
    """Six of ten right, in several spellings; a row of the issue's acceptance."""
    with GSM8K.open() as lines:
        rows = [json.loads(line) for line in lines]
    assert len(rows) == 1_319
    with (tmp_path / "given.jsonl").open("w") as out:
        for number, row in enumerate(rows):
            out.write(json.dumps({**row, "solution": solution(number, row["answer"])}) + "\n")
    ran = giveway(
        "eval", "run", "given.jsonl", *GIVEN, "--scorer", "numeric", "--key", "k", "--json"
    )
    right = sum(number % 10 < 6 for number in range(1_319))
    numeric = ran.document["metrics"]["numeric"]
    assert (ran.document["n"], ran.document["scored"], numeric["correct"]) == (1_319, 1_319, right)
    bounds = binomtest(right, 1_319).proportion_ci(method="exact")
    assert (numeric["low"], numeric["high"]) == pytest.approx((bounds.low, bounds.high))


def solution(number: int, gold: str) -> str:
    plain = gold.rpartition("####")[2].strip()
    value = int(plain.replace(",", ""))
    right = (f"#### {plain}", f"The answer is ${value:,}.", f"\\boxed{{{value}}}", f"So {value}.0")
    wrong = (f"The answer is {value + 1}.", "I do not know.")
    return right[number % 4] if number % 10 < 6 else wrong[number % 2]


@needs_gsm8k
def test_gsm8k_asked_of_the_simulated_model(working: Rig, tmp_path: Path) -> None:
    with GSM8K.open() as lines:
        (tmp_path / "some.jsonl").write_text("".join(itertools.islice(lines, 60)))
    ran: Ran = giveway(
        *("eval", "run", "some.jsonl", *ASKED, "--model", "fake-chat", "--max-tokens", "16"),
        *("--scorer", "numeric", "--key", "k", "--json"),
    )
    numeric = ran.document["metrics"]["numeric"]
    # An extract of a question may hold what is no number to read: invalid, and not scored.
    assert (ran.document["n"], 55 <= ran.document["scored"] <= 60) == (60, True)
    assert 0 <= numeric["low"] <= numeric["mean"] <= numeric["high"] < 1
    assert working.endpoint.ledger()["requests"] == 60


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


@pytest.mark.chromium
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_pages_are_drawn_by_chromium_with_nothing_of_theirs_run(
    working: Rig, problems: Write, tmp_path: Path
) -> None:
    first = problems("1", EVIL, "3", name="first.jsonl")
    second = problems("1", "2", "no", name="second.jsonl")
    scorers = ("--scorer", "numeric", "--scorer", "f1")
    giveway("eval", "run", first, *GIVEN, *scorers, "--key", EVIL, "--html", "run.html")
    giveway("eval", "run", second, *GIVEN, *scorers, "--key", "b")
    giveway("eval", "compare", EVIL, "b", "--html", "pair.html")

    run, pair = (drawn(tmp_path / name) for name in ("run.html", "pair.html"))
    assert run.count("<circle") == 2
    assert run.count("<rect") >= 1
    assert '<table id="items">' in run
    assert pair.count("<circle") == 6
    assert pair.count('class="whisker"') == 6
    assert pair.count('<table class="flips">') == 2


def drawn(page: Path) -> str:
    """The page as Chromium has it, which had nothing to complain of and ran nothing."""
    for attempt in range(3):  # On a machine that is busy it may end before it has a page.
        ran = chromium(page.as_uri(), page.parent / f"profile-{attempt}", "--dump-dom")
        if ran.stdout:
            break
    assert [line for line in ran.stderr.splitlines() if ":CONSOLE" in line] == []
    for tag in ("<script", "<img"):
        assert tag not in ran.stdout
    assert "&lt;script&gt;alert(1)" in ran.stdout
    return ran.stdout
