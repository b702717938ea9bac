"""A query as a source: on real Postgres, and on SQLite for what every other database shares."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from app.errors import BadSource, DatabaseUnavailable, MissingPart, UsageError
from app.services.items import SourceItems
from app.storage.sources import sql_pages
from app.storage.sources.base import Asked, ReadOptions, Record
from app.storage.sources.origins import place_of
from app.storage.sources.reading import Reading
from app.storage.sources.sql_origin import BATCH_ROWS
from app.storage.sources.sql_pages import PAGE_ROWS

OPTIONS = ReadOptions(id_field="id", text_field="body")
QUERY = "select id, body, lang from docs"


@contextmanager
def at(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def docs_url(database_url: str) -> str:
    """A database with 25,000 docs, more than two pages and many batches."""
    with at(database_url) as own:
        own.execute("CREATE TABLE docs (id bigint PRIMARY KEY, body text, lang text)")
        own.execute(
            "INSERT INTO docs SELECT n, 'text ' || n, CASE WHEN n % 5 = 0 THEN 'de' ELSE 'en' END "
            "FROM generate_series(1, 25000) AS n"
        )
    return database_url


@pytest.fixture
def lite(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "docs.db") as own:
        own.execute("CREATE TABLE docs (id integer PRIMARY KEY, body text, lang text)")
        own.executemany(
            "INSERT INTO docs VALUES (?, ?, ?)",
            [(n, f"text {n}", "de" if n % 5 == 0 else "en") for n in range(1, 25_001)],
        )
    own.close()
    return f"sqlite:///{tmp_path / 'docs.db'}"


def read(url: str, options: ReadOptions = OPTIONS, **asked: Any) -> list[Record]:
    given: dict[str, Any] = {"query": QUERY, **asked}
    return list(Reading(place_of(Asked(url, **given)), options))


Make = Callable[..., SourceItems]


@pytest.fixture
def items() -> Iterator[Make]:
    """Makes the items of a query; they are closed at the end."""
    made: list[SourceItems] = []

    def make(url: str, options: ReadOptions = OPTIONS, **asked: Any) -> SourceItems:
        given: dict[str, Any] = {"query": QUERY, **asked}
        made.append(SourceItems(place_of(Asked(url, **given)), options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=["postgres", "sqlite"])
def any_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue({"postgres": "docs_url", "sqlite": "lite"}[request.param]))


@pytest.mark.parametrize("keyset", [False, True])
def test_all_rows_come_as_they_are(any_url: str, keyset: bool) -> None:
    records = read(any_url, keyset=keyset)

    assert len(records) == 25_000 > 2 * PAGE_ROWS
    by_key = {r.key: r.payload["text"] for r in records}
    assert by_key == {str(n): f"text {n}" for n in range(1, 25_001)}


@pytest.mark.parametrize("keyset", [False, True])
def test_no_more_is_held_than_a_batch(any_url: str, keyset: bool) -> None:
    most = PAGE_ROWS if keyset else BATCH_ROWS
    with place_of(Asked(any_url, QUERY, keyset=keyset)).rows(OPTIONS) as rows:
        sizes = [len(batch) for batch in rows.batches]

    assert (sum(sizes), max(sizes)) == (25_000, most)


def test_rows_stay_on_the_server_until_they_are_asked_for(docs_url: str) -> None:
    with place_of(Asked(docs_url, QUERY)).rows(OPTIONS) as rows:
        next(rows.batches)
        with at(docs_url) as own:
            (reading,) = own.execute(
                "SELECT query FROM pg_stat_activity WHERE application_name = 'giveway source'"
            ).fetchall()

    assert "FETCH FORWARD" in reading[0]


@pytest.mark.parametrize("keyset", [False, True])
def test_where_is_sql_and_limit_ends_the_reading(any_url: str, keyset: bool) -> None:
    where = ReadOptions(id_field="id", text_field="body", where="lang = 'de' AND id > 10")
    few = ReadOptions(id_field="id", text_field="body", where="lang = 'de'", limit=7)

    assert len(read(any_url, where, keyset=keyset)) == 4998
    assert len(read(any_url, few, keyset=keyset)) == 7


def test_a_table_is_known_by_its_primary_key(any_url: str) -> None:
    options = ReadOptions(text_field="body", limit=3)
    records = read(any_url, options, query=None, table="docs")

    assert [r.key for r in records] == ["1", "2", "3"]


def test_a_table_in_a_schema(docs_url: str) -> None:
    with at(docs_url) as own:
        own.execute('CREATE SCHEMA "Other"')
        own.execute('CREATE TABLE "Other".notes (slug text PRIMARY KEY, body text)')
        own.execute("""INSERT INTO "Other".notes VALUES ('a', 'one')""")

    assert read(docs_url, ReadOptions(text_field="body"), query=None, table="Other.notes") == [
        Record(1, "a", {"text": "one"})
    ]


def test_a_query_without_an_id_is_refused(any_url: str) -> None:
    with pytest.raises(UsageError, match="--id-field"):
        read(any_url, ReadOptions(text_field="body"))


def test_a_colon_and_a_percent_sign_are_only_text(any_url: str) -> None:
    query = "select id, 'a:b 100% :c' as body from docs where body like '%text 77%' and id < 99"
    expected = [("77", "a:b 100% :c")]

    for keyset in (False, True):
        found = read(any_url, query=query, keyset=keyset)
        assert [(r.key, r.payload["text"]) for r in found] == expected


def test_casts_work_by_pages_too(docs_url: str) -> None:
    found = read(docs_url, query="select id, id::text || ':x' as body from docs;", keyset=True)

    assert (len(found), found[4].payload["text"]) == (25_000, "5:x")


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM docs RETURNING id, body",
        "WITH gone AS (DELETE FROM docs RETURNING *) SELECT id, body FROM gone",
        "SELECT id, body FROM docs; DELETE FROM docs",
        "SELECT id, body FROM docs; COMMIT; DELETE FROM docs",
        "SELECT id, body FROM docs; COMMIT; BEGIN READ WRITE; DELETE FROM docs",
        "SELECT setval('counted', 99) AS id, 'x' AS body",
        "TRUNCATE docs",
        "COPY docs TO '/tmp/x'",
    ],
)
@pytest.mark.parametrize("keyset", [False, True])
def test_nothing_but_one_select_is_run(docs_url: str, query: str, keyset: bool) -> None:
    with at(docs_url) as own:
        own.execute("CREATE SEQUENCE counted")

    with pytest.raises(BadSource):
        read(docs_url, query=query, keyset=keyset)
    with at(docs_url) as own:
        assert own.execute("SELECT count(*) FROM docs").fetchall() == [(25_000,)]
        assert own.execute("SELECT last_value FROM counted").fetchall() == [(1,)]


@pytest.mark.parametrize("query", ["DELETE FROM docs RETURNING id, body", "DROP TABLE docs"])
def test_sqlite_is_only_read_too(lite: str, query: str) -> None:
    with pytest.raises(BadSource):
        read(lite, query=query)
    assert len(read(lite)) == 25_000


def test_the_source_is_not_held_longer_than_it_is_read(docs_url: str, items: Make) -> None:
    items(docs_url).content_hash()
    with at(docs_url) as own:
        said = own.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", ["giveway source"]
        )
        assert said.fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select id, body from dosc", 'relation "dosc" does not exist'),
        ("select id, boddy from docs", 'column "boddy" does not exist'),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select id as nr, body from docs", "no column 'id'"),
    ],
)
def test_a_wrong_query_is_told_in_one_line(docs_url: str, query: str, said: str) -> None:
    with pytest.raises(BadSource, match=said) as caught:
        read(docs_url, query=query)
    assert "\n" not in str(caught.value)


def test_values_of_the_data_are_not_in_errors(docs_url: str) -> None:
    with pytest.raises(BadSource) as caught:
        read(docs_url, query="select body::int as id, body from docs")
    assert "invalid input syntax" in str(caught.value)
    assert "text 1" not in str(caught.value)


def test_the_password_is_nowhere(docs_url: str) -> None:
    parts = urlsplit(docs_url)
    with_password = urlunsplit(parts._replace(netloc=f"who:SECRET@{parts.netloc.split('@')[-1]}"))
    nobody = "postgresql://who:SECRET@127.0.0.1:1/docs?password=SECRET"

    with pytest.raises((BadSource, DatabaseUnavailable)) as caught:
        read(with_password)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(DatabaseUnavailable, match="does not answer") as away:
        read(nobody)
    assert "SECRET" not in str(away.value)
    assert "SECRET" not in str(place_of(Asked(nobody, "select 1")).identity())
    with pytest.raises(UsageError, match="no database URL") as odd:
        read("postgresql://u:SEC/RET@h:x/d")
    assert "SEC" not in str(odd.value)


def test_what_a_source_is_does_not_hang_on_who_asks() -> None:
    def identity(url: str, query: str = QUERY) -> tuple[str, ...]:
        return place_of(Asked(url, query)).identity()

    one = identity("postgresql://a:x@h:5432/d")
    assert one == identity("postgresql+psycopg://b:y@h:5432/d?application_name=z")
    assert one != identity("postgresql://a:x@h:5432/other")
    assert one != identity("postgresql://a:x@h:5432/d", "select 1")


def test_a_file_is_the_same_source_from_wherever_it_is_named(
    lite: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    places = [place_of(Asked(url, QUERY)) for url in (lite, "sqlite:///docs.db")]
    assert places[0].identity() == places[1].identity()


def test_a_driver_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingPart, match="no driver for oracle"):
        read("oracle://u@h/d")


def test_odd_values_become_json(docs_url: str) -> None:
    query = (
        "SELECT 12345678901234567890123::numeric AS id, NULL::text AS body, 1.50::numeric AS n, "
        "'2026-01-02 03:04+00'::timestamptz AS at, '\\xff'::bytea AS raw, array[1,2] AS many, "
        "'{\"a\": null}'::jsonb AS doc, gen_random_uuid() AS u, 'NaN'::float8 AS nan"
    )
    fields = {name: name for name in ("n", "at", "raw", "many", "doc", "nan")}
    (record,) = read(docs_url, ReadOptions("id", "body", fields), query=query)

    assert record.key == "12345678901234567890123"
    assert record.payload == {
        "text": "",
        "n": "1.50",
        "at": "2026-01-02T03:04:00+00:00",
        "raw": "ff",
        "many": [1, 2],
        "doc": {"a": None},
        "nan": None,
    }


def test_the_same_rows_in_another_order_are_the_same_content(any_url: str, items: Make) -> None:
    up, down = (items(any_url, query=f"{QUERY} order by id {o}") for o in ("asc", "desc"))
    other = items(
        any_url, query="select id, body || CASE id WHEN 9 THEN '.' ELSE '' END AS body from docs"
    )

    assert up.content_hash() == down.content_hash() != other.content_hash()
    assert next(iter(up.rows()))[0] == "1" != next(iter(down.rows()))[0]


def test_what_is_loaded_is_what_was_hashed(docs_url: str, items: Make) -> None:
    source = items(docs_url)
    before = source.content_hash()
    with at(docs_url) as own:
        own.execute("DELETE FROM docs WHERE id > 10")

    assert len(list(source.rows())) == 25_000
    assert source.content_hash() == before != items(docs_url).content_hash()


def test_a_row_that_cannot_be_an_item_is_named_by_its_number(docs_url: str) -> None:
    with pytest.raises(BadSource, match="1 of 25,000 records cannot be read") as caught:
        read(docs_url, query="select nullif(id, 3) as id, body from docs order by docs.id")
    assert caught.value.lines == ("line 3: id is null; an id is text or a number",)


def test_an_id_that_comes_twice_is_named(any_url: str) -> None:
    query = "select id, body from docs union all select 7 as id, 'again' as body"
    with pytest.raises(BadSource, match="1 of 25,001 records") as caught:
        read(any_url, query=query)
    assert "the id '7' is on line" in caught.value.lines[0]

    lenient = ReadOptions(id_field="id", text_field="body", lenient=True)
    assert len(read(any_url, lenient, query=query)) == 25_000


@pytest.mark.parametrize("keyset", [False, True])
def test_rows_without_an_id_are_named_and_end_the_reading(any_url: str, keyset: bool) -> None:
    """On pages in the order of the id they have no place of their own, wherever they stand."""
    query = "select case when id > 2 then id end as id, body from docs where id < 8"
    with pytest.raises(BadSource, match="2 of 7 records") as caught:
        read(any_url, query=query, keyset=keyset)
    assert all("id is null" in line for line in caught.value.lines)
    lenient = replace(OPTIONS, lenient=True)
    assert len(read(any_url, lenient, query=query, keyset=keyset)) == 5


def test_a_column_that_is_there_twice_is_refused(any_url: str) -> None:
    with pytest.raises(BadSource, match="the column 'body' is there twice"):
        read(any_url, query="select id, body, 'x' as body from docs")


def test_a_table_that_is_not_there_is_named(any_url: str) -> None:
    place = place_of(Asked(any_url, table="nosuch"))
    with pytest.raises(BadSource, match="no table 'nosuch'"):
        place.fitted(ReadOptions(text_field="body"))


def test_texts_in_a_binary_column_are_read_as_text(any_url: str) -> None:
    cast = "cast(body as blob)" if any_url.startswith("sqlite") else "convert_to(body, 'UTF8')"
    found = read(any_url, query=f"select id, {cast} as body from docs where id < 3")
    assert [record.payload["text"] for record in found] == ["text 1", "text 2"]


def test_what_postgres_refuses_is_cleaned(lite: str) -> None:
    (record,) = read(lite, query="select 1 as id, 'a' || char(0) || 'b' as body")

    assert record.payload == {"text": "ab"}


def test_an_empty_table_is_a_source_without_items(any_url: str) -> None:
    assert read(any_url, query="select id, body from docs where 1 = 0") == []
    assert read(any_url, query="select id, body from docs where 1 = 0", keyset=True) == []


@pytest.mark.parametrize(("query", "table"), [(None, None), ("select 1", "docs")])
def test_a_database_wants_a_query_or_a_table(query: Any, table: Any) -> None:
    with pytest.raises(UsageError, match="--query or --table"):
        place_of(Asked("postgresql://h/d", query, table))


def test_a_variable_holds_the_url(docs_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCS_URL", docs_url)

    assert len(read("env:DOCS_URL")) == 25_000
    with pytest.raises(UsageError, match="no environment variable 'NOT_SET'"):
        read("env:NOT_SET")


IDS = {
    "mood": "'{low,mid,high}'::mood[]",
    "macaddr": "array['08:00:2b:01:02:03', '08:00:2b:01:02:04', '08:00:2b:01:02:05']::macaddr[]",
    "inet": "array['10.0.0.1', '10.0.0.2/16', '::1']::inet[]",
    "uuid": "array[gen_random_uuid(), gen_random_uuid(), gen_random_uuid()]",
    "real": "array[0.1, 0.2, 0.3]::real[]",
    "float8": "array[0.1, 0.25, '-0']::float8[]",
    "numeric": "array[1.5, 2, 1e30]::numeric[]",
    "char(3)": "array['a', 'ab', 'abc']::char(3)[]",
    "name": "array['a', 'b', 'c']::name[]",
    "citext": "array['a', 'B', 'c']::citext[]",
    "short": "array['a', 'b', 'c']::short[]",
    "bit(3)": "array['001', '010', '100']::bit(3)[]",
    "bytea": "array['a', 'b', 'c']::bytea[]",
    "money": "array[1.5, 2, 3]::money[]",
    "date": "array['2026-01-01', '2026-01-02', '2026-01-03']::date[]",
    "timestamptz": "array['2026-01-01', '2026-01-02', '2026-01-03']::timestamptz[]",
    "interval": "array['1 month', '29 days', '1 year 2 hours']::interval[]",
    "pg_lsn": "array['0/1', '0/2', '1/0']::pg_lsn[]",
}


@pytest.mark.parametrize("sort", IDS)
def test_pages_go_by_an_id_of_any_type(
    docs_url: str, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    monkeypatch.setattr(sql_pages, "PAGE_ROWS", 2)
    with at(docs_url) as own:
        own.execute("CREATE TYPE mood AS ENUM ('low', 'mid', 'high')")
        own.execute("CREATE DOMAIN short AS text CHECK (length(value) < 3)")
        own.execute("CREATE EXTENSION IF NOT EXISTS citext")
        own.execute(f"CREATE TABLE odd (id {sort} PRIMARY KEY, body text, other timestamptz)")
        own.execute(f"INSERT INTO odd SELECT id, id::text, 'infinity' FROM unnest({IDS[sort]}) id")
        expected = [row[0] for row in own.execute("SELECT body FROM odd ORDER BY id").fetchall()]

    for asked in ({"table": "odd", "query": None}, {"query": "select * from odd -- all"}):
        found = read(docs_url, keyset=True, **asked)
        assert [record.payload["text"] for record in found] == expected
        assert len({record.key for record in found}) == 3


def test_two_rows_of_one_id_on_two_pages_are_told(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the second would be neither read nor named."""
    monkeypatch.setattr(sql_pages, "PAGE_ROWS", 2)
    query = (
        "select id, body from docs where id < 8 union all select 2 as id, 'again' as body "
        "union all select 2 as id, 'and again' as body"
    )
    with pytest.raises(BadSource, match="2 of 9 records") as caught:
        read(any_url, query=query, keyset=True)
    assert all("the id '2' is on line" in line for line in caught.value.lines)


