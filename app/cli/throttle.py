"""`giveway throttle`: the limit, why it is so, an operator's word and hand, and its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app import clock
from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, one_pool, wiring_for
from app.domain.moments import seconds
from app.errors import GivewayError

if TYPE_CHECKING:
    from app.wiring import Wiring

PANEL = "The throttle"
_MOST_REPLAYED = 1_000_000
_DIFFERENCES_SHOWN = 5

PoolOption = Annotated[
    str | None, typer.Option("--pool", help="Default: the only one there is.", show_default=False)
]
Pools = Annotated[
    str | None, typer.Option("--pool", help="Default: every pool.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the group `throttle` to `app`."""
    group = typer.Typer(
        no_args_is_help=True, help="See how many batch requests may be in flight, and why."
    )
    group.command("set")(set_)
    for command in (show, explain, history, clear, tune, untune, replay):
        group.command()(command)
    app.add_typer(group, name="throttle")


def show(
    pool: Pools = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show the limit of each pool, its reason, and what the people get."""
    from app.cli.parts.throttle_view import pool_document, print_pool

    with wiring_for(config, data) as wiring:
        views = [wiring.inspection.pool(name) for name in _named(wiring, pool)]
    if as_json:
        render.json_document({"pools": [pool_document(view) for view in views]})
        return
    for number, view in enumerate(views):
        if number:
            typer.echo("")
        print_pool(view)


def set_(
    limit: Annotated[int, typer.Argument(metavar="LIMIT", help="Batch requests in flight.")],
    pool: PoolOption = None,
    for_: Annotated[str, typer.Option("--for", help="How long: 30s, 15m, 1h, 2d.")] = "1h",
    reason: Annotated[str | None, typer.Option(help="For those who wonder.")] = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Set the limit by hand for a while; from the next tick on it is in force."""
    from app.cli.parts.throttle_view import pool_document

    for_s = seconds(for_)
    with wiring_for(config, data) as wiring:
        name = one_pool(wiring, pool)
        wiring.steering.override(name, limit, for_s, reason)
        view = wiring.inspection.pool(name)
    if as_json:
        render.json_document(pool_document(view))
    else:
        typer.echo(f"pool {name}: limit {limit} for {render.span(for_s)}, then the policy again")


def clear(
    pool: PoolOption = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Take an operator's limit back; the policy rules again."""
    with wiring_for(config, data) as wiring:
        name = one_pool(wiring, pool)
        cleared = wiring.steering.clear_override(name)
    if as_json:
        render.json_document({"pool": name, "cleared": cleared})
    else:
        typer.echo(f"pool {name}: {'the policy rules again' if cleared else 'nothing was set'}")


def tune(
    changes: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE…", help="Such as target_p95_ms=400 or policy=aimd."),
    ],
    pool: PoolOption = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Change settings of a pool while everything runs, until `giveway throttle untune`.

    In force from the next claim and the next tick on, in every process. What was tuned before and
    is not named stays tuned.
    """
    from app.cli.parts.throttle_view import pool_document, tuned_text
    from app.cli.parts.tuning import changes_in

    wanted = changes_in(changes)
    with wiring_for(config, data) as wiring:
        name = one_pool(wiring, pool)
        wiring.steering.tune(name, wanted)
        view = wiring.inspection.pool(name)
    if as_json:
        render.json_document(pool_document(view))
    else:
        typer.echo(f"pool {name}: tuned {tuned_text(view.tuned)}")
        typer.echo("take it back with: giveway throttle untune")


def untune(
    pool: PoolOption = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Take back all that was tuned; the pool is as its settings declare it."""
    from app.cli.parts.throttle_view import pool_document, tuned_text

    with wiring_for(config, data) as wiring:
        name = one_pool(wiring, pool)
        before = wiring.inspection.pool(name).tuned
        wiring.steering.untune(name)
        view = wiring.inspection.pool(name)
    if as_json:
        render.json_document(pool_document(view))
    elif before:
        typer.echo(f"pool {name}: as declared again; no longer tuned: {tuned_text(before)}")
    else:
        typer.echo(f"pool {name}: nothing was tuned")


def history(
    pool: PoolOption = None,
    since: Annotated[str, typer.Option(help="How far back: 30s, 10m, 1h.")] = "10m",
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="The newest so many.")] = 50,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """List decisions, the newest last."""
    from app.cli.parts.throttle_view import decision_document, print_decisions

    since_s = seconds(since)
    with wiring_for(config, data) as wiring:
        name = one_pool(wiring, pool)
        rows = wiring.inspection.decisions(name, limit, since_s)
    if as_json:
        render.json_document({"pool": name, "decisions": [decision_document(r) for r in rows]})
    else:
        print_decisions(rows)


def explain(
    pool: Pools = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Say in one sentence why batch gets what it gets, and why each job waits that does."""
    with wiring_for(config, data) as wiring:
        said = {name: _explained(wiring, name) for name in _named(wiring, pool)}
        held = {name: wiring.inspection.held_back(name) for name in said}
    if as_json:
        documents = [
            {
                "name": name,
                "sentence": sentence,
                "held_back": [
                    {"job": job.id, "key": job.key, "why": why.words, "code": why.code.value}
                    for job, why in held[name]
                ],
            }
            for name, sentence in said.items()
        ]
        render.json_document({"pools": documents})
        return
    for name, sentence in said.items():
        typer.echo(sentence)
        for job, why in held[name]:
            typer.echo(f"  job {job.key}: {why} ({why.code})")


def _explained(wiring: Wiring, pool: str) -> str:
    from app.domain.throttle.explain import explain as sentence
    from app.domain.throttle.replay import Arguments
    from app.domain.throttle.values import Decision

    rows = wiring.inspection.decisions(pool, 1, None)
    if not rows:
        bounds = wiring.pools.named(pool).bounds
        return (
            f"Pool {pool!r} stands at its floor of {bounds.floor}, because nothing was ever "
            "decided: is the control worker running?"
        )
    given = Arguments.from_json(rows[0]["arguments"])
    decision = Decision.from_json(rows[0]["result"])
    return sentence(decision, given.reading, given.policy, given.bounds, clock.now())


def replay(
    pool: Pools = None,
    since: Annotated[str, typer.Option(help="How far back: 30s, 10m, 1h.")] = "1h",
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Make stored decisions again from their arguments. Exit status 1 if one comes out otherwise.

    It tells what a change of the policy would have decided, and that nothing but the stored
    arguments goes into a decision.
    """
    since_s = seconds(since)
    with wiring_for(config, data) as wiring:
        found = [_replayed(wiring, name, since_s) for name in _named(wiring, pool)]
    if as_json:
        render.json_document({"ok": not any(one["different"] for one in found), "pools": found})
    else:
        for one in found:
            typer.echo(
                f"pool {one['name']}: {one['decisions']:,} decisions, "
                f"{one['different']:,} come out otherwise"
            )
            for example in one["examples"]:
                typer.echo(f"  {example['computed_at']:%Y-%m-%d %H:%M:%S}: {example['what']}")
    if any(one["different"] for one in found):
        raise typer.Exit(render.FAILED)


def _replayed(wiring: Wiring, pool: str, since_s: float) -> dict[str, Any]:
    rows = wiring.inspection.decisions(pool, _MOST_REPLAYED, since_s)
    different: list[dict[str, Any]] = []
    for row in rows:
        what = _difference(row)
        if what:
            different.append({"id": row["id"], "computed_at": row["computed_at"], "what": what})
    return {
        "name": pool,
        "decisions": len(rows),
        "different": len(different),
        "examples": different[:_DIFFERENCES_SHOWN],
    }


def _difference(row: dict[str, Any]) -> str:
    from app.domain.throttle.replay import differences

    try:
        found = differences(row["arguments"], row["result"])
    except GivewayError as error:
        return str(error)
    return "; ".join(f"{name} was {was!r}, is {now!r}" for name, (was, now) in found.items())


def _named(wiring: Wiring, pool: str | None) -> list[str]:
    return list(wiring.pools.by_name) if pool is None else [wiring.pools.named(pool).name]
