"""Reading settings: giveway.toml, then the environment, then flags."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.errors import ConfigError
from app.settings.diagnose import (
    explain,
    malformed_variables,
    unknown_key,
    unknown_variables,
)
from app.settings.model import Settings

CONFIG_VARIABLE = "GIVEWAY_CONFIG"


def settings_files(config: Path | None = None) -> Path | None:
    """The file to read: `config`, else $GIVEWAY_CONFIG, else ./giveway.toml if it is there.

    A file that was named but does not exist is a ConfigError.
    """
    named = config or (Path(v) if (v := os.environ.get(CONFIG_VARIABLE)) else None)
    if named is not None:
        if not named.is_file():
            raise ConfigError(f"no settings file {named}")
        return named
    default = Path("giveway.toml")
    return default if default.is_file() else None


def load(config: Path | None = None, beneath: Mapping[str, str] | None = None) -> Settings:
    """Settings from the file and the environment, checked as a whole.

    `beneath` holds environment variables of a running stack; the real environment wins over them.
    Raises ConfigError that names the file, the line and, for a misspelt key, the right spelling.
    """
    path = settings_files(config)
    raw = _parsed(path) if path else {}
    borrowed = {k: v for k, v in (beneath or {}).items() if k not in os.environ}
    environment = {**os.environ, **borrowed}
    faults = unknown_variables(Settings, _without(environment, _key_variables(raw, environment)))
    faults += malformed_variables(Settings, environment)
    # pydantic-settings takes arguments that begin with an underscore as orders, not as settings.
    faults += [
        f"{path}: {unknown_key(key, Settings.model_fields)}" for key in raw if key.startswith("_")
    ]
    if faults:
        raise ConfigError("\n".join(faults))
    try:
        os.environ.update(borrowed)
        return Settings(**raw)
    except ValidationError as error:
        faults = explain(error, Settings, path)
    except SettingsError as error:
        faults = [str(error)]
    finally:
        for name in borrowed:
            os.environ.pop(name, None)
    # Raised out here, so that no traceback shows pydantic's error, which quotes what was set.
    raise ConfigError("\n".join(faults))


def _key_variables(raw: Mapping[str, Any], environment: Mapping[str, str]) -> frozenset[str]:
    """The variables that endpoints name as holding their keys: they are no settings."""
    try:
        from_environment = json.loads(environment.get("GIVEWAY_ENDPOINTS", "[]"))
    except json.JSONDecodeError:
        from_environment = []
    found = set()
    for endpoints in (raw.get("endpoints"), from_environment):
        for endpoint in endpoints if isinstance(endpoints, list) else ():
            if isinstance(endpoint, dict) and isinstance(endpoint.get("api_key_env"), str):
                found.add(endpoint["api_key_env"])
    return frozenset(found)


def _without(environment: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """`environment` less `names`."""
    return {name: value for name, value in environment.items() if name not in names}


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 text: {error.reason} at byte {error.start}"
        ) from error
