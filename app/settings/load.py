"""Reading settings: giveway.toml, then the environment, then flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.errors import ConfigError
from app.settings.diagnose import explain, unknown_variables
from app.settings.model import Settings

CONFIG_VARIABLE = "GIVEWAY_CONFIG"
DATA_VARIABLE = "GIVEWAY_DATA"


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
    unknown = unknown_variables(Settings, {**os.environ, **borrowed})
    if unknown:
        raise ConfigError("\n".join(unknown))
    try:
        os.environ.update(borrowed)
        return Settings(**raw)
    except ValidationError as error:
        raise ConfigError("\n".join(explain(error, Settings, path))) from error
    finally:
        for name in borrowed:
            os.environ.pop(name, None)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
