"""`giveway collections export … --to`: vectors in a table of somebody's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg
import pytest

from tests.commands import done, giveway
from tests.rig import Rig

Sql = Callable[..., list[Any]]


@pytest.fixture
def theirs(database_url: str) -> Sql:
    """Runs SQL on a database that is not ours."""

    def run(statement: str, *values: Any) -> list[Any]:
        with psycopg.connect(database_url, autocommit=True) as own:
            cursor = own.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def to(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("THEIR_URL", database_url)
    return "env:THEIR_URL"


@pytest.fixture
def dimension(stack: Rig) -> int:
    """A collection `docs` with 60 vectors, k0 to k59; how long each is."""
    stack.work(stack.submit([f"text number {n}" for n in range(60)]).job.id)
    ((found,),) = stack.rows("SELECT dimension FROM collections")
    return int(found)


def ours(stack: Rig) -> dict[str, str]:
    return dict(stack.rows("SELECT key, CAST(vector AS text) FROM embeddings"))


def test_a_table_is_made_and_filled(stack: Rig, dimension: int, theirs: Sql, to: str) -> None:
    ran = giveway("collections", "export", "docs", "--to", to, "--table", "vectors")
    assert (ran.code, "no table vectors; --create makes it" in ran.err) == (2, True)

    said = done("collections", "export", "docs", "--to", to, "--table", "vectors", "--create")
    assert (said["rows"], said["missing"], said["table"]) == (60, 0, "vectors")
    assert dict(theirs("SELECT id, CAST(embedding AS text) FROM vectors")) == ours(stack)


def test_again_changes_nothing_and_a_new_vector_replaces(
    stack: Rig, dimension: int, theirs: Sql, to: str
) -> None:
    call = ("collections", "export", "docs", "--to", to, "--table", "vectors", "--create")
    done(*call)
    theirs("UPDATE vectors SET embedding = (SELECT embedding FROM vectors WHERE id = 'k1')")
    theirs("DELETE FROM vectors WHERE id = 'k2'")

    assert done(*call)["rows"] == 60
    assert dict(theirs("SELECT id, CAST(embedding AS text) FROM vectors")) == ours(stack)


def test_a_table_of_docs_gets_its_column_filled(
    stack: Rig, dimension: int, theirs: Sql, to: str
) -> None:
    theirs("CREATE SCHEMA app")
    theirs(
        "CREATE TABLE app.docs (slug varchar(20) PRIMARY KEY, body text NOT NULL, "
        f"vec halfvec({dimension}))"
    )
    theirs("INSERT INTO app.docs SELECT 'k' || n, 'x' FROM generate_series(0, 39) AS n")
    call = ("collections", "export", "docs", "--to", to, "--table", "app.docs", "--id-column")
    call += ("slug", "--vector-column", "vec")

    ran = giveway(*call)
    assert ran.code == 2
    assert "with --only-existing, rows that the table lacks are left out" in ran.err
    said = done(*call, "--only-existing")
    assert (said["rows"], said["missing"]) == (40, 20)
    stored = dict(theirs("SELECT slug, CAST(vec AS text) FROM app.docs"))
    for key, vector in ours(stack).items():
        if key in stored:
            near = np.fromstring(stored[key][1:-1], sep=",")
            assert np.allclose(near, np.fromstring(vector[1:-1], sep=","), atol=1e-3)


def test_a_number_as_id_is_a_number_there(stack: Rig, docs: Any, theirs: Sql, to: str) -> None:
    done("submit", "embed", docs(20), "--collection", "numbered")
    stack.work(1)
    ((dimension,),) = stack.rows("SELECT dimension FROM collections WHERE name = 'numbered'")
    theirs(f"CREATE TABLE v (id bigint PRIMARY KEY, embedding vector({dimension}))")

    done("collections", "export", "numbered", "--to", to, "--table", "v")
    assert theirs("SELECT min(id), max(id), count(*) FROM v") == [(1, 20, 20)]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("id text PRIMARY KEY, embedding vector(3)", "takes vectors of 3 numbers; these have"),
        ("id text PRIMARY KEY, embedding text", "is text, not vector or halfvec"),
        ("id text PRIMARY KEY, vec vector(3)", "has no column 'embedding'; columns: id, vec"),
        ("id bigint PRIMARY KEY, embedding vector", "invalid input syntax for type bigint"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    dimension: int, theirs: Sql, to: str, table: str, said: str
) -> None:
    theirs(f"CREATE TABLE v ({table})")
    ran = giveway("collections", "export", "docs", "--to", to, "--table", "v")

    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert theirs("SELECT count(*) FROM v") == [(0,)]


def test_options_that_do_not_go_together(stack: Rig) -> None:
    for options in (("--to", "postgresql://h/d"), ("--table", "t")):
        assert "go together" in giveway("collections", "export", "docs", *options).err
    both = ("--to", "postgresql://h/d", "--table", "t", "--output", "x")
    assert "leave --output" in giveway("collections", "export", "docs", *both).err


def test_a_server_that_is_away_is_named_without_its_password(dimension: int) -> None:
    url = "postgresql://who:SECRET@127.0.0.1:1/d"
    ran = giveway("collections", "export", "docs", "--to", url, "--table", "t")

    assert (ran.code, "does not answer" in ran.err, "SECRET" in ran.err) == (1, True, False)


def test_collections_alone_still_lists_them(dimension: int) -> None:
    assert done("collections")["collections"][0]["vectors"] == 60
