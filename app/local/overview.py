"""What `giveway status` says: one document, true at the moment it is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.local.leftovers import Birth, process_of
from app.local.state import ProcessState, StackState, running_state
from app.settings import Settings, load

Pools = Callable[[Settings], list[dict[str, Any]]]


def overview(data: Path, pools: Pools) -> dict[str, Any]:
    """The stack on this folder. `pools` reads the database; its failure is part of the answer."""
    state = running_state(data)
    if state is None:
        return {"running": False, "data": str(data.resolve())}
    at = state.addresses
    found: dict[str, Any] = {
        "running": True,
        "ready": state.ready,
        "data": state.data,
        "config": state.config,
        "supervisor": {"pid": state.supervisor.pid, "uptime_s": _age_s(state.supervisor)},
        "processes": [_process(process) for process in state.processes],
        "database_url": at.database_url,
        "broker_url": at.broker_url,
        "flower": {
            "url": at.flower_url,
            "user": at.flower_user,
            "password_file": at.flower_password_file,
        }
        if at.flower_url
        else None,
        "endpoint_url": at.endpoint_url,
    }
    return {**found, **_pools(state, pools)}


def _process(process: ProcessState) -> dict[str, Any]:
    birth = process.birth if process.birth and process_of(process.birth) else None
    return {
        "name": process.name,
        "pid": birth.pid if birth else None,
        "state": process.state,
        "restarts": process.restarts,
        "uptime_s": _age_s(birth) if birth else None,
    }


def _pools(state: StackState, pools: Pools) -> dict[str, Any]:
    try:
        config = Path(state.config) if state.config else None
        return {"pools": pools(load(config, beneath=state.environment))}
    except Exception as error:  # noqa: BLE001 -- status answers whatever is broken; it says what
        return {"pools": None, "error": str(error)}


def _age_s(birth: Birth) -> float:
    # psutil's moments are wall-clock ones, so this difference is too.
    return round(max(0.0, time.time() - birth.created_at), 1)
