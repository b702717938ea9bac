"""`giveway endpoints`: the model servers behind the pools, seen, added, tried, drained, removed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from app import clock
from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, one_pool, wiring_for
from app.domain.moments import seconds
from app.errors import UsageError

if TYPE_CHECKING:
    from app.domain.routing import EndpointSpec
    from app.wiring import Wiring

PANEL = "Operations"
_LOOK_S = 0.5

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `giveway endpoints list` shows it.")]
ModelOption = Annotated[
    list[str] | None,
    typer.Option("--model", help="May be given again, or hold several with commas."),
]


def register(app: typer.Typer) -> None:
    """Add the group `endpoints` to `app`."""
    group = typer.Typer(
        no_args_is_help=True, help="See, add, try, drain and remove the servers behind the pools."
    )
    group.command("list")(list_)
    group.command("test")(try_)
    for command in (add, drain, undrain, remove):
        group.command()(command)
    app.add_typer(group, name="endpoints")


def list_(
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show each endpoint: its state, what it has in flight, and how it did in the last minutes."""
    from app.cli.endpoints_view import document, print_endpoints

    with wiring_for(config, data) as wiring:
        found = wiring.endpoints.listed()
        specs = wiring.endpoints.specs() if as_json else {}
    if as_json:
        listed = [document(one, specs.get(one.name)) for one in found]
        render.json_document({"endpoints": listed})
    else:
        print_endpoints(found)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    url: Annotated[str, typer.Option(help="With the version part: http://127.0.0.1:8000/v1.")],
    model: ModelOption = None,
    pool: Annotated[
        str | None, typer.Option(help="Default: the only one there is.", show_default=False)
    ] = None,
    kind: Annotated[
        str, typer.Option(help="openai, vllm, tei, ollama, llamacpp or simulated.")
    ] = "openai",
    role: Annotated[str, typer.Option(help="primary, backup or degraded.")] = "primary",
    max_concurrency: Annotated[int, typer.Option(help="Requests at a time.")] = 8,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="The *name* of the variable with its key.", show_default=False),
    ] = None,
    stands_in_for: Annotated[
        list[str] | None,
        typer.Option(help="Of a degraded one: models for which its first may answer."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL:KEY=VALUE",
            help="What one of its models takes, as `[[endpoints.limits]]` has it; several with "
            "commas: small-embed:max_batch_items=32,max_input_tokens=512. May be given again.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other key of `[[endpoints]]`, such as requests_per_minute=60.",
        ),
    ] = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Add an endpoint while everything runs: every process sees it at once.

    The pool's total grows by what a primary endpoint carries. It is kept until it is removed.
    """
    from app.cli.parts.endpoint_options import keys, limits
    from app.declared.endpoints import endpoint_of

    with wiring_for(config, data) as wiring:
        spec = endpoint_of(
            {
                **keys(set_),
                **({"limits": limits(limit)} if limit else {}),
                "name": name,
                "base_url": url,
                "models": _listed(model),
                "pool": one_pool(wiring, pool),
                "kind": kind,
                "role": role,
                "max_concurrency": max_concurrency,
                "api_key_env": api_key_env,
                "stands_in_for": _listed(stands_in_for),
            }
        )
        wiring.endpoints.add(spec)
    if spec.api_key_env and not os.environ.get(spec.api_key_env):
        render.note(
            f"{spec.api_key_env} is not set here; it must be where the workers and the controller "
            "run"
        )
    _tell(as_json, spec, "added", f"{name} is in pool {spec.pool}")


def try_(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    url: Annotated[
        str | None,
        typer.Option(help="One that is not declared: its address.", show_default=False),
    ] = None,
    model: ModelOption = None,
    kind: Annotated[str, typer.Option(help="Of the server at --url.")] = "openai",
    api_key_env: Annotated[
        str | None, typer.Option(help="Of the server at --url.", show_default=False)
    ] = None,
    timeout: Annotated[str, typer.Option(help="How long a request may take.")] = "60s",
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Send an endpoint a few real requests and say what it can do. Exit status 1: not all of it."""
    from app.cli.endpoints_view import check_document, print_check
    from app.cli.parts.models import embeds
    from app.declared.endpoints import endpoint_of
    from app.inference.trying import suggested, tried, versioned

    if (name is None) == (url is None):
        raise UsageError("name an endpoint, or give its address with --url")
    timeout_s = seconds(timeout)
    with wiring_for(config, data) as wiring:
        if name is not None:
            declared = {spec.name: spec for spec in wiring.pools.endpoints}
            spec = declared.get(name) or wiring.endpoints.one(name)  # The first needs no stack.
            models: Sequence[str] = _listed(model) or spec.models
        else:
            models = _listed(model)
            spec = endpoint_of(
                {
                    "name": "tried",
                    "base_url": url,
                    "models": models or ["any"],
                    "kind": kind,
                    "api_key_env": api_key_env,
                }
            )
        checks = []
        for check in tried(wiring.wires.of(spec), spec.kind, models, embeds, timeout_s):
            checks.append(check)
            if not as_json:
                print_check(check)
        other = versioned(spec.base_url)
        if other is not None and not all(check.ok for check in checks if check.needed):
            there = replace(spec, name=f"{spec.name} {other}", base_url=other)
            check_of_other = suggested(wiring.wires.of(there), other, timeout_s)
            if check_of_other is not None:
                checks.append(check_of_other)
                if not as_json:
                    print_check(check_of_other)
    ok = all(check.ok for check in checks if check.needed)
    if as_json:
        render.json_document(
            {
                "endpoint": name,
                "url": spec.base_url,
                "ok": ok,
                "checks": [check_document(check) for check in checks],
            }
        )
    if not ok:
        raise typer.Exit(render.FAILED)


