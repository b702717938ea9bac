"""docker-compose.yml: valid, the same commands as `giveway up`, and nothing left open."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.main import build
from app.local import commands
from app.local.options import BATCH, CONTROL, INTERACTIVE
from app.settings import Settings
from app.settings.schema import variables

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
COMPOSE_S_OWN = {"POSTGRES_PASSWORD", "BROKER_PASSWORD"}
"""Variables that are no settings: they make the URLs of the services that compose starts."""

_VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::([-?])([^{}]*))?\}")


def interpolated(text: str, environment: dict[str, str]) -> str:
    """`text` with its ${VARIABLES} filled in as compose does, inner ones first."""

    def value(match: re.Match[str]) -> str:
        name, operator, word = match.groups()
        found = environment.get(name, "")
        if found or operator != "?":
            return found or word or ""
        raise LookupError(word)

    while _VARIABLE.search(text):
        text = _VARIABLE.sub(value, text)
    return text


ENDPOINTS = next(re.finditer(r"^GIVEWAY_ENDPOINTS='(.*)'$", EXAMPLE, re.M))[1]
SECRETS = {
    "POSTGRES_PASSWORD": "pg-word",
    "BROKER_PASSWORD": "broker-word",
    "GIVEWAY_FLOWER__PASSWORD": "flower-word",
}
NEEDED = SECRETS | {"GIVEWAY_ENDPOINTS": "[]"}


def filled(value: Any, environment: dict[str, str]) -> Any:
    """`value` from the file with the variables in its texts filled in."""
    match value:
        case str():
            return interpolated(value, environment)
        case dict():
            return {key: filled(inner, environment) for key, inner in value.items()}
        case list():
            return [filled(inner, environment) for inner in value]
    return value


def compose(**environment: str) -> dict[str, Any]:
    loaded: dict[str, Any] = filled(yaml.safe_load(TEXT), NEEDED | environment)
    return loaded


def services() -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"]
    return found


def test_it_is_valid_by_the_compose_specification():
    checker = pytest.importorskip("check_jsonschema", reason="in the extra `dev`: make setup")
    from jsonschema.validators import validator_for

    shipped = resources.files(checker) / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(shipped.read_text(encoding="utf-8"))
    faults = [
        f"{e.json_path}: {e.message}" for e in validator_for(schema)(schema).iter_errors(compose())
    ]

    assert faults == []


@pytest.mark.parametrize(
    ("service", "command"),
    [
        ("migrations", commands.migrations()),
        (
            INTERACTIVE,
            commands.worker(INTERACTIVE, "interactive@%h", Settings().interactive_threads),
        ),
        (BATCH, commands.worker(BATCH, "batch@%h", Settings().batch_threads)),
        (CONTROL, commands.worker(CONTROL, "control@%h", Settings().control_threads)),
        ("beat", commands.beat("/tmp/beat-schedule")),
        ("flower", commands.flower("0.0.0.0", 5555, "/data/flower.db")),
        ("metrics", commands.metrics("0.0.0.0", 9464)),
        ("simulated", commands.simulated("0.0.0.0", 8000, 8, ("fake-chat", "fake-embed"))),
    ],
)
def test_each_process_is_started_as_giveway_up_starts_it(service: str, command: tuple[str, ...]):
    assert services()[service]["command"] == ["python", "-m", *command]


def test_threads_follow_the_settings_that_the_processes_read():
    made = compose(GIVEWAY_WORKER__BATCH_CONCURRENCY="21")["services"]["batch"]["command"]

    assert made[made.index("-c") + 1] == "21"


def test_every_variable_is_a_setting_or_compose_s_own_and_stands_in_the_example():
    names = set(re.findall(r"\$\{([A-Z_]+)", TEXT))
    known = set(variables(Settings)) | COMPOSE_S_OWN

    assert names <= known
    assert [name for name in sorted(names) if not re.search(rf"^#?{name}=", EXAMPLE, re.M)] == []


@pytest.mark.parametrize("secret", NEEDED)
def test_a_missing_secret_is_asked_for_by_name(secret: str):
    with pytest.raises(LookupError, match=f"set {secret} in .env"):
        interpolated(TEXT, NEEDED | {secret: ""})


def test_no_secret_has_a_default_and_none_is_written_down():
    assert re.findall(r"\$\{[A-Z_]*PASSWORD(?!:\?)", TEXT) == []
    assert re.findall(r"(?i)password: +[^$\s]", TEXT) == []


def test_flower_asks_for_a_password_and_listens_on_this_machine_only():
    flower = services()["flower"]

    assert flower["environment"]["FLOWER_BASIC_AUTH"] == "giveway:flower-word"
    assert flower["ports"] == ["127.0.0.1:5555:5555"]
    assert [name for name, service in services().items() if "ports" in service] == ["flower"]


def test_a_queue_is_never_evicted_and_what_people_ask_is_on_no_disk():
    command = services()["valkey"]["command"]

    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert command[command.index("--appendonly") + 1] == "no"
    assert command[command.index("--save") + 1] == ""
    assert "volumes" not in services()["valkey"]
    assert command[command.index("--requirepass") + 1] == "broker-word"


def test_everything_but_the_one_step_restarts_and_has_a_health_check():
    for name, service in services().items():
        if name == "migrations":
            assert service["restart"] == "no"
        else:
            assert (service["restart"], "test" in service["healthcheck"]) == (
                "unless-stopped",
                True,
            )


def test_workers_start_when_the_tables_are_there():
    for name in ("interactive", "batch", "control", "beat", "flower", "metrics"):
        after = services()[name]["depends_on"]

        assert after["migrations"] == {"condition": "service_completed_successfully"}
        assert after["rabbitmq"]["required"] is after["valkey"]["required"] is False


def test_health_checks_call_commands_that_exist():
    known = {c.callback.__name__ for c in build().registered_commands if c.callback}
    tests = [service.get("healthcheck", {}).get("test", []) for service in services().values()]
    called = {test[4] for test in tests if "app.cli.main" in test}

    assert called == {"health"}
    assert called <= known


@pytest.mark.parametrize("service", ["migrations", INTERACTIVE, BATCH, CONTROL, "beat", "flower"])
def test_the_example_s_settings_are_valid(service: str, monkeypatch: pytest.MonkeyPatch):
    """All of a service's environment, what is left empty included."""
    from app.settings import load

    made = compose(GIVEWAY_ENDPOINTS=ENDPOINTS)["services"][service]["environment"]
    for name, value in made.items():
        monkeypatch.setenv(name, value)
    settings = load()

    assert [endpoint.base_url for endpoint in settings.endpoints] == ["http://simulated:8000/v1"]
