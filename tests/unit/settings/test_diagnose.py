"""Faults in settings: file, line, table, right spelling; never a secret."""

from __future__ import annotations

import json
import re
import traceback
from pathlib import Path

import pytest

from app.errors import ConfigError
from app.settings import Settings, load
from app.settings.diagnose import unknown_variables
from app.settings.schema import variables
from tests.unit.settings.conftest import Faults

PAGE = Path(__file__).parents[3] / "README.md"
README = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)[0]


def test_the_configuration_of_the_readme_is_right(faults: Faults) -> None:
    assert faults(README) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '\n[[pools]]\nname = "main"\ntotl = 8\n',
            (
                "giveway.toml:4: [[pools]] \"main\": unknown key 'totl'; did you mean 'total'? "
                "known keys: batch_max, batch_min, "
            ),
        ),
        ("[[pools]]\ntotal = 8\n", "giveway.toml:1: [[pools]] number 1: 'name' is missing"),
        ("[throtle]\n", "giveway.toml:1: unknown key 'throtle'; did you mean 'throttle'? "),
        ("\ntick_s = 2\n", "giveway.toml:2: unknown key 'tick_s'; it belongs under [throttle]"),
        (
            '[throttle]\ntick_s = "fast"\n',
            'giveway.toml:2: [throttle]: tick_s = "fast": must be a valid number',
        ),
        (
            "[throttle]\ntick_s = 100\n",
            "giveway.toml:2: [throttle]: tick_s = 100: must be less than or equal to 60",
        ),
        (
            "[batch]\nlease_s = 6\n",
            "giveway.toml:1: [batch]: heartbeat_s = 5 must be at most a third of lease_s = 6",
        ),
        (
            '[pools]\nname = "main"\n',
            "giveway.toml:1: pools: write [[pools]] with two brackets, once for each",
        ),
        ("throttle = 5\n", "giveway.toml:1: throttle = 5: must be a table"),
        (
            '[[pools]]\nname = "a b"\n',
            'giveway.toml:2: [[pools]] "a b": name: must be at most 63 letters',
        ),
        (
            '[[pools]]\nname = "a"\noptions = { gain = "x" }\n',
            'giveway.toml:3: [[pools]] "a": options.gain: must be a valid number',
        ),
        (
            '[[pools]]\nname = "a"\n[[pools]]\nname = "a"\n',
            "giveway.toml: pools: the name 'a' is given twice",
        ),
        (
            '[broker]\nurl = "valkey://localhost"\n',
            "giveway.toml:2: [broker]: url: kombu has no valkey:// transport; write redis://",
        ),
        ('log_level = "LOUD"', "giveway.toml:1: log_level = \"LOUD\": must be 'DEBUG', "),
        ("_env_file = 1\n", "giveway.toml: unknown key '_env_file'; known keys: "),
        ("a = \n", "giveway.toml: not TOML: "),
    ],
)
def test_each_fault_names_its_line_and_what_is_right(
    faults: Faults, text: str, sentence: str
) -> None:
    found = faults(text)

    assert len(found) == 1
    assert found[0].startswith(sentence)


def test_faults_come_in_the_order_of_the_file(faults: Faults) -> None:
    found = faults('[[pools]]\nname = "main"\ntotl = 1\ntotal = 0\n[throttle]\nalpha = 2\n')

    assert [sentence.split(":")[1] for sentence in found] == ["3", "4", "6"]


