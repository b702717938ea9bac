"""`giveway submit` from databases and folders, what it carries to the job, and `--dry-run`."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from app.cli.parts.keeping import template_of
from app.domain.cleaning import JSON
from app.errors import UsageError
from app.services.templates import JobTemplate, checked_template
from app.storage.vector_store import VectorStore
from tests.commands import done, giveway
from tests.integration.cli.conftest import Write
from tests.rig import Rig

Sql = Callable[..., list[Any]]
QUERY = ("--query", "select id, body from docs", "--id-field", "id", "--text-field", "body")


@pytest.fixture
def theirs(database_url: str) -> Sql:
    """Runs SQL on a database of somebody's own, with 500 docs."""

    def run(statement: str, *values: Any) -> list[Any]:
        with psycopg.connect(database_url, autocommit=True) as own:
            cursor = own.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    run("CREATE TABLE docs (id bigint PRIMARY KEY, body text, lang text)")
    run(
        "INSERT INTO docs SELECT n, 'text ' || n, CASE n % 5 WHEN 0 THEN 'de' ELSE 'en' END "
        "FROM generate_series(1, 500) AS n"
    )
    return run


def the_job(stack: Rig, columns: str) -> dict[str, Any]:
    row = stack.rows(f"SELECT {columns} FROM jobs ORDER BY id DESC LIMIT 1")[0]
    return dict(row._mapping)


def test_a_query_becomes_a_job(stack: Rig, theirs: Sql, database_url: str) -> None:
    call = ("submit", "embed", "--source", database_url, *QUERY, "--collection", "docs")
    said = done(*call, "--model", "fake-embed", "--key", "K")

    assert (said["total"], said["created"], said["collection"]) == (500, True, "docs")
    stored = dict(stack.rows("SELECT key, payload ->> 'text' FROM items"))
    assert stored == {str(n): f"text {n}" for n in range(1, 501)}
    again = done(*call, "--model", "fake-embed", "--key", "K")
    assert (again["job"], again["created"]) == (said["job"], False)


def test_a_table_that_changed_is_another_request(
    stack: Rig, theirs: Sql, database_url: str
) -> None:
    call = ("submit", "embed", "--source", database_url, *QUERY, "--collection", "docs")
    first, keyed = done(*call), done(*call, "--key", "K")
    theirs("UPDATE docs SET body = 'other' WHERE id = 7")
    second = done(*call)

    assert first["job"] != second["job"]
    assert second["created"]
    ran = giveway(*call, "--key", "K")
    assert (ran.code, "submitted with other content" in ran.err) == (2, True)
    theirs("UPDATE docs SET body = 'text 7' WHERE id = 7")
    assert done(*call, "--key", "K")["job"] == keyed["job"]