def test_rows_without_an_id_are_all_counted_by_pages_too(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_pages, "PAGE_ROWS", 2)
    query = "select case when id > 5 then id end as id, body from docs where id < 8"
    with pytest.raises(BadSource, match="5 of 7 records"):
        read(any_url, query=query, keyset=True)


ODD = (
    "select 1 as id, 'a' as body, 'infinity'::timestamptz as at, '0044-03-15 BC'::date as day "
    "union all select 2, 'b', '2026-01-02 03:04+00', '2026-01-02'"
)


@pytest.mark.parametrize("keyset", [False, True])
@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        ({"at": "at"}, "line 1: at is infinity, which is not a time that can be kept"),
        (
            {"on": "day"},
            "line 1: day is a date that is too long ago, too far ahead or too long",
        ),
    ],
)
def test_a_value_that_nothing_can_hold_is_named_by_row_and_column(
    docs_url: str, keyset: bool, columns: dict[str, str], wrong: str
) -> None:
    options = replace(OPTIONS, fields=columns)
    assert len(read(docs_url, query=ODD, keyset=keyset)) == 2
    with pytest.raises(BadSource) as caught:
        read(docs_url, options, query=ODD, keyset=keyset)
    assert caught.value.lines == (wrong,)
    assert len(read(docs_url, replace(options, lenient=True), query=ODD, keyset=keyset)) == 1


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("'24:00'::time", "24:00:00"),
        ("array['infinity'::date]", None),
        ("'[2026-01-01,infinity)'::daterange", None),
        ("array['2026-01-01'::date]", ["2026-01-01"]),
        ("('[' || repeat('[', 2000) || repeat(']', 2000) || ']')::jsonb", None),
        ("'9999-12-31 23:59:59'::timestamp", "9999-12-31T23:59:59"),
        ("'10000-01-01'::timestamp", None),
        ("'-infinity'::timestamp", None),
    ],
)
def test_odd_values_of_postgres(docs_url: str, value: str, kept: Any) -> None:
    """Nested or not: what is there is kept whole, or its column is named."""
    options = replace(OPTIONS, fields={"odd": "odd"})
    query = f"select 1 as id, 'x' as body, {value} as odd"
    if kept is None:
        with pytest.raises(BadSource) as caught:
            read(docs_url, options, query=query)
        assert caught.value.lines[0].startswith("line 1: odd is ")
    else:
        (record,) = read(docs_url, options, query=query)
        assert record.payload["odd"] == kept


