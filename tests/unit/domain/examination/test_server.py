"""Rules for Postgres: numbers in, findings out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.domain.examination import server as rules
from app.domain.examination.findings import Finding, Severity
from app.domain.examination.server import Server

GOOD = Server(
    where="postgresql://me:***@db/giveway",
    version="18.1",
    major=18,
    read_only=False,
    isolation="read committed",
    idle_timeout_s=30.0,
    vectors="0.8.1",
    vectors_available=True,
    most_connections=97,
    connections=12,
    ours=10,
    answers_ms=1.4,
)


def but(**changes: Any) -> Server:
    return replace(GOOD, **changes)


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1
    assert (found[0].right is None) is (found[0].severity is Severity.OK)
    return found[0]


@pytest.mark.parametrize(
    ("server", "severity", "said"),
    [
        (GOOD, "ok", "Postgres 18.1 answers in 1 ms"),
        (but(read_only=True), "error", "takes no writes"),
        (but(version="14.9", major=14), "warning", "older than what is tested"),
    ],
)
def test_a_server_must_take_writes_and_be_no_older_than_what_is_tested(
    server: Server, severity: str, said: str
) -> None:
    found = only(rules.database(server))

    assert found.severity == severity
    assert said in found.what


@pytest.mark.parametrize(
    ("current", "known", "severity", "right"),
    [
        ("0002", True, "ok", None),
        (None, False, "error", "giveway db upgrade"),
        ("0001", True, "error", "giveway db upgrade"),
        ("0099", False, "error", "run the version of Giveway that made it"),
    ],
)
def test_the_schema_must_be_this_versions_own(
    current: str | None, known: bool, severity: str, right: str | None
) -> None:
    found = only(rules.schema(current, "0002", known=known))

    assert (found.severity, found.right) == (severity, right)


@pytest.mark.parametrize(
    ("server", "severity", "right"),
    [
        (GOOD, "ok", None),
        (but(vectors="0.10"), "ok", None),
        (but(vectors="0.7.4"), "error", "ALTER EXTENSION vector UPDATE"),
        (but(vectors=None), "error", "CREATE EXTENSION vector"),
        (but(vectors=None, vectors_available=False), "error", "install pgvector 0.8"),
    ],
)
def test_pgvector_must_be_there_and_new_enough_for_searches(
    server: Server, severity: str, right: str | None
) -> None:
    found = only(rules.vectors(server))

    assert found.severity == severity
    assert right is None or right in (found.right or "")


def test_a_pooler_or_a_role_that_undoes_our_session_is_seen() -> None:
    assert only(rules.session(GOOD)).severity is Severity.OK
    found = rules.session(but(isolation="repeatable read", idle_timeout_s=0.0))

    assert [one.severity for one in found] == [Severity.ERROR, Severity.WARNING]


@pytest.mark.parametrize(
    ("ahead_s", "doubt_s", "severity"),
    [
        (0.2, 0.1, "ok"),
        (-0.4, 0.0, "ok"),
        (0.9, 0.1, "warning"),
        (-3.0, 0.0, "warning"),
        (3.0, 2.9, "ok"),
        (-3600.0, 0.1, "error"),
    ],
)
def test_a_clock_is_wrong_by_what_the_measurement_leaves_no_doubt_of(
    ahead_s: float, doubt_s: float, severity: str
) -> None:
    assert only(rules.clock(ahead_s, doubt_s)).severity == severity


@pytest.mark.parametrize(
    ("server", "needed", "severity"),
    [
        (GOOD, {"interactive": 34, "batch": 9}, "ok"),
        (GOOD, {"interactive": 90, "batch": 9}, "error"),
        (but(connections=83), {"interactive": 10}, "warning"),
        (but(connections=60, ours=10), {"interactive": 50}, "warning"),
    ],
)
def test_there_must_be_room_for_what_the_settings_imply(
    server: Server, needed: dict[str, int], severity: str
) -> None:
    assert only(rules.connections(server, needed)).severity == severity
