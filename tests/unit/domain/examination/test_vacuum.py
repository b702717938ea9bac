"""Who holds back vacuum, and whose rows are dead."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.examination.findings import Severity
from app.domain.examination.vacuum import (
    IDLE_S,
    NEAR_WRAPAROUND,
    OLD_XIDS,
    WAITS_S,
    Blocked,
    Holder,
    Keeper,
    TableRows,
    blocked,
    dead_rows,
    snapshots,
)


def a_session(
    pid: int = 7, age_s: float | None = 900.0, xids: int | None = 50, **more: Any
) -> Holder:
    return Holder(Keeper.SESSION, str(pid), "psql of me", age_s, xids, **more)


def test_a_young_snapshot_and_an_old_transaction_that_keeps_nothing_are_well() -> None:
    found = snapshots([a_session(age_s=299.0), a_session(xids=None)])

    assert [one.severity for one in found] == [Severity.OK]


@pytest.mark.parametrize(
    ("holder", "where", "right"),
    [
        (a_session(), "session 7 (psql of me)", "pg_terminate_backend(7)"),
        (a_session(age_s=None, xids=OLD_XIDS), "session 7", "pg_terminate_backend(7)"),
        (
            Holder(Keeper.PREPARED, "it's", "me", 900.0, 5),
            "prepared it's (me)",
            "ROLLBACK PREPARED 'it''s'",
        ),
        (
            Holder(Keeper.SLOT, "standby", "unused", None, OLD_XIDS),
            "slot standby (unused)",
            "pg_drop_replication_slot('standby')",
        ),
    ],
)
def test_whoever_keeps_an_old_snapshot_is_named_with_what_ends_it(
    holder: Holder, where: str, right: str
) -> None:
    (found,) = snapshots([holder])

    assert found.severity is Severity.WARNING
    assert found.where.startswith(where)
    assert right in (found.right or "")
    assert "vacuum" in found.what


def test_a_slot_that_is_near_is_well_and_one_near_wraparound_is_an_error() -> None:
    near, far = (
        Holder(Keeper.SLOT, "s", "in use", None, n) for n in (OLD_XIDS - 1, NEAR_WRAPAROUND)
    )

    assert [one.severity for one in snapshots([near])] == [Severity.OK]
    assert [one.severity for one in snapshots([far])] == [Severity.ERROR]


def test_idle_without_a_snapshot_keeps_locks() -> None:
    (found,) = snapshots([a_session(xids=None, idle_s=900.0)])

    assert "locked" in found.what


def test_who_idles_in_a_transaction_for_a_minute_is_named_however_young_it_is() -> None:
    young = {"age_s": IDLE_S + 1, "xids": None}

    assert [one.severity for one in snapshots([a_session(**young, idle_s=IDLE_S)])] == ["warning"]
    assert [one.severity for one in snapshots([a_session(**young, idle_s=IDLE_S - 1)])] == ["ok"]


def a_wait(waits_s: float, by: int | None = 9) -> Blocked:
    does = "idles in a transaction"
    return Blocked(7, "giveway control", "builds an index", waits_s, by, "psql of me", does, 700.0)


def test_who_waits_long_is_named_with_whom_it_waits_for() -> None:
    (found,) = blocked([a_wait(600.0)])

    assert found.severity is Severity.WARNING
    assert found.where == "session 7 (giveway control)"
    assert found.what == (
        "builds an index and has waited 10 min for session 9 (psql of me), which idles in a "
        "transaction for 12 min now"
    )
    assert "pg_terminate_backend(9)" in (found.right or "")


def test_a_short_wait_is_well_and_a_prepared_transaction_has_its_own_remedy() -> None:
    assert [one.severity for one in blocked([a_wait(WAITS_S - 1)])] == ["ok"]
    assert "ROLLBACK PREPARED" in (blocked([a_wait(60.0, by=None)])[0].right or "")


def test_what_our_role_may_not_see_is_said_and_not_taken_for_well() -> None:
    (found,) = snapshots([a_session(age_s=None, hidden=True)])

    assert (found.severity, "pg_read_all_stats" in (found.right or "")) == ("warning", True)


def test_the_oldest_come_first_and_not_all_are_named() -> None:
    found = snapshots([a_session(pid=n, xids=n) for n in range(1, 16)])

    assert [one.where for one in found[:2]] == [f"session {n} (psql of me)" for n in (15, 14)]
    assert len(found) == 11
    assert "5 more" in found[-1].what


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        (TableRows("chunks", live=6_000, dead=5_000, vacuumed_s=None), "ok"),
        (TableRows("chunks", live=4_999, dead=4_999, vacuumed_s=None), "ok"),
        (TableRows("chunks", live=100, dead=5_000, vacuumed_s=7200.0), "warning"),
    ],
)
def test_a_table_of_mostly_dead_rows_is_named(rows: TableRows, severity: str) -> None:
    (found,) = dead_rows([rows], autovacuum=True)

    assert found.severity == severity


def test_without_autovacuum_nothing_is_ever_cleared_away() -> None:
    (found,) = dead_rows([], autovacuum=False)

    assert found.severity is Severity.ERROR
