"""Estimating: what a template would do, without doing it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from app import clock
from app.domain import estimates
from app.domain.estimates import Figure, Pace
from app.domain.inference import rough_tokens, texts_of
from app.domain.packing import packed
from app.domain.results import Item, ItemResult, Status
from app.domain.routing import EndpointSpec, Takes, serving
from app.domain.throttle.decide import limit_now
from app.domain.tokens import Basis, Tokens
from app.kinds.base import Calls, Kind, ManySteps, Params, Unit, checked, models_of
from app.kinds.registry import kind as kind_named
from app.services.items import SourceItems
from app.services.models import pool_of
from app.services.pools import Pool, Pools, current, with_added
from app.services.templates import JobTemplate
from app.services.vectors import Known
from app.services.work import BatchLimits
from app.storage.call_store import CallStore
from app.storage.database import Database
from app.storage.limit_store import LimitStore
from app.storage.vector_store import Collection, VectorStore

_SAMPLED = 256
"""So many texts are counted as the model itself counts, and the rest by the same ratio."""
_SAMPLED_BY_CALL = 8
"""Servers that count one text a call are asked for no more."""

CounterOf = Callable[[EndpointSpec, str], Tokens]


@dataclass(frozen=True, slots=True)
class Estimate:
    """`refused` items fail without a call, `unchanged` have their vector already."""

    kind: str
    model: str | None
    pool: str
    collection: str | None
    items: int
    skipped_lines: int
    empty: int
    refused: int
    unchanged: int
    to_send: int
    calls: int
    prompt_tokens: Figure
    completion_tokens: Figure
    seconds: Figure
    money: Figure


@dataclass(slots=True)
class _Counts:
    items: int = 0
    empty: int = 0
    refused: int = 0
    unchanged: int = 0
    to_send: int = 0
    calls: int = 0
    rough_tokens: int = 0
    sample: list[str] = field(default_factory=list)
    seen: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def sampled(self, text: str) -> None:
        """Take the text into the sample, so that each has the same chance to be in it."""
        self.seen += 1
        if len(self.sample) < _SAMPLED:
            self.sample.append(text)
        elif (at := self.chance.randrange(self.seen)) < _SAMPLED:
            self.sample[at] = text

    def first_step(self, asked: Calls | ItemResult) -> None:
        """Count the calls with which an item of several steps begins."""
        if isinstance(asked, ItemResult):
            self.refused += asked.status is Status.FAILED
            return
        self.to_send += 1
        for call in asked.by_name.values():
            texts = texts_of(call)
            self.calls += 1
            self.rough_tokens += sum(map(rough_tokens, texts))
            self.sampled("\n".join(texts))


class Estimating:
    """The use case. Reads the source and asks the database and a tokenizer; writes nothing."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        counter_of: CounterOf,
        limits: BatchLimits,
        chunk_items: int,
    ) -> None:
        self._database = database
        self._pools = pools
        self._counter_of = counter_of
        self._limits = limits
        self._chunk_items = chunk_items

    def estimate(self, template: JobTemplate, items: SourceItems) -> Estimate:
        """What `template` over `items` would take. Raises what submitting it would raise."""
        kind = kind_named(template.kind)
        params = checked(kind, template.params)
        models = models_of(kind, params)
        pool = pool_of(self._database, with_added(self._database, self._pools), models)
        model = models[0] if models else None
        specs = serving(model, pool.endpoints) if model else []
        name = kind.collection(params)
        counts = self._counted(kind, params, name, specs, items, template)
        with self._database.transaction() as tx:
            pace = CallStore(tx).pace(pool.name, kind.name, model) if model else None
        places = self._places(pool)
        if template.max_in_flight is not None:
            places = min(places, template.max_in_flight)
        return self._put_together(kind, params, counts, specs, pace, places, pool, model, items)

    def _put_together(
        self,
        kind: Kind,
        params: Params,
        counts: _Counts,
        specs: Sequence[EndpointSpec],
        pace: Pace | None,
        places: int,
        pool: Pool,
        model: str | None,
        items: SourceItems,
    ) -> Estimate:
        tokens = self._tokens(counts, specs, model)
        work = estimates.Work(counts.to_send, counts.calls, int(tokens.value or 0), kind.together)
        most = getattr(params, "max_tokens", None)
        if isinstance(kind, ManySteps):
            later = "the first step of each item only; later ones depend on the answers"
            tokens = Figure(tokens.value, f"{tokens.basis}; {later}")
        answers = estimates.completion_tokens(work, pace, most)
        return Estimate(
            kind=kind.name,
            model=model,
            pool=pool.name,
            collection=kind.collection(params),
            items=counts.items,
            skipped_lines=items.skipped(),
            empty=counts.empty,
            refused=counts.refused,
            unchanged=counts.unchanged,
            to_send=counts.to_send,
            calls=counts.calls,
            prompt_tokens=tokens,
            completion_tokens=answers,
            seconds=estimates.seconds(work, pace, max(1, places)),
            money=estimates.money(work, answers, specs),
        )

    def _counted(
        self,
        kind: Kind,
        params: Params,
        name: str | None,
        specs: Sequence[EndpointSpec],
        items: SourceItems,
        template: JobTemplate,
    ) -> _Counts:
        counts = _Counts()
        collection = self._collection(name, params)
        takes = specs[0].takes(models_of(kind, params)[0]) if specs else Takes()
        most_items = takes.items or self._limits.micro_batch_items
        most_tokens = takes.tokens or self._limits.micro_batch_tokens
        # By chunks, because no call holds items of two.
        for chunk in _chunks(items, template.chunk_items or self._chunk_items):
            counts.items += len(chunk)
            prepared = kind.prepare(chunk, params)
            for result in prepared.results:
                counts.empty += result.status is Status.EMPTY
                counts.refused += result.status is Status.FAILED
            if isinstance(kind, ManySteps):
                for unit in prepared.units:
                    counts.first_step(kind.step(unit.item, {}, params))
                continue
            units, same = self._left(collection, prepared.units)
            counts.unchanged += len(same)
            counts.to_send += len({unit.item.seq for unit in units})
            tokens = [unit.tokens for unit in units]
            most = most_items if kind.together else 1
            counts.calls += sum(1 for _ in packed(units, tokens, most, most_tokens))
            counts.rough_tokens += sum(tokens)
            for unit in units:
                counts.sampled(unit.text)
        return counts

    def _collection(self, name: str | None, params: Params) -> Collection | None:
        """The collection, if it is there already and of this model."""
        if name is None:
            return None
        with self._database.transaction() as tx:
            found = VectorStore(tx).find(name)
        return found if found is not None and found.model == params.model else None

    def _left(
        self, collection: Collection | None, units: list[Unit]
    ) -> tuple[list[Unit], list[int]]:
        """Units that need a call, and the seqs of items that are there unchanged."""
        if collection is None or not units:
            return units, []
        with self._database.transaction() as tx:
            rows = VectorStore(tx).known(collection.id, list({unit.item.key for unit in units}))
        pieces = Counter(unit.item.key for unit in units)
        return Known(collection, rows, Counter(key for key, _ in rows), pieces).sorted_out(units)

    def _tokens(self, counts: _Counts, specs: Sequence[EndpointSpec], model: str | None) -> Figure:
        rough = f"{Basis.ROUGH}: four characters a token"
        if not counts.sample or not specs or model is None:
            return Figure(counts.rough_tokens, rough)
        counter = self._counter_of(specs[0], model)
        for most in (_SAMPLED, _SAMPLED_BY_CALL):
            texts = counts.sample[:most]
            found = counter.count(texts)
            if not found.is_rough:
                guessed = sum(map(rough_tokens, texts))
                ratio = found.total / max(1, guessed)
                basis = f"{found.basis}: counted for {len(texts):,} texts, the rest in proportion"
                return Figure(round(counts.rough_tokens * ratio), basis)
        return Figure(counts.rough_tokens, rough)

    def _places(self, pool: Pool) -> int:
        """Batch requests that may be in flight now."""
        with self._database.transaction() as tx:
            limits = LimitStore(tx)
            row = limits.read(pool.name)
            if row is None:
                return pool.bounds.floor
            occupancy = limits.occupancy(pool.name)
            bounds = current(tx, self._pools.named(pool.name), row).bounds
        people = occupancy.interactive_total + occupancy.queued
        return limit_now(row.state, people, bounds, clock.now())


def _chunks(items: SourceItems, size: int) -> Iterator[list[Item]]:
    numbered = items.items()
    while chunk := list(islice(numbered, size)):
        yield chunk
