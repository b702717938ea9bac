"""`giveway schedules`: jobs by the clock, as a person and a script see them."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.commands import done, giveway
from tests.integration.cli.conftest import Write
from tests.rig import Rig

NIGHTLY = ("--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
EMBED = ("submit", "embed", "docs.jsonl", "--id-field", "id", "--collection", "docs")


def add(name: str, *options: str, job: tuple[str, ...] = EMBED) -> tuple[str, ...]:
    return ("schedules", "add", name, *options, "--", *job)


def test_a_schedule_is_added_listed_paused_and_removed(stack: Rig, docs: Write) -> None:
    docs(3)
    more = ("--missed", "all", "--overlap", "queue", "--jitter", "5m", "--done-by", "06:00")
    said = giveway(*add("nightly", *NIGHTLY, *more, "--window", "22:00-06:00"))
    assert said.code == 0, said.err
    (one,) = done("schedules", "list")["schedules"]

    assert (one["name"], one["state"], one["cron"]) == ("nightly", "active", "30 2 * * *")
    assert (one["missed"], one["missed_within_s"], one["overlap"]) == ("all", 259200.0, "queue")
    assert (one["jitter_s"], one["done_by"]) == (300.0, "06:00")
    assert one["job"]["source"]["uri"] == str(Path.cwd() / "docs.jsonl")
    assert one["job"]["window"] == "22:00-06:00 Europe/Berlin"
    assert one["job"]["params"]["model"] == "fake-embed"
    assert done("schedules", "pause", "nightly")["state"] == "paused"
    assert done("schedules", "resume", "nightly")["state"] == "active"
    assert "nightly  active" in giveway("schedules", "list").out
    assert done("schedules", "remove", "nightly") == {"removed": "nightly"}
    assert giveway("schedules", "list").out.startswith("no schedules; add one")


def test_next_gives_local_and_utc_times_and_what_the_clocks_do(
    stack: Rig, docs: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs(3)
    giveway(*add("nightly", *NIGHTLY))
    monkeypatch.setattr("app.clock.now", lambda: datetime(2027, 3, 27, 12, tzinfo=UTC))

    found = done("schedules", "next", "nightly", "--count", "2")

    assert found == {
        "schedule": "nightly",
        "state": "active",
        "next": [
            {
                "local": "2027-03-28T03:00:00+02:00",
                "utc": "2027-03-28T01:00:00Z",
                "note": "02:30 does not exist that day; it runs right after the gap",
            },
            {"local": "2027-03-29T02:30:00+02:00", "utc": "2027-03-29T00:30:00Z", "note": None},
        ],
    }
    assert "does not exist" in giveway("schedules", "next", "nightly").out


def test_run_launches_now_and_history_tells_what_became_of_it(stack: Rig, docs: Write) -> None:
    docs(3)
    giveway(*add("nightly", *NIGHTLY))
    ran = done("schedules", "run", "nightly")
    assert (ran["state"], ran["job_state"]) == ("launched", "ready")
    assert ran["key"].startswith("nightly@")
    stack.work(ran["job"])

    (run,) = done("schedules", "history", "nightly")["runs"]
    assert (run["state"], run["key"], run["job_state"]) == ("launched", ran["key"], "completed")
    assert "launched  nightly@" in giveway("schedules", "history", "nightly").out


@pytest.mark.parametrize(
    ("options", "job", "says"),
    [
        (("--cron", "30 2 * *"), EMBED, "five"),
        (("--cron", "61 2 * * *"), EMBED, "bad minute"),
        ((*NIGHTLY[:2], "--timezone", "Europe/Berln"), EMBED, "did you mean Europe/Berlin?"),
        (NIGHTLY, ("jobs", "list"), "only `submit KIND …`"),
        (NIGHTLY, ("submit", "embed", "-", "--collection", "c"), "standard input"),
        (NIGHTLY, (*EMBED, "--key", "k"), "--key"),
        (NIGHTLY, (*EMBED, "--model", "nobody-serves-it"), "nobody-serves-it"),
        (NIGHTLY, (*EMBED, "--no-such-option"), "no-such-option"),
        ((*NIGHTLY, "--window", "22-6"), EMBED, "22:00-06:00"),
        ((*NIGHTLY, "--done-by", "noon"), EMBED, "06:00"),
        ((*NIGHTLY, "--missed", "sometimes"), EMBED, "sometimes"),
    ],
)
def test_faults_are_told_when_it_is_added(
    stack: Rig, docs: Write, options: tuple[str, ...], job: tuple[str, ...], says: str
) -> None:
    docs(3)
    said = giveway(*add("nightly", *options, job=job))
    assert said.code == 2
    assert says in said.err
    assert stack.one("SELECT count(*) FROM schedules") == 0


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("embed later.csv --encoding WRONG", "no encoding 'WRONG'; such as cp1252"),
        ("embed later.csv --encoding base64", "no encoding 'base64'; such as cp1252"),
        ("embed later.pq --encoding cp1252", "--encoding is for text files; later.pq is pa"),
        ("embed later.csv --format xml", "no format 'xml'; known: csv, jsonl, parquet"),
        ("embed later.csv --delimiter ;;", "no delimiter ';;'; one character"),
        ("embed later --format jsonl --delimiter ;", "--delimiter is for CSV; later is jsonl"),
        ("embed later.csv --where 'lang =='", "--where 'lang ==' is no expression"),
        ("embed later.csv --where 1", "--where '1' speaks of no field"),
        ("embed later.csv --limit 0", "limit"),
        ("embed later.csv --query 'select 1'", "--query is for a database URL"),
        ("embed later.csv --field title", "--field wants NAME=COLUMN"),
        ("embed later.csv --failover degraded", "failover may be wait or backup for this job"),
        ("embed later.csv --resume-streamed", "a job of kind embed like this streams no text"),
        ("embed later.csv --deadline 2026-01-01T06:00", "'2026-01-01T06:00' has passed"),
        ("embed later.csv --name ' '", "name ' ' begins or ends with a blank"),
        ("embed later.csv --long-texts split", "long_texts = 'split' needs most_tokens"),
        ("embed later.csv --most-tokens 3", "most_tokens"),
        ("embed --source sqlite:///later.db", "give --query or --table"),
        ("embed --source sqlite:///later.db --query 'select 1'", "with --id-field"),
        ("embed --source sqlite:///later.db --table t --encoding cp1252", "is for files"),
        ("embed --source hf:a/b/c/d", "no data set 'hf:a/b/c/d'; write it like"),
        ("embed --source hf:a/b --format csv", "--format is for files; hf:a/b is a data set"),
        ("embed --source env:LATER --encoding WRONG", "no encoding 'WRONG'"),
        ("embed --source env:LATER --format xml", "no format 'xml'"),
        ("generate later.csv --prompt '{{ text'", "not a template"),
        ("generate later.csv --prompt '{{ title }}'", "--field title=COLUMN"),
        ("generate later.csv --temperature 3", "temperature"),
        ("generate later.csv --delete-missing", "makes no vectors: nothing to delete"),
        ("evaluate later.csv --scorers nosuch", "nosuch"),
    ],
)
def test_a_job_that_never_can_be_is_refused_before_its_file_is_there(
    stack: Rig, job: str, says: str
) -> None:
    words = shlex.split(job)
    named = ("--collection", "docs") if words[0] == "embed" else ()
    said = giveway(*add("nightly", *NIGHTLY, job=("submit", *words, *named)))

    assert (said.code, says in said.err) == (2, True), said.err
    assert stack.one("SELECT count(*) FROM schedules") == 0


def test_what_may_be_right_when_it_is_due_is_kept(stack: Rig) -> None:
    """The file, the variable and the database may come later, and so may the jobs before it."""
    for number, job in enumerate(
        (
            ("later.csv", "--encoding", "latin1", "--delimiter", "tab", "--where", "words > 20"),
            ("later", "--encoding", "cp1252", "--delimiter", ";"),
            ("--source", "env:LATER", "--table", "t", "--where", "lang = 'de'"),
            ("--source", "sqlite:///later.db", "--table", "t", "--where", "lang = 'de'"),
            ("later.csv", "--after", "another", "--deadline", "8h"),
        )
    ):
        added = ("submit", "embed", *job, "--collection", "docs")
        said = giveway(*add(f"n{number}", *NIGHTLY, job=added))
        assert said.code == 0, said.err


def test_unknown_and_doubled_names_are_told(stack: Rig, docs: Write) -> None:
    docs(3)
    giveway(*add("nightly", *NIGHTLY))
    assert "there already" in giveway(*add("nightly", *NIGHTLY)).err
    for verb in ("next", "pause", "resume", "run", "remove", "history"):
        said = giveway("schedules", verb, "weekly")
        assert (said.code, "no schedule 'weekly'" in said.err) == (2, True)


def test_a_run_whose_source_is_gone_fails_at_once(stack: Rig, docs: Write) -> None:
    docs(3)
    assert giveway(*add("nightly", *NIGHTLY)).err == ""
    Path("docs.jsonl").unlink()
    assert "docs.jsonl now" in giveway(*add("other", *NIGHTLY)).err
    said = giveway("schedules", "run", "nightly")
    assert said.code == 1
    assert "docs.jsonl" in said.out


def test_a_url_with_a_password_is_refused_and_a_variable_takes_its_place(
    stack: Rig, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: kept, due, launched as a control worker does it, worked on."""
    with psycopg.connect(database_url, autocommit=True) as own:
        own.execute("CREATE TABLE docs (id int PRIMARY KEY, body text)")
        own.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 30) AS n")
    secret = urlsplit(database_url).password
    assert secret
    job = ("submit", "embed", "--table", "docs", "--text-field", "body", "--collection", "docs")
    refused = giveway(*add("nightly", *NIGHTLY, job=(*job, "--source", database_url)))
    assert refused.code == 2
    assert "write env:NAME in its place, such as --source env:SOURCE_URL" in refused.err
    assert secret not in refused.err

    said = giveway(*add("nightly", *NIGHTLY, job=(*job, "--source", "env:SHOP_URL")))
    assert (said.code, "no environment variable 'SHOP_URL' is set here" in said.err) == (0, True)
    ran = giveway("schedules", "run", "nightly")
    assert (ran.code, "no environment variable 'SHOP_URL' is set" in ran.out) == (1, True)
    monkeypatch.setenv("SHOP_URL", database_url)
    stack.execute("UPDATE schedules SET seen_until = seen_until - interval '2 days'")
    assert stack.wiring.scheduling.tick() >= 1
    launched = stack.wiring.schedule_runs.launch()

    assert launched is not None
    assert launched.job is not None
    assert (stack.work(launched.job.id).state, stack.progress(launched.job.id).done) == (
        "completed",
        30,
    )
    for table in ("schedules", "schedule_runs", "jobs", "items", "chunks", "events"):
        held = stack.one(f"SELECT count(*) FROM {table} t WHERE t::text LIKE '%{secret}%'")
        assert (table, held) == (table, 0)