@pytest.mark.parametrize("keyset", [False, True])
@pytest.mark.parametrize("asked", [{"query": "select * from wide"}, {"table": "wide"}])
def test_columns_that_nobody_asked_for_are_not_read(
    docs_url: str, keyset: bool, asked: dict[str, str]
) -> None:
    """The view works one out that cannot be, and the role may not read the table's other one."""
    with at(docs_url) as own:
        own.execute("CREATE VIEW wide AS SELECT id, body, lang, 1 / (id - id) AS never FROM docs")
        own.execute(
            "CREATE ROLE few LOGIN PASSWORD 'few'; GRANT SELECT (id, body, lang) ON docs TO few"
        )
    few = urlsplit(docs_url)
    role = urlunsplit(few._replace(netloc=f"few:few@{few.netloc.split('@')[-1]}"))
    chosen = replace(OPTIONS, where="lang = 'de'")
    try:
        assert len(read(docs_url, chosen, keyset=keyset, **{"query": None, **asked})) == 5000
        assert len(read(role, chosen, keyset=keyset, query=None, table="docs")) == 5000
    finally:
        with at(docs_url) as own:
            own.execute("DROP OWNED BY few; DROP ROLE few")


@pytest.mark.parametrize("keyset", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        "select id, body, lang from docs -- all of it",
        "select id, body, lang from docs; -- all of it",
        "select id, body, lang from docs ; /* all; of it */ ;\n",
        "-- first\nselect id, body, lang /* ' */ from docs where body <> ';--' -- it's all",
        "select id, body, lang from docs where body <> '-- no comment'",
    ],
)
def test_a_comment_at_the_end_swallows_nothing(any_url: str, query: str, keyset: bool) -> None:
    for where in (None, "lang = 'de'", "lang = 'de' -- only these"):
        found = read(any_url, replace(OPTIONS, where=where), query=query, keyset=keyset)
        assert len(found) == (5000 if where else 25_000)


