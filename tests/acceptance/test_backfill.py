"""A table kept in step, night after night: only what changed is paid for.

The figures of the issue are those of 100,000 rows: TEST_ROWS=100000. CI takes fewer.
"""

from __future__ import annotations

import os
from typing import Any

import psycopg
import pytest

from tests.acceptance.conftest import MakeStack
from tests.acceptance.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.slow]

ROWS = int(os.environ.get("TEST_ROWS", "5000"))
CHANGED, ADDED, GONE = ROWS // 100, ROWS // 200, ROWS // 500


def night(stack: Stack, key: str) -> Any:
    """A nightly run, to its end: (what was sent, the job's document)."""
    before = stack.endpoint.ledger()["inputs"]
    where = stack.database_url
    done = stack.run(
        *("submit", "embed", "--source", where, "--query", "select id, body from shop_docs"),
        *("--id-field", "id", "--text-field", "body", "--collection", "docs"),
        *("--model", "fake-embed", "--key", key),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    job = stack.wait_completed(key, within_s=240)
    return stack.endpoint.ledger()["inputs"] - before, job


@pytest.mark.timeout(600)
def test_a_table_of_rows_is_kept_in_step(stack: MakeStack) -> None:
    one = stack()
    with psycopg.connect(one.database_url, autocommit=True) as shop:
        shop.execute(
            "CREATE TABLE shop_docs AS SELECT n AS id, 'document ' || n || ' of kind ' || n %% 97 "
            "AS body FROM generate_series(1, %s) AS n",
            (ROWS,),
        )
        assert night(one, "night-1")[0] == ROWS

        shop.execute("UPDATE shop_docs SET body = body || ', changed' WHERE id <= %s", (CHANGED,))
        shop.execute("DELETE FROM shop_docs WHERE id > %s", (ROWS - GONE,))
        shop.execute(
            "INSERT INTO shop_docs SELECT %s + n, 'new document ' || n "
            "FROM generate_series(1, %s) AS n",
            (ROWS, ADDED),
        )
        sent, job = night(one, "night-2")
        assert (sent, job["deleted"]) == (CHANGED + ADDED, GONE)
        assert job["unchanged"] == ROWS - GONE - CHANGED

        sent, job = night(one, "night-3")
        assert (sent, job["deleted"]) == (0, 0)
        keys = shop.execute("SELECT key::bigint FROM embeddings ORDER BY 1").fetchall()
        there = shop.execute("SELECT id FROM shop_docs ORDER BY 1").fetchall()
        assert keys == there
    verified = one.json("embeddings", "verify", "docs")
    assert verified["sound"], verified
