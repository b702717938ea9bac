"""What `giveway doctor` holds a running installation against."""

from __future__ import annotations

import os

from app.declared.knowledge import unset_of
from app.services.examining import Installation
from app.services.pools import Pools
from app.settings import Settings
from app.settings.secrets import shown


def installation_of(settings: Settings, pools: Pools, command_threads: int) -> Installation:
    """What the settings say of it, where a command has so many threads."""
    url = settings.database.url
    threads = {
        "interactive": settings.interactive_threads,
        "batch": settings.batch_threads,
        "control": settings.control_threads,
        "a command": command_threads,
    }
    connections = {name: settings.database.connections_of(count) for name, count in threads.items()}
    # A lane has a connection a pool and one for its leases.
    connections["interactive"] += len(pools.by_name) + 1
    connections["interactive"] *= settings.interactive_processes
    return Installation(
        where="database" if url is None else shown(url),
        pools=frozenset(pools.by_name),
        scaled=frozenset(one.pool for one in settings.scaling),
        connections=connections,
        valid_for_s=settings.throttle.valid_for_s,
        call_timeout_s=settings.batch.call_timeout_s,
        longest_s=settings.interactive.deadline_s + settings.interactive.call_timeout_s,
        unset=unset_of(pools.endpoints, os.environ),
    )
