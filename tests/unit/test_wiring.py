"""Wiring makes what is used, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("used", "not_loaded"),
    [
        ("wiring.settings", ("sqlalchemy", "psycopg", "httpx2", "httpcore2", "celery")),
        ("wiring.doorbell", ("sqlalchemy", "psycopg", "httpx2", "httpcore2", "celery")),
        ("wiring.pools", ("httpx2", "httpcore2", "celery", "app.services.scaling")),
        ("wiring.retention", ("httpx2", "httpcore2", "celery", "app.services.scaling")),
    ],
)
def test_what_is_not_used_is_not_imported(used: str, not_loaded: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom app.settings import Settings\nfrom app.wiring import Wiring\n"
        "wiring = Wiring(Settings(database={'url': 'postgresql://127.0.0.1:1/d'}))\n"
        f"{used}\nprint([m for m in {not_loaded!r} if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"
