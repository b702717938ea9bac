"""Writes settings.md, commands.md and waiting.md, from the code itself.

`make reference` runs it; a test fails when a page is not what it would write.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from app.cli.main import PANELS, build
from app.domain.jobs import PAUSED_BY_HAND, Failover, Job, JobState
from app.domain.waiting import (
    MEANINGS as HOLDS,
)
from app.domain.waiting import (
    ChunksNow,
    EndpointNow,
    Facts,
    Hold,
    PoolNow,
    waiting,
)
from app.settings import Settings
from app.settings.schema import inner_table, is_table

HERE = Path(__file__).parent

SETTINGS_HEAD = """\
# Settings

Read in this order, the later winning: defaults, `giveway.toml`, environment variables, flags. The
file is the one that `--config` or `GIVEWAY_CONFIG` names, else `./giveway.toml`. An environment
variable is `GIVEWAY_`, the table, two underscores, the key: `[throttle] tick_s` is
`GIVEWAY_THROTTLE__TICK_S`. Arrays of tables are one JSON list:
`GIVEWAY_POOLS='[{"name": "main"}]'`.

Names end in their unit: `_s` seconds, `_ms` milliseconds, `_h` hours. An unknown key is an error;
`giveway config check` names the file, the line and the right spelling, and `giveway config show`
says what is in force. `GIVEWAY_DATA` stands for `--data`.
"""
COMMANDS_HEAD = """\
# Commands

Every command tells more with `--help`. What reports takes `--json`: one JSON document on standard
output, progress on standard error. Exit status: 0 done, 1 failed, 2 wrong use, 130 stopped by
Ctrl-C. Commands that talk to a stack take `--data` (or `GIVEWAY_DATA`; default `.giveway`), the
folder it runs on, and `--config` (or `GIVEWAY_CONFIG`).
"""
_EVERYWHERE = {"--json", "--data", "--config", "--help"}


def settings_page() -> str:
    """settings.md."""
    blocks = [SETTINGS_HEAD]
    for name, field in Settings.model_fields.items():
        table = inner_table(field.annotation)
        if table is None:
            blocks.append(f"## `{name}`\n\n`GIVEWAY_{name.upper()}`; default `{field.default}`.\n")
            continue
        heading = f"[{name}]" if is_table(field.annotation) else f"[[{name}]]"
        about = (table.__doc__ or "").split(": ", 1)[-1].strip()
        notes = dict(_notes(table))
        rows = [
            f"| `{key}` | {_default(inner)} | {_meaning(table, key, notes)} |"
            for key, inner in table.model_fields.items()
        ]
        head = "| key | default | meaning |\n| --- | --- | --- |"
        blocks.append(
            "\n".join([f"## `{heading}`", "", f"{_sentence(about)}", "", head, *rows, ""])
        )
    return "\n".join(blocks)


def commands_page() -> str:
    """commands.md."""
    root: Any = typer.main.get_command(build())
    by_panel: dict[str, list[str]] = {panel: [] for panel in PANELS}
    for name, command in root.commands.items():
        panel = command.rich_help_panel or PANELS[-1]
        by_panel[panel] += [_row(path, one) for path, one in _leaves(command, f"giveway {name}")]
    blocks = [COMMANDS_HEAD]
    for panel, rows in by_panel.items():
        if rows:
            head = "| command | what it does | flags of its own |\n| --- | --- | --- |"
            blocks.append("\n".join([f"## {panel}", "", head, *rows, ""]))
    return "\n".join(blocks)


WAITING_HEAD = """\
# Why a job waits

Every job that could run and does not says why, in words and as a code: in `giveway jobs list`,
`jobs show`, `jobs watch`, `throttle explain` and `report`; in JSON as `waits` and `waits_code`
(null: it is worked on, or over); and, where it does not pass by itself, in `giveway doctor` and at
submission. What is looked at first stands first: a job that comes after others and has no worker
either says that it comes after others.