@pytest.mark.parametrize(
    "query",
    [
        "attach database '{}' as e",
        "vacuum into '{}'",
        "select 1 as id, 'x' as body; attach database '{}' as e",
        "pragma journal_mode = wal",
        "pragma query_only = off",
        "create temp table t (id, body)",
        "begin immediate",
        "delete from docs returning id, body",
        "select load_extension('{}') as id, 'x' as body",
    ],
)
@pytest.mark.parametrize("keyset", [False, True])
def test_sqlite_is_asked_nothing_but_a_select(
    lite: str, tmp_path: Path, query: str, keyset: bool
) -> None:
    with pytest.raises(BadSource):
        read(lite, query=query.format(tmp_path / "left.db"), keyset=keyset)
    assert [path.name for path in tmp_path.iterdir()] == ["docs.db"]
    assert len(read(lite)) == 25_000


@pytest.mark.parametrize("name", ["nosuch.db", "file:nosuch.db?uri=true&mode=rwc"])
def test_a_file_of_sqlite_that_is_not_there_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSource, match=r"no file nosuch\.db"):
        read(f"sqlite:///{name}")
    assert list(tmp_path.iterdir()) == []


def test_text_of_sqlite_that_is_none_is_named_and_not_quoted(lite: str) -> None:
    query = "select 1 as id, cast(x'6869e9' as text) as body, cast(x'e9' as text) as lang"
    with pytest.raises(BadSource) as caught:
        read(lite, query=query)
    assert caught.value.lines == ("line 1: body is not UTF-8: byte 0xe9 at offset 2",)
    (found,) = read(lite, query=query.replace("cast(x'6869e9' as text)", "'fine'"))
    assert found.payload == {"text": "fine"}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@SECRET@127.0.0.1:1/d",
        "postgresql://u:p@SEC/RET@127.0.0.1:1/d",
        "mysql+pymysql://u:@SECRET@127.0.0.1:1/d",
        "postgresql://u:p/x@SECRET@127.0.0.1:1/d",
    ],
)
def test_a_password_with_an_at_sign_is_not_shown_in_part(url: str) -> None:
    with pytest.raises(UsageError, match="%40") as caught:
        read(url)
    assert "SEC" not in str(caught.value)


