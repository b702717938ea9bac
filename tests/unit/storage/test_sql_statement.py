"""What a query is without what stands behind it."""

from __future__ import annotations

import pytest

from app.storage.sources.sql_statement import without_end


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("select 1", "select 1"),
        ("select 1 ; \n", "select 1"),
        ("select 1 -- all of it", "select 1"),
        ("select 1; -- all; of it", "select 1"),
        ("select 1 /* a /* b */ c */ ;", "select 1"),
        ("select 1; select 2;", "select 1; select 2"),
        ("select ';--' -- x", "select ';--'"),
        ("select 'it''s; --'", "select 'it''s; --'"),
        ('select "a;--b"', 'select "a;--b"'),
        ("select $$ ;-- $$ ;", "select $$ ;-- $$"),
        ("select $q$ $$ ;-- $q$ ;", "select $q$ $$ ;-- $q$"),
        (r"select E'\';--' ;", r"select E'\';--'"),
        (r"select '\' ;--'", r"select '\'"),
        ("select a$b -- $b", "select a$b"),
        ("select 1 /* never closed", "select 1 /* never closed"),
        ("select 'never closed ;", "select 'never closed"),
        ("-- nothing", ""),
        ("", ""),
    ],
)
def test_a_query_ends_with_its_last_word(written: str, meant: str) -> None:
    assert without_end(written, "postgresql") == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("select 1 # all; of it", "select 1"),
        (r"select '\' ;--' ;", r"select '\' ;--'"),
        ("select `a;#b` ;", "select `a;#b`"),
        ("select 1 /* a /* b */", "select 1"),
    ],
)
def test_mysql_has_comments_and_texts_of_its_own(written: str, meant: str) -> None:
    assert without_end(written, "mysql") == meant