A job that has a chunk in flight is worked on, and waits for nothing but its own conditions.
"""


def waiting_page() -> str:
    """waiting.md: every state and every reason."""
    states = [state.value for state in JobState]
    rows = []
    for hold, (job, facts) in examples().items():
        in_states = [
            "yes" if (why := waiting(replace(job, state=state), facts)) and why.code == hold else ""
            for state in JobState
        ]
        why = waiting(job, facts)
        assert why is not None
        marks = " | ".join(in_states)
        rows.append(f"| `{hold}` | {marks} | {why.words} | {HOLDS[hold]} |")
    head = f"| code | {' | '.join(states)} | it says, for example | meaning |"
    rule = "| --- " * (len(states) + 3) + "|"
    return "\n".join([WAITING_HEAD, head, rule, *rows, ""])


def examples() -> dict[Hold, tuple[Job, Facts]]:
    """For each reason, a job that waits for it and the facts that hold it."""
    now = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
    later = now + timedelta(minutes=5)
    job = Job(
        id=7,
        kind="embed",
        name="nightly",
        key="nightly",
        request_hash=b"",
        params={},
        pool="main",
        model="m",
        state=JobState.READY,
        reason=None,
        priority=0,
        weight=1.0,
        max_in_flight=None,
        may_yield=True,
        resume_streamed=False,
        deadline_at=None,
        tenant="default",
        after=(),
        window=None,
        failover=Failover.WAIT,
        budget=None,
        source=None,
        delete_missing=False,
        deleted=0,
        webhook=None,
        total=100,
        skipped_lines=0,
        created_at=now,
        ready_at=now,
        started_at=None,
        finished_at=None,
    )
    pool = PoolNow(
        limit=3,
        reason="growing",
        total=8,
        batch_in_flight=0,
        people_in_flight=2,
        endpoints=(EndpointNow("gpu-a"),),
    )
    well = Facts(
        now=now,
        chunks=ChunksNow(ready=4),
        pool=pool,
        workers=1,
        kinds=frozenset({"embed"}),
        models=frozenset({"m"}),
    )

    def having(**changed: Any) -> Facts:
        return replace(well, pool=replace(pool, **changed))

    away = EndpointNow("gpu-a", "open", usable=False, code="connection", back_at=later)
    night = {"from": "22:00", "to": "06:00", "timezone": "Europe/Berlin"}
    by_hand = replace(job, state=JobState.PAUSED, reason=PAUSED_BY_HAND)
    return {
        Hold.LOADING: (replace(job, state=JobState.LOADING), well),
        Hold.PAUSED_BY_HAND: (by_hand, well),
        Hold.PAUSED: (
            replace(by_hand, reason="budget spent: 2.0000 of 2.0000"),
            well,
        ),
        Hold.AFTER_JOBS: (job, replace(well, uncompleted=("first", "other"))),
        Hold.OUTSIDE_WINDOW: (replace(job, window=night), well),
        Hold.FINISHING: (job, replace(well, chunks=ChunksNow())),
        Hold.POOL_GONE: (job, replace(well, pool=None)),
        Hold.NO_WORKER: (job, replace(well, workers=0)),
        Hold.UNKNOWN_KIND: (replace(job, kind="translate"), well),
        Hold.UNKNOWN_MODEL: (replace(job, model="new-model"), well),
        Hold.NO_ENDPOINT: (job, having(endpoints=())),
        Hold.ENDPOINTS_AWAY: (job, having(endpoints=(away,))),
        Hold.RATE_BUDGET: (
            job,
            having(endpoints=(replace(away, word="ok", resting=True),)),
        ),
        Hold.RETRY_LATER: (job, replace(well, chunks=ChunksNow(later=3, later_at=later))),
        Hold.OPERATOR_LIMIT: (job, having(limit=0, operator_until=later)),
        Hold.LIMIT_REACHED: (job, having(batch_in_flight=3)),
        Hold.PLACES_TAKEN: (job, having(batch_in_flight=2, people_in_flight=6)),
        Hold.ENDPOINTS_FULL: (job, having(has_room=False)),
        Hold.TURN: (job, having(first="urgent")),
        Hold.NO_TICKS: (job, having(undecided_s=inf)),
        Hold.RINGING: (job, well),
    }


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if command.hidden:
        return
    if not hasattr(command, "commands"):
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    for name, inner in command.commands.items():
        yield from _leaves(inner, f"{path} {name}")


def _row(path: str, command: Any) -> str:
    arguments = "".join(
        f" {one.metavar or one.name.upper()}"
        for one in command.params
        if one.param_type_name == "argument"
    )
    flags = [
        max(one.opts, key=len)
        for one in command.params
        if one.param_type_name == "option" and not getattr(one, "hidden", False)
    ]
    own = ", ".join(f"`{flag}`" for flag in flags if flag not in _EVERYWHERE)
    about = " ".join((command.help or "").split("\n\n")[0].split())
    return f"| `{path}{arguments}` | {_sentence(about)} | {own} |"


def _notes(table: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The docstring under each field."""
    (node,) = ast.parse(inspect.getsource(table)).body
    assert isinstance(node, ast.ClassDef)
    for one, after in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            yield one.target.id, " ".join(str(after.value.value).split())


