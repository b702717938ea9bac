"""Giveway: batch LLM work that gives way to people who are waiting.

`celery -A app worker …` finds the Celery app through `celery` below; nothing is imported before.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "celery":
        _stand_on_the_running_stack()
        from app.worker.celery_app import celery

        return celery
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _stand_on_the_running_stack() -> None:
    """Celery's own commands meet the stack that runs on GIVEWAY_DATA (or ./.giveway), as ours do;
    what the environment says itself wins."""
    import os
    import sys
    from pathlib import Path

    from app.errors import GivewayError
    from app.local.state import environment_of

    try:
        told = environment_of(Path(os.environ.get("GIVEWAY_DATA") or ".giveway"))
    except GivewayError as error:
        sys.stderr.write(f"giveway: {error}\n")
        raise SystemExit(2) from None
    for variable, value in (told or {}).items():
        os.environ.setdefault(variable, value)