def test_the_password_is_in_no_row(
    stack: Rig, theirs: Sql, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = theirs("SELECT current_user")[0][0]
    url = database_url.replace(f"{user}@", f"{user}:SECRET@", 1)
    url += "" if "SECRET" in url else "?password=SECRET"
    ran = giveway("submit", "embed", "--source", url, *QUERY, "--collection", "docs", "--json")

    assert "SECRET" not in ran.out + ran.err
    for table in ("jobs", "items", "chunks"):
        assert stack.rows(f"SELECT count(*) FROM {table} t WHERE t::text LIKE '%SECRET%'") == [(0,)]
    done("submit", "embed", "--source", database_url, *QUERY, "--collection", "docs")
    assert len(stack.rows("SELECT DISTINCT source FROM jobs")) == 1, "the password is no identity"


def test_what_is_missing_is_deleted_only_where_the_source_gives_all(
    stack: Rig, theirs: Sql, database_url: str, docs: Write, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.md").write_text("one")
    query = ("--source", database_url, *QUERY, "--collection", "c")

    def deletes(*words: str) -> bool:
        done("submit", *words)
        return bool(the_job(stack, "delete_missing")["delete_missing"])

    assert deletes("embed", *query)
    assert not deletes("embed", *query, "--keep-missing", "--key", "a")
    assert not deletes("embed", *query, "--limit", "3")
    assert deletes("embed", "notes")
    (tmp_path / "notes/b.md").write_bytes(b"caf\xe9")
    assert not deletes("embed", "notes", "--lenient"), "nobody knows what b.md would have been"
    assert not deletes("embed", docs())
    assert deletes("embed", docs(word="new"), "--delete-missing")
    assert not deletes("generate", *query[:-2])
    refused = giveway("submit", "embed", *query, "--limit", "3", "--delete-missing")
    assert (refused.code, "whatever the limit left out" in refused.err) == (2, True)
    refused = giveway("submit", "generate", docs(), "--delete-missing")
    assert (refused.code, "makes no vectors" in refused.err) == (2, True)


def test_where_and_limit_choose_rows_and_are_part_of_the_request(
    stack: Rig, theirs: Sql, database_url: str, docs: Write
) -> None:
    query = ("submit", "embed", "--source", database_url, *QUERY[2:], "--table", "docs")
    query += ("--collection", "c", "--where", "lang = 'de'")
    file = ("submit", "embed", docs(), "--where", '"7" in id')

    assert [done(*query)["total"], done(*query, "--limit", "7")["total"]] == [100, 7]
    assert [done(*file)["total"], done(*file, "--limit", "3")["total"]] == [21, 3]


def test_every_new_option_reaches_the_job(stack: Rig, docs: Write) -> None:
    done("submit", "embed", docs(), "--key", "first")
    options = (
        "--tenant search --after first --window 22:00-6:30@Europe/Berlin --failover backup "
        "--budget 2.5 --webhook https://hooks.example/x --webhook-secret-env HOOK_SECRET"
    )
    done("submit", "embed", docs(), "--key", "second", *options.split())
    names = 'tenant, after, "window", failover, budget, webhook, source IS NOT NULL AS has_source'

    assert the_job(stack, names) == {
        "tenant": "search",
        "after": [1],
        "window": {"from": "22:00", "to": "06:30", "timezone": "Europe/Berlin"},
        "failover": "backup",
        "budget": 2.5,
        "webhook": {"url": "https://hooks.example/x", "secret_env": "HOOK_SECRET"},
        "has_source": True,
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--after nobody", "no job with key or id 'nobody' to come after"),
        ("--window 22-6", "no window '22-6'"),
        ("--window 22:00-06:00@Nowhere/Land", "no time zone 'Nowhere/Land'"),
        ("--budget -1", "budget: Input should be greater than 0"),
        ("--tenant 'a b'", "tenant: String should match pattern"),
        ("--webhook https://h.example", "go together"),
        ("--webhook ftp://h --webhook-secret-env A", "webhook.url: String should match"),
        ("--webhook https://h --webhook-secret-env A-B", "webhook.secret_env: String should"),
        ("--deadline 2020-01-01T00:00", "has passed"),
        ("--failover never", "Invalid value for '--failover'"),
        ("--source postgresql://h/d", "give FILE or --source, not both"),
        ("--query 'select 1'", "--query is for a database URL"),
        ("--where 'a ='", "is no expression"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(
    stack: Rig, docs: Write, options: str, said: str
) -> None:
    ran = giveway("submit", "embed", docs(), *shlex.split(options))

    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert stack.rows("SELECT count(*) FROM jobs") == [(0,)]


def test_a_source_must_be_named(stack: Rig) -> None:
    assert "name a FILE" in giveway("submit", "embed").err
    ran = giveway("submit", "embed", "--source", "postgresql://h/d", *QUERY)
    assert "name the collection with --collection" in ran.err


class TestDryRun:
    """What a job would take."""

    def figures(self, *words: str) -> dict[str, JSON]:
        return done("submit", *words, "--dry-run")

    def test_it_counts_and_writes_nothing(self, stack: Rig, docs: Write) -> None:
        file = docs(120, '{"id": "blank", "text": " "}', "no json")
        said = self.figures("embed", file, "--id-field", "id", "--lenient")

        assert stack.rows("SELECT count(*) FROM jobs") == [(0,)]
        assert stack.rows("SELECT count(*) FROM collections") == [(0,)]
        assert stack.endpoint.ledger()["requests"] == 0
        counted = ("items", "empty", "skipped_lines", "unchanged", "to_send", "calls")
        # 50 items a chunk and 10 a call: the blank one is not among the 120 that are left.
        assert [said[name] for name in counted] == [121, 1, 1, 0, 120, 12]
        assert said["prompt_tokens"] == sum(-(-len(f"text number {n}") // 4) for n in range(120))
        assert str(said["prompt_tokens_basis"]).startswith("rough")
        assert (said["seconds"], said["money"]) == (None, None)
        assert str(said["seconds_basis"]).startswith("unknown: no recent calls")

    def test_what_is_there_already_is_not_sent(self, stack: Rig, docs: Write) -> None:
        done("submit", "embed", docs(120), "--id-field", "id")
        stack.work(1)
        said = self.figures("embed", docs(150), "--id-field", "id")

        assert (said["unchanged"], said["to_send"]) == (120, 30)

    def test_time_is_that_of_recent_calls(self, stack: Rig, docs: Write) -> None:
        done("submit", "embed", docs(120), "--id-field", "id", "--chunk-items", "10")
        stack.work(1)
        said = self.figures("embed", docs(240, word="else"), "--max-in-flight", "2")
        ((seconds, tokens),) = stack.rows(
            "SELECT sum(seconds), sum(prompt_tokens) FROM batch_calls"
        )
        expected = seconds / tokens * said["prompt_tokens"] / 2  # type: ignore[operator]

        assert said["seconds"] == pytest.approx(expected)
        assert re.match(
            r"at 2 places, at the pace of the last \d+ calls", str(said["seconds_basis"])
        )

    def test_money_is_by_the_prices_of_the_endpoint(
        self, stack: Rig, docs: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = self.figures("generate", docs(10), "--max-tokens", "100")
        assert (said["completion_tokens"], said["money"]) == (1000, None)
        (endpoint,) = json.loads(os.environ["GIVEWAY_ENDPOINTS"])
        priced = {**endpoint, "input_price": 2.0, "output_price": 10.0}
        monkeypatch.setenv("GIVEWAY_ENDPOINTS", json.dumps([priced]))
        said = self.figures("generate", docs(10), "--max-tokens", "100")
        expected = (2.0 * float(str(said["prompt_tokens"])) + 10.0 * 1000) / 1e6

        assert said["money"] == pytest.approx(expected)
        assert "at most: 100 an answer" in str(said["completion_tokens_basis"])

    def test_it_is_said_in_words_too(self, stack: Rig, docs: Write) -> None:
        ran = giveway("submit", "embed", docs(), "--dry-run")

        assert ran.code == 0
        assert "to send        120 in 12 calls" in ran.out
        assert "nothing was written" in ran.out

    def test_what_would_be_refused_is_refused(self, stack: Rig, docs: Write) -> None:
        ran = giveway("submit", "embed", docs(3, "no json"), "--dry-run")
        assert (ran.code, "1 of 4 records cannot be read" in ran.err) == (2, True)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ("--after nosuchjob", "no job with key or id 'nosuchjob' to come after"),
            ("--key taken", "key 'taken' belongs to job"),
            ("--key free", None),
            ("--collection theirs", "holds vectors of model"),
            ("--resume-streamed", "streams no text"),
            ("--deadline 2020-01-01T00:00", "has passed"),
        ],
    )
    def test_it_refuses_what_submitting_would_refuse(
        self, stack: Rig, docs: Write, options: str, said: str | None
    ) -> None:
        done("submit", "embed", docs(2), "--key", "taken", "--collection", "docs")
        with stack.wiring.database.transaction() as tx:
            VectorStore(tx).ensure("theirs", "another-model")
        words = ("submit", "embed", docs(3), *shlex.split(options))
        dry, wet = giveway(*words, "--dry-run"), giveway(*words)

        if said is None:
            assert (dry.code, wet.code) == (0, 0)
            return
        assert (dry.code, said in dry.err) == (2, True), dry.err
        assert wet.code == 2

    def test_the_key_of_the_same_job_is_not_taken(self, stack: Rig, docs: Write) -> None:
        words = ("submit", "embed", docs(2), "--key", "mine")
        done(*words)
        assert done(*words, "--dry-run")["items"] == 2


def test_a_webhooks_secret_that_is_none_is_refused_where_it_can_be_seen(
    stack: Rig, docs: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = ("--webhook", "https://example.org/h", "--webhook-secret-env", "HOOK_SECRET")
    monkeypatch.setenv("HOOK_SECRET", "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    ran = giveway("submit", "embed", docs(1), *hook)
    assert (ran.code, "HOOK_SECRET holds no secret" in ran.err) == (2, True)
    assert "MfKQ" not in ran.err

    monkeypatch.delenv("HOOK_SECRET")  # That of the control worker counts.
    assert giveway("submit", "embed", docs(1), *hook).code == 0


def test_a_prompt_comes_from_a_file_and_one_without_a_field_warns(
    stack: Rig, docs: Write, tmp_path: Path
) -> None:
    (tmp_path / "prompt.txt").write_text("Say it: {{ text }}\n")
    (tmp_path / "same.txt").write_text("Say it\n")
    said = giveway("submit", "generate", docs(2), "--prompt", "@prompt.txt")
    assert (said.code, "warning" in said.err) == (0, False)
    assert the_job(stack, "params")["params"]["prompt"] == "Say it: {{ text }}"

    for more in (("--dry-run",), ()):
        said = giveway("submit", "generate", docs(2), "--prompt", "@same.txt", *more)
        assert (said.code, "warning: the prompt names no field" in said.err) == (0, True)
    kept = template_of(
        ("submit", "generate", "docs.jsonl", "--prompt", "@prompt.txt"), stack.wiring
    )
    assert kept.params["prompt"] == "Say it: {{ text }}"
    lost = giveway("submit", "generate", docs(2), "--prompt", "@nosuch.txt")
    assert (lost.code, "nosuch.txt: cannot be read" in lost.err) == (2, True)


class TestTooLong:
    """What no endpoint takes is a bad line."""

    LINE = json.dumps({"id": "long", "text": "word " * 4_000_000})

    @pytest.mark.parametrize("more", [(), ("--dry-run",)])
    def test_a_line_that_no_request_holds_is_refused_by_its_number(
        self, stack: Rig, docs: Write, more: tuple[str, ...]
    ) -> None:
        words = ("submit", "embed", docs(3, self.LINE), "--id-field", "id", *more)
        ran = giveway(*words)

        assert ran.code == 2
        assert "1 of 4 records cannot be read" in ran.err
        assert "line 4: too long: it makes a request of 20,000,002 bytes" in ran.err
        assert "max_request_bytes" in ran.err
        assert stack.rows("SELECT count(*) FROM jobs") == [(0,)]
        lenient = done(*words, "--lenient")
        assert lenient["items" if more else "total"] == 3

    @pytest.mark.parametrize(
        ("kind", "limit", "refused"),
        [
            ("embed", {"max_input_tokens": 16}, True),
            ("embed", {"max_batch_tokens": 16}, True),
            ("embed", {"max_request_bytes": 1500}, True),
            ("embed", {"max_input_tokens": 512}, False),
            ("embed --long-texts split --most-tokens 20", {"max_input_tokens": 16}, False),
            ("generate", {"max_input_tokens": 16}, True),
            ("generate --prompt '{{ text }} {{ text }}'", {"max_request_bytes": 3000}, True),
            ("generate --prompt '{{ text[:9] }}'", {"max_input_tokens": 16}, False),
            ("summarize --words 20 --part-tokens 256", {"max_request_bytes": 2100}, False),
            ("evaluate --scorers exact --field expected=id", {"max_input_tokens": 16}, True),
        ],
    )
    def test_what_is_sent_of_an_item_is_what_counts(
        self,
        stack: Rig,
        docs: Write,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
        limit: dict[str, int],
        refused: bool,
    ) -> None:
        (endpoint,) = json.loads(os.environ["GIVEWAY_ENDPOINTS"])
        monkeypatch.setenv("GIVEWAY_ENDPOINTS", json.dumps([{**endpoint, **limit}]))
        line = json.dumps({"id": "long", "text": "word " * 320})
        ran = giveway("submit", *shlex.split(kind), docs(1, line), "--id-field", "id")

        assert ran.code == (2 if refused else 0), ran.err
        assert ("line 2: too long: it makes a " in ran.err) == refused

    def test_one_endpoint_that_may_take_it_is_enough(
        self, stack: Rig, docs: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (endpoint,) = json.loads(os.environ["GIVEWAY_ENDPOINTS"])
        two = [{**endpoint, "max_input_tokens": 16}, {**endpoint, "name": "other"}]
        monkeypatch.setenv("GIVEWAY_ENDPOINTS", json.dumps(two))
        line = json.dumps({"id": "long", "text": "word " * 320})

        assert giveway("submit", "embed", docs(1, line)).code == 0

    def test_a_query_names_the_row(self, stack: Rig, theirs: Sql, database_url: str) -> None:
        theirs("UPDATE docs SET body = repeat('x', 11000000) WHERE id = 7")
        query = ("--query", f"{QUERY[1]} order by id", *QUERY[2:])
        ran = giveway(
            *("submit", "embed", "--source", database_url, *query, "--collection", "docs")
        )

        assert (ran.code, "line 7: too long" in ran.err) == (2, True), ran.err


class TestKeeping:
    """A `submit …` that is written down for later."""

    def test_a_command_becomes_a_template(self, stack: Rig, tmp_path: Path) -> None:
        words = shlex.split("submit embed docs.csv --id-field id --priority 3 --deadline 8h")
        template = template_of(words, stack.wiring)

        assert template.source.uri == str(tmp_path / "docs.csv")
        assert template.params == {"model": "fake-embed", "collection": "docs"}
        assert (template.priority, template.deadline) == (3, "8h")
        kept = template.model_dump(mode="json")
        assert checked_template(kept) == template == JobTemplate.model_validate(kept)

    def test_the_same_template_is_the_same_job_as_the_command(
        self, stack: Rig, docs: Write
    ) -> None:
        words = ("submit", "embed", docs(), "--id-field", "id")
        template = template_of(words, stack.wiring)
        launched = stack.wiring.launching.launch(template, "K")

        assert launched.created
        assert done(*words, "--key", "K")["job"] == launched.job.id

    @pytest.mark.parametrize(
        ("command", "said"),
        [
            ("jobs list", "only `submit KIND …`"),
            ("submit embed -", "name the collection|standard input"),
            ("submit embed - --collection c", "standard input"),
            ("submit embed x.csv --key k", "--key has no meaning"),
            ("submit embed x.csv --wait", "--wait has no meaning"),
            ("submit embed x.csv --dry-run", "--dry-run has no meaning"),
            (
                "submit embed --source postgresql://u:SECRET@h/d --table t --collection c",
                "env:NAME",
            ),
        ],
    )
    def test_what_cannot_be_kept_is_refused(self, stack: Rig, command: str, said: str) -> None:
        with pytest.raises(UsageError, match=said) as caught:
            template_of(shlex.split(command), stack.wiring)
        assert "SECRET" not in str(caught.value)