def _meaning(table: type[BaseModel], key: str, notes: dict[str, str]) -> str:
    said = notes.get(key) or MEANINGS.get((table.__name__, key), "")
    return _sentence(said.replace("|", "\\|"))


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "none"
    if field.default is PydanticUndefined:
        return "must be given"
    return "none" if field.default is None else f"`{field.default}`"


def _sentence(text: str) -> str:
    is_word = text.split(" ", 1)[0].rstrip(".,:").isalpha()
    return f"{text[0].upper()}{text[1:]}" if is_word else text


MEANINGS = {
    ("DatabaseSettings", "statement_timeout_s"): "Postgres ends a statement that takes longer.",
    ("BrokerSettings", "connect_timeout_s"): "How long a command waits for the broker to answer.",
    ("BatchSettings", "lease_s"): "The right to work on a chunk; who does not renew it, loses it.",
    (
        "BatchSettings",
        "heartbeat_s",
    ): "How often a worker renews its leases; a third of lease_s at most.",
    ("BatchSettings", "chunk_items"): "Items leased together: 10 to 60 s of work.",
    ("BatchSettings", "micro_batch_items"): "Most items in one request to an endpoint.",
    ("BatchSettings", "micro_batch_tokens"): "Most tokens in one request to an endpoint.",
    ("BatchSettings", "max_attempts"): "An item that has failed so often has failed.",
    ("BatchSettings", "retry_base_s"): "Wait before the second attempt; it doubles with each more.",
    ("BatchSettings", "retry_max_s"): "Longest wait between two attempts.",
    (
        "BatchSettings",
        "crashes_before_split",
    ): "A chunk that killed its worker so often is cut in two.",
    ("BatchSettings", "call_timeout_s"): "Longest wait for an endpoint's answer.",
    ("InteractiveSettings", "call_timeout_s"): "Longest wait for an endpoint's answer.",
    ("InteractiveSettings", "result_ttl_s"): "How long Celery keeps an answer that nobody fetches.",
    ("ThrottleSettings", "policy"): "budget, pressure, aimd, gradient, vegas, static or unlimited.",
    ("ThrottleSettings", "tick_s"): "How often limits are recomputed.",
    ("ThrottleSettings", "window_s"): "Over how many seconds of people's requests.",
    (
        "ThrottleSettings",
        "rps_threshold",
    ): "People's requests a second that count as pressure 1 (pressure).",
    ("ThrottleSettings", "alpha"): "How much of a new pressure counts at once (pressure).",
    ("ThrottleSettings", "keep_decisions_h"): "Older decisions are pruned.",
    ("FlowerSettings", "host"): "Where Flower listens.",
    ("FlowerSettings", "user"): "Who may look.",
    ("PoolSettings", "name"): "What commands call it.",
    ("PoolSettings", "batch_min"): "The floor: batch always keeps so many places.",
    ("PoolSettings", "first_token_target_ms"): "For answers that stream; none: target_p95_ms.",
    ("PoolSettings", "per_token_target_ms"): "For long answers that stream; none: 50 ms.",
    ("EndpointSettings", "name"): "What commands and Flower call it.",
    ("EndpointSettings", "pool"): "Endpoints of one pool share its limit.",
    ("EndpointSettings", "kind"): "What serves there.",
    (
        "EndpointSettings",
        "models",
    ): "Models it serves; a job goes to the pool that serves its model.",
    ("EndpointSettings", "max_concurrency"): "Requests in flight there, both classes together.",
    ("EndpointSettings", "role"): "primary, backup or degraded.",
    ("EndpointSettings", "max_batch_items"): "Most texts it takes in one request.",
    ("EndpointSettings", "max_batch_tokens"): "Most tokens it takes in one request.",
    ("EndpointSettings", "connect_timeout_s"): "Longest wait for a connection.",
}
"""Where the model's own words do not say it."""


def main() -> None:
    """Write the pages."""
    (HERE / "settings.md").write_text(settings_page(), encoding="utf-8")
    (HERE / "waiting.md").write_text(waiting_page(), encoding="utf-8")
    (HERE / "commands.md").write_text(commands_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
