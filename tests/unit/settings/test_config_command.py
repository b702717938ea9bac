"""`giveway config check` and `show` as a person meets them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from app.cli.config import register
from app.settings import Settings
from app.settings.schema import variables

ROOT = Path(__file__).parents[3]


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    app = typer.Typer()
    register(app)
    app.callback()(lambda: None)
    result = CliRunner().invoke(app, ["config", *args])
    return result.exit_code, result.stdout, result.stderr


def test_right_settings_are_summed_up() -> None:
    Path("giveway.toml").write_text('[[pools]]\nname = "a"\n[[pools]]\nname = "b"\n')

    assert run("check") == (0, "giveway.toml is right: 2 pools, 0 endpoints\n", "")
    assert json.loads(run("check", "--json")[1]) == {
        "ok": True,
        "file": "giveway.toml",
        "pools": ["a", "b"],
        "endpoints": [],
        "faults": [],
        "warnings": [],
    }


def test_a_key_that_is_not_set_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("giveway.toml").write_text(
        '[[endpoints]]\nname = "paid"\nbase_url = "http://h/v1"\nmodels = ["m"]\n'
        'api_key_env = "PAID_KEY"\n'
    )
    monkeypatch.delenv("PAID_KEY", raising=False)
    code, _, said = run("check")
    told = json.loads(run("check", "--json")[1])

    assert (code, told["ok"]) == (0, True)
    assert said == f"warning: {told['warnings'][0]}\n"
    assert "endpoint 'paid': the variable PAID_KEY (its api_key_env) is not set here" in said
    monkeypatch.setenv("PAID_KEY", "k")
    assert run("check")[2] == ""


def test_without_a_file_it_says_so() -> None:
    code, said, _ = run("check")

    assert code == 0
    assert said.startswith("no giveway.toml here")


def test_wrong_settings_are_listed_and_the_exit_code_is_2() -> None:
    Path("other.toml").write_text("[throttle]\ntik_s = 1\n")

    code, out, err = run("check", "--config", "other.toml")
    assert (code, out) == (2, "")
    assert err.startswith("other.toml:2: [throttle]: unknown key 'tik_s'; did you mean 'tick_s'?")

    code, out, _ = run("check", "--config", "other.toml", "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["file"], len(found["faults"])) == (2, False, "other.toml", 1)


def test_what_is_shown_is_toml_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEWAY_DATABASE__URL", "postgresql://u:SECRET@h/d")
    monkeypatch.setenv("GIVEWAY_FLOWER__PASSWORD", "SECRET")

    _, out, _ = run("show")
    shown = tomllib.loads(out)

    assert "SECRET" not in out + run("show", "--json")[1]
    assert shown["database"]["url"] == "postgresql://u:***@h/d"
    assert shown["pools"][0]["name"] == "main"
    without_none = {k: v for k, v in json.loads(run("show", "--json")[1])["flower"].items() if v}
    assert shown["flower"] == without_none | {"port": 0}


def test_the_example_environment_names_only_settings_that_exist() -> None:
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    names = {line[1:].split("=")[0] for line in lines if line.startswith("#GIVEWAY_")}

    assert names - {"GIVEWAY_CONFIG", "GIVEWAY_DATA"} <= set(variables(Settings))
    assert len(names) > 20