def test_a_query_that_is_only_a_comment_is_none() -> None:
    with pytest.raises(UsageError, match="holds no statement"):
        place_of(Asked("postgresql://h/d", " -- select 1"))


def test_a_whole_float_is_the_key_of_its_integer(docs_url: str, lite: str) -> None:
    assert [r.key for r in read(docs_url, query="select 1::float8 as id, 'x' as body")] == ["1"]
    assert [r.key for r in read(docs_url, query="select 1.00 as id, 'x' as body")] == ["1"]
    assert [r.key for r in read(lite, query="select 1.0 as id, 'x' as body")] == ["1"]


def test_a_server_that_lets_nobody_in_does_answer(docs_url: str) -> None:
    parts = urlsplit(docs_url)
    nobody = urlunsplit(parts._replace(netloc=f"nobody@{parts.netloc.split('@')[-1]}"))
    with pytest.raises(BadSource):
        read(nobody)


def test_a_role_whose_time_is_up_is_told_so(docs_url: str) -> None:
    limited = f"{docs_url}{'&' if '?' in docs_url else '?'}options=-c%20statement_timeout%3D50"
    query = "select id, body from docs where pg_sleep(5) is not null"
    with pytest.raises(BadSource, match=r"statement timeout.*is it the statement_timeout") as told:
        read(limited, query=query)
    assert "does not answer" not in str(told.value)
