"""Why jobs wait: the facts that may hold each are gathered, and `domain.waiting` says which does.

A number of statements that depends on the pools declared, not on the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

from sqlalchemy import Connection

from app.domain.jobs import CLAIMABLE, NO_MODEL, OPEN, Job
from app.domain.routing import HEALTHY, EndpointSpec, open_to
from app.domain.sharing import Candidate, shared
from app.domain.throttle.values import Reason
from app.domain.waiting import (
    NEEDS_SOMEBODY,
    ChunksNow,
    EndpointNow,
    Facts,
    PoolNow,
    Waiting,
    waiting,
)
from app.services.claiming import room_for
from app.services.pools import Pool, Pools, current
from app.services.pools.now import PoolState
from app.services.rates import with_budget_left
from app.services.ringing import candidates_for
from app.storage.database import database_now
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitRow, LimitStore, Occupancy
from app.storage.waiting_store import Away, WaitingStore
from app.storage.worker_store import Known, WorkerStore


@dataclass(frozen=True, slots=True)
class _Scene:
    """A declared pool at this moment. `added` at run time are endpoints that every worker knows of;
    `rested` is the pool as batch sees it, whose endpoints without budget are cooling."""

    pool: Pool
    added: Sequence[EndpointSpec]
    rested: Pool
    row: LimitRow
    occupancy: Occupancy
    limit: int
    away: Mapping[str, Away]
    rung: Sequence[Candidate]
    """The jobs that the places which are free go to, one entry a place."""


def reasons(tx: Connection, pools: Pools, jobs: Sequence[Job]) -> dict[int, Waiting]:
    """By id, why nothing of a job is worked on; those that are over or at work are not in it."""
    jobs = [job for job in jobs if job.state in OPEN]
    if not jobs:
        return {}
    now = database_now(tx)
    asked = [job for job in jobs if job.state in CLAIMABLE]
    ids = [job.id for job in asked]
    store = WaitingStore(tx)
    chunks = store.chunks(ids) if asked else {}
    uncompleted = store.uncompleted(ids) if any(job.after for job in asked) else {}
    known = WorkerStore(tx).known() if asked else Known(0, frozenset(), {})
    scenes = {
        name: scene
        for name in {job.pool for job in asked}
        if name in pools.by_name and (scene := _scene(tx, pools.by_name[name])) is not None
    }
    found = {}
    for job in jobs:
        facts = Facts(
            now=now,
            chunks=chunks.get(job.id, ChunksNow()),
            uncompleted=uncompleted.get(job.id, ()),
            pool=_pool_now(job, scenes[job.pool], now) if job.pool in scenes else None,
            workers=known.count,
            kinds=known.kinds,
            models=_models(known, scenes.get(job.pool), job.pool),
        )
        why = waiting(job, facts)
        if why is not None:
            found[job.id] = why
    return found


def stuck(tx: Connection, pools: Pools, most: int = 500) -> list[tuple[Job, Waiting]]:
    """The newest jobs that may run, but for what may not pass by itself: a person should look."""
    jobs = JobStore(tx).listed(most, CLAIMABLE)
    found = reasons(tx, pools, jobs)
    return [
        (job, why)
        for job in jobs
        if (why := found.get(job.id)) is not None and why.code in NEEDS_SOMEBODY
    ]


def _scene(tx: Connection, pool: Pool) -> _Scene | None:
    """None: no worker has declared it yet."""
    limits = LimitStore(tx)
    row = limits.read(pool.name)
    if row is None:
        return None
    here = current(tx, pool, row)
    occupancy = limits.occupancy(pool.name)
    now = PoolState(here, row, occupancy)
    rested = with_budget_left(tx, here)
    places = max(0, now.batch_places)
    rung = shared(places, candidates_for(tx, rested, occupancy, places)) if places else []
    away = WaitingStore(tx).away(pool.name)
    added = here.endpoints[len(pool.endpoints) :]
    return _Scene(here, added, rested, row, occupancy, now.limit, away, rung)


def _models(known: Known, scene: _Scene | None, pool: str) -> frozenset[str]:
    """What running workers know in the pool, those endpoints included that were added since."""
    told = known.serves.get(pool, frozenset())
    if scene is None:
        return told
    return told.union(*({*spec.models, *spec.stands_in_for} for spec in scene.added))


def _pool_now(job: Job, scene: _Scene, now: datetime) -> PoolNow:
    row, occupancy = scene.row, scene.occupancy
    valid_until = row.state.valid_until
    undecided_s = None
    if valid_until is None:
        undecided_s = inf
    elif now > valid_until:
        undecided_s = (now - valid_until).total_seconds()
    first = None
    if scene.rung and all(one.job_id != job.id for one in scene.rung):
        first = scene.rung[0].key
    room = room_for(job, scene.rested, occupancy)
    return PoolNow(
        limit=scene.limit,
        reason=Reason.STALE if undecided_s is not None else row.state.reason,
        total=scene.pool.bounds.total,
        batch_in_flight=occupancy.batch_total,
        people_in_flight=occupancy.interactive_total,
        endpoints=_endpoints(job, scene),
        operator_until=row.override.until if row.override else None,
        has_room=room is None or room > 0,
        first=first,
        undecided_s=undecided_s,
    )


def _endpoints(job: Job, scene: _Scene) -> tuple[EndpointNow, ...]:
    """Those that answer for the job's model in a role that it may go to."""
    if job.model == NO_MODEL:
        return ()
    healths, rested = scene.pool.health, scene.rested.health
    found = []
    for choice in open_to(job.failover, job.model, scene.pool.endpoints):
        name, model = choice.spec.name, choice.model
        health, away = healths.get(name, HEALTHY), scene.away.get(name, Away())
        usable = rested.get(name, HEALTHY).usable(model)
        found.append(
            EndpointNow(
                name=name,
                word=health.word,
                usable=usable,
                code=away.code,
                back_at=away.back_at,
                resting=health.usable(model) and not usable,
            )
        )
    return tuple(found)
