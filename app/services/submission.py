"""Submitting a job: once a key, whole or not at all, whoever crashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from sqlalchemy import Connection, text

from app.domain.chunks import chunk_size, paced_size
from app.domain.events import JobReady, Observer
from app.domain.fingerprint import canonical, fingerprint
from app.domain.jobs import NO_MODEL, Failover, Job, JobState, NewJob
from app.domain.naming import MOST_OF_A_KEY, check_name
from app.domain.routing import EndpointSpec
from app.errors import KeyConflict, NotFound
from app.kinds.base import Kind, Params, checked, models_of
from app.kinds.registry import kind as kind_named
from app.services.fitting import judge_of
from app.services.models import pool_of
from app.services.pools import Pool, Pools
from app.services.refusals import check_job, check_keepable
from app.services.resuming import check_resumes
from app.storage.call_store import CallStore
from app.storage.chunk_store import ChunkStore
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.item_store import ItemStore, Row
from app.storage.job_store import JobStore
from app.storage.sources.reading import Judge
from app.storage.vector_store import VectorStore


class Items(Protocol):
    """Where the items come from: read in a stream, and identified without being loaded."""

    def content_hash(self) -> bytes:
        """16 bytes that stand for all of the content and how it is read."""
        ...

    def rows(self) -> Iterable[Row]:
        """(key, payload as JSON bytes), in order. Raises BadSource."""
        ...

    def skipped(self) -> int:
        """Bad lines that were passed over; known once `rows` has ended."""
        ...


@runtime_checkable
class Lines(Items, Protocol):
    """Items that are records of a source, which may have lines that are none."""

    def refuse(self, judge: Judge | None) -> None:
        """From now on a record is a bad line where `judge` says why."""
        ...


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What a person asks for. `key` None: derived from the request itself. `after`: keys or ids
    of jobs; the rest as in `NewJob`."""

    kind: str
    params: Mapping[str, Any]
    key: str | None = None
    name: str | None = None
    priority: int = 0
    weight: float = 1.0
    max_in_flight: int | None = None
    may_yield: bool = True
    resume_streamed: bool = False
    deadline_at: datetime | None = None
    chunk_items: int | None = None
    tenant: str = "default"
    after: tuple[str, ...] = ()
    window: Mapping[str, Any] | None = None
    failover: Failover = Failover.WAIT
    budget: float | None = None
    source: bytes | None = None
    delete_missing: bool = False
    webhook: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """`created` is False where the same job was there already."""

    job: Job
    created: bool