def test_no_secret_is_shown_even_in_a_traceback(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
    databse = { url = "postgresql://u:SECRET@h/d" }
    [database]
    url = "mysql://u:SECRET@h/d"
    pasword = "SECRET"
    [flower]
    password = ["SECRET"]
    [[endpoints]]
    name = "a"
    base_url = "http://u:SECRET@h/v1"
    models = "SECRET"
    api_key_env = "sk-SECRET"
    api_key = "SECRET"
    """
    monkeypatch.setenv("GIVEWAY_BROKER__URL", "http://u:SECRET@h")

    found = faults(text)
    with pytest.raises(ConfigError) as caught:
        load()
    shown = "".join(traceback.format_exception(caught.value))

    assert len(found) == 9
    assert "SECRET" not in "\n".join(found)
    assert "SECRET" not in shown


def test_faults_in_the_environment_are_named_by_variable(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEWAY_THROTTLE__TICK_S", "abc")
    monkeypatch.setenv("GIVEWAY_BATCH__LEASE_S", "7")
    monkeypatch.setenv("GIVEWAY_POOLS", '[{"name": "x", "totl": 1}]')

    found = "\n".join(faults("[batch]\nheartbeat_s = 5\n[throttle]\ntick_s = 1\n"))

    assert 'GIVEWAY_THROTTLE__TICK_S: [throttle]: tick_s = "abc": must be a valid number' in found
    assert "giveway.toml:1 and GIVEWAY_BATCH__LEASE_S: [batch]: heartbeat_s = 5 must" in found
    assert "GIVEWAY_POOLS: [[pools]] \"x\": unknown key 'totl'; did you mean 'total'?" in found


def test_a_table_given_as_json_is_blamed_for_its_own_keys_only(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEWAY_THROTTLE", '{"alpha": 5}')

    found = faults("[throttle]\nrps_threshold = -1\n")

    assert [sentence.split(": ")[0] for sentence in found] == ["GIVEWAY_THROTTLE", "giveway.toml:2"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("GIVEWAY_THROTTLE__TIK_S", "did you mean GIVEWAY_THROTTLE__TICK_S?"),
        ("GIVEWAY_DATABASE_URL", "did you mean GIVEWAY_DATABASE__URL?"),
        ("GIVEWAY_CONFG", "did you mean GIVEWAY_CONFIG?"),
        ("giveway_log_levl", "did you mean GIVEWAY_LOG_LEVEL?"),
        ("GIVEWAY_POOLS__0__TOTAL", "write GIVEWAY_POOLS as one JSON list: [{"),
        ("GIVEWAY_ZZZ", "`giveway config show` lists the settings"),
    ],
)
def test_an_unknown_variable_is_answered_with_the_nearest(name: str, sentence: str) -> None:
    (found,) = unknown_variables(Settings, {name: "SECRET", "HOME": "/"})

    assert found.startswith(f"{name}: no such setting; {sentence}")
    assert "SECRET" not in found


def test_an_empty_variable_is_not_set(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables(Settings):
        monkeypatch.setenv(name, "")

    assert faults("[throttle]\ntick_s = 2\n") == []
    assert load().throttle.tick_s == 2


def test_every_setting_may_come_from_the_environment() -> None:
    environment = dict.fromkeys(variables(Settings), "x")

    assert unknown_variables(Settings, environment) == []
    assert {"GIVEWAY_DATABASE__URL", "GIVEWAY_POOLS", "GIVEWAY_LOG_LEVEL"} <= set(environment)
    assert unknown_variables(Settings, {"GIVEWAY_CONFIG": "x", "GIVEWAY_DATA": "y"}) == []


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("GIVEWAY_POOLS", '[{"name"', "GIVEWAY_POOLS: not JSON: expecting ':' delimiter at"),
        ("GIVEWAY_DATABASE", "postgresql://SECRET", "GIVEWAY_DATABASE: not JSON: "),
        ("GIVEWAY_ENDPOINTS", " ", "GIVEWAY_ENDPOINTS: not JSON: "),
    ],
)
def test_json_that_is_broken_is_a_sentence(
    faults: Faults, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(name, value)

    (found,) = faults("")

    assert found.startswith(sentence)
    assert "SECRET" not in found


def test_the_variable_that_holds_an_endpoints_key_is_no_misspelt_setting(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEWAY_OPENAI_KEY", "sk-x")
    assert len(faults(README)) == 1
    assert faults(README + 'api_key_env = "GIVEWAY_OPENAI_KEY"\n') == []

    endpoint = {"name": "a", "base_url": "http://h/v1", "models": ["m"]}
    named = json.dumps([{**endpoint, "api_key_env": "GIVEWAY_OPENAI_KEY"}])
    monkeypatch.setenv("GIVEWAY_ENDPOINTS", named)
    assert faults("") == []


def test_a_named_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no settings file .*missing\.toml"):
        load(tmp_path / "missing.toml")