def drain(
    name: Name, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """Give an endpoint nothing new; what it has, it finishes."""
    with wiring_for(config, data) as wiring:
        spec = wiring.endpoints.one(name)
        wiring.endpoints.drain(name)
        running = wiring.endpoints.running(name)
    _tell(as_json, spec, "draining", f"{name} gets nothing new; {running} in flight", running)


def undrain(
    name: Name, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """Give an endpoint work again."""
    with wiring_for(config, data) as wiring:
        spec = wiring.endpoints.one(name)
        wiring.endpoints.undrain(name)
    _tell(as_json, spec, "undrained", f"{name} gets work again")


def remove(
    name: Name,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for what it has in flight.")
    ] = False,
    within: Annotated[str, typer.Option(help="How long to wait until it has finished.")] = "10m",
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Remove an endpoint that was added: it is drained, and forgotten once it has finished."""
    until_s = clock.monotonic_s() + seconds(within)
    with wiring_for(config, data) as wiring:
        spec = wiring.endpoints.one(name)
        removed = _removed(wiring, name, until_s, now=now)
        running = 0 if removed else wiring.endpoints.running(name)
    if removed:
        _tell(as_json, spec, "removed", f"{name} is removed")
        return
    told = f"{name} still has {running} in flight; it stays drained: call again, or with --now"
    _tell(as_json, spec, "draining", told, running)
    raise typer.Exit(render.FAILED)


def _removed(wiring: Wiring, name: str, until_s: float, *, now: bool) -> bool:
    while not wiring.endpoints.remove(name, now=now):
        if clock.monotonic_s() >= until_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _tell(
    as_json: bool,
    spec: EndpointSpec,
    state: str,
    told: str,
    running: int = 0,
) -> None:
    if as_json:
        render.json_document(
            {"endpoint": spec.name, "pool": spec.pool, "state": state, "running": running}
        )
    else:
        typer.echo(told)


def _listed(given: list[str] | None) -> list[str]:
    return [name.strip() for one in given or [] for name in one.split(",") if name.strip()]