class Submission:
    """The use case. Nothing it does needs the broker: ring for the job afterwards."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        chunk_items: int,
        micro_batch_items: int,
        observer: Observer,
        chunk_s: float = 0.0,
    ) -> None:
        self._database = database
        self._pools = pools
        self._chunk_s = chunk_s
        self._chunk_items = chunk_items
        self._micro_batch_items = micro_batch_items
        self._observer = observer

    def submit(self, request: JobRequest, items: Items) -> Submitted:
        """Insert the job, load its items and make it ready.

        Same key and same request: the job that is there (possibly still being loaded by whoever
        came first). Same key, another request: KeyConflict. A crash leaves a *loading* job, which
        the next submission of the same request takes over. Raises UnknownName, BadParams,
        BadSource, CollectionConflict, NotFound (a job it is to come after); then nothing is left
        behind.
        """
        new = self._new_job(request, items, self._named(request.after))
        with self._database.transaction() as tx:
            job_id = JobStore(tx).insert(new)
        job = self._existing(new) if job_id is None else self._by_id(job_id)
        if job.state is not JobState.LOADING:
            return Submitted(job, created=False)
        loaded = self._load(job.id, new, request.chunk_items, items)
        job = self._by_id(job.id)
        if loaded:
            self._observer.saw(JobReady(job.id, job.kind, job.total))
        return Submitted(job, created=loaded)

    def check(self, request: JobRequest, items: Items) -> None:
        """Raise what `submit` would raise, the bad lines of `items` excepted, which their reading
        names from now on; that is begun only where the key is taken. Writes nothing."""
        after = self._named(request.after)
        kind, params, _ = self._checked(request, items)
        name = kind.collection(params)
        with self._database.transaction() as tx:
            taken = request.key is not None and JobStore(tx).find(request.key) is not None
            if name is not None:
                VectorStore(tx).check_model(name, params.model)
        if taken:
            self._existing(self._new_job(request, items, after))

    def _checked(self, request: JobRequest, items: Items) -> tuple[Kind, Params, Pool]:
        """The kind, its parameters and where it runs: all that can be told without the items."""
        if request.key:
            check_name("key", request.key, MOST_OF_A_KEY)
        kind = kind_named(request.kind)
        params = checked(kind, request.params)
        check_job(
            kind,
            params,
            name=request.name,
            failover=request.failover,
            resume_streamed=request.resume_streamed,
            delete_missing=request.delete_missing,
        )
        models = models_of(kind, params)
        pool = pool_of(self._database, self._pools, models)
        specs = self._endpoints(pool)
        if request.resume_streamed:
            check_resumes(models, specs)
        plain = params.model_dump(mode="json")
        check_keepable({**plain, "tenant": request.tenant, "webhook": request.webhook})
        if isinstance(items, Lines):
            items.refuse(judge_of(kind, params, specs))
        return kind, params, pool

    def _named(self, references: tuple[str, ...]) -> tuple[int, ...]:
        """Ids of the jobs with these keys or ids. NotFound: one is not there."""
        if not references:
            return ()
        with self._database.transaction() as tx:
            found = JobStore(tx).ids(references)
        missing = [reference for reference in references if reference not in found]
        if missing:
            raise NotFound(f"no job with key or id {missing[0]!r} to come after")
        return tuple(sorted(set(found.values())))

    def _new_job(self, request: JobRequest, items: Items, after: tuple[int, ...]) -> NewJob:
        kind, params, pool = self._checked(request, items)
        models = models_of(kind, params)
        plain = params.model_dump(mode="json")
        request_hash = fingerprint(kind.name, canonical(plain), items.content_hash())
        key = request.key or f"{kind.name}-{request_hash.hex()[:16]}"
        return NewJob(
            kind=kind.name,
            name=request.name or key,
            key=key,
            request_hash=request_hash,
            params=plain,
            pool=pool.name,
            model=models[0] if models else NO_MODEL,
            priority=request.priority,
            weight=request.weight,
            max_in_flight=request.max_in_flight,
            may_yield=request.may_yield,
            resume_streamed=request.resume_streamed,
            deadline_at=request.deadline_at,
            tenant=request.tenant,
            after=after,
            window=request.window,
            failover=request.failover,
            budget=request.budget,
            source=request.source,
            delete_missing=request.delete_missing,
            webhook=request.webhook,
        )

    def _endpoints(self, pool: Pool) -> list[EndpointSpec]:
        """Those declared for `pool`, and those added at run time."""
        with self._database.transaction() as tx:
            added = EndpointStore(tx).added()
        return [*pool.endpoints, *(spec for spec in added if spec.pool == pool.name)]

    def _existing(self, new: NewJob) -> Job:
        with self._database.transaction() as tx:
            job = JobStore(tx).find(new.key)
        if job is None:
            raise NotFound(f"job {new.key!r} was removed while it was being submitted; try again")
        _check_same(job, new)
        return job

    def _by_id(self, job_id: int) -> Job:
        with self._database.transaction() as tx:
            job = JobStore(tx).get(job_id)
        if job is None:
            raise NotFound(f"job {job_id} was removed while it was being submitted; try again")
        return job

    def _chunk_of(self, tx: Connection, new: NewJob, total: int) -> int:
        """How many items are leased together where the request does not say."""
        own = getattr(kind_named(new.kind), "chunk_items", None)
        if own is not None:
            return int(own)
        calls_an_item = not kind_named(new.kind).together and new.model != NO_MODEL
        plain = chunk_size(self._chunk_items, self._micro_batch_items, calls_an_item=calls_an_item)
        if not self._chunk_s or new.model == NO_MODEL:
            return plain
        pace = CallStore(tx).pace(new.pool, new.kind, new.model)
        items_per_s = pace.items / pace.seconds if pace and pace.seconds else None
        most = self._pools.named(new.pool).bounds.ceiling
        return paced_size(plain, items_per_s, self._chunk_s, total, most)

    def _load(self, job_id: int, new: NewJob, chunk_items: int | None, items: Items) -> bool:
        """Load everything in one transaction; False: somebody else does, or has done it."""
        try:
            with self._database.transaction() as tx:
                tx.execute(text("SET LOCAL statement_timeout = 0"))
                store = JobStore(tx)
                if not store.try_load_lock(job_id):
                    return False
                job = store.get(job_id)
                if job is None or job.state is not JobState.LOADING:
                    return False
                self._fill(tx, job_id, new, chunk_items, items)
                return True
        except BaseException:  # Ctrl-C too.
            # What was copied is rolled back; the row that holds the key goes too.
            with self._database.transaction() as tx:
                JobStore(tx).forget_loading(job_id)
            raise

    def _fill(
        self, tx: Connection, job_id: int, new: NewJob, chunk_items: int | None, items: Items
    ) -> None:
        name = kind_named(new.kind).collection(checked(kind_named(new.kind), new.params))
        collection = None if name is None else VectorStore(tx).ensure(name, new.model)
        total = ItemStore(tx).load(job_id, items.rows())
        if total:
            size = chunk_items or self._chunk_of(tx, new, total)
            ChunkStore(tx).cut(job_id, new.pool, total, size)
        JobStore(tx).loaded(job_id, total, items.skipped())
        if collection is not None:
            # From here on no job writes the vector of an older text without seeing this one.
            VectorStore(tx).hold_off(collection.id)


def _check_same(job: Job, new: NewJob) -> None:
    """KeyConflict: the key is another job's."""
    if job.request_hash != new.request_hash:
        raise KeyConflict(
            f"key {new.key!r} belongs to job {job.id} ({job.kind}, {job.state}), which was "
            "submitted with other content or parameters; use another --key, or none"
        )
