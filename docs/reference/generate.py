"""Writes settings.md and commands.md, from the settings model and from the command line itself.

`make reference` runs it; a test fails when a page is not what it would write.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from app.cli.main import PANELS, build
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
    """Write both pages."""
    (HERE / "settings.md").write_text(settings_page(), encoding="utf-8")
    (HERE / "commands.md").write_text(commands_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
