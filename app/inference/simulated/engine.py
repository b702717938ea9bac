"""Continuous batching as arithmetic: who runs in a step and what it costs. No clock, no sockets.

It follows vLLM's scheduler: running requests are served first, then waiting ones are admitted while
there are places, KV memory and token budget; where the KV memory is full the youngest is preempted
and computed again later.
"""

from __future__ import annotations

import itertools
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.inference.simulated.settings import ModelCosts


@dataclass(slots=True, eq=False)
class Work:
    """One request in the engine.

    It is over when it has made `output_tokens`, or with none of those (embeddings) when its prompt
    is computed; then it holds no KV memory either, since its texts do not depend on each other.
    `on_progress` is called after each step that gave it a token or ended it.
    """

    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    on_progress: Callable[[], None] = lambda: None
    number: int = -1
    computed: int = 0
    made: int = 0
    is_finished: bool = False

    @property
    def pending(self) -> int:
        """Tokens to compute before it can give the next one: 1 while it decodes."""
        return self.prompt_tokens + self.made - self.computed

    @property
    def is_decoding(self) -> bool:
        return self.made > 0 and self.pending == 1

    @property
    def kv(self) -> int:
        """Tokens it holds in KV memory."""
        return self.computed if self.output_tokens else 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step: how many tokens each running work gets, who came in, who was thrown out."""

    shares: tuple[tuple[Work, int], ...]
    admitted: tuple[Work, ...]
    preempted: tuple[Work, ...]
    duration_s: float


def duration_s(costs: ModelCosts, prefill: int, running: int, context: int) -> float:
    """Seconds of a step with `prefill` prompt tokens, `running` requests, `context` KV tokens."""
    return (
        costs.step_s
        + costs.prefill_token_s * prefill
        + costs.running_s * running
        + costs.context_token_s * context
    )


def planned(
    running: Sequence[Work], waiting: Sequence[Work], costs: ModelCosts, places: int
) -> Step:
    """The next step. `running` is in the order of admission, `waiting` in the order of service."""
    budget = costs.step_tokens
    used = sum(work.kv for work in running)
    kept = list(running)
    shares: list[tuple[Work, int]] = []
    preempted: list[Work] = []
    for work in running:
        tokens = min(work.pending, budget)
        if work in preempted or tokens == 0:
            continue
        while work.output_tokens and used + tokens > costs.kv_tokens:
            victim = max(
                (one for one in kept if one.output_tokens),
                key=lambda one: (one.priority, one.number),
            )
            kept.remove(victim)
            preempted.append(victim)
            used -= victim.kv
            given = next((share for share in shares if share[0] is victim), None)
            if given is not None:
                shares.remove(given)
                budget += given[1]
                used -= given[1]
            if victim is work:
                break
        if work not in preempted:
            shares.append((work, tokens))
            budget -= tokens
            used += tokens if work.output_tokens else 0
    admitted = (
        [] if preempted else _admitted(waiting, budget, costs.kv_tokens - used, places - len(kept))
    )
    shares += admitted
    prefill = sum(tokens for work, tokens in shares if not work.is_decoding)
    context = sum(work.kv for work, _ in shares)
    return Step(
        shares=tuple(shares),
        admitted=tuple(work for work, _ in admitted),
        preempted=tuple(preempted),
        duration_s=duration_s(costs, prefill, len(shares), context),
    )


def _admitted(
    waiting: Sequence[Work], budget: int, kv_left: int, places_left: int
) -> list[tuple[Work, int]]:
    """The head of the queue, as far as it fits. Nobody overtakes one that does not."""
    shares: list[tuple[Work, int]] = []
    for work in itertools.islice(waiting, max(0, places_left)):
        tokens = min(work.pending, budget)
        needed = tokens if work.output_tokens else 0
        if tokens == 0 or needed > kv_left:
            break
        shares.append((work, tokens))
        budget -= tokens
        kv_left -= needed
    return shares


class Engine:
    """The queues and the steps. `begin` says what the next step is, `end` books what it did.

    Between the two, works may be added and dropped: a place is free again at the next step.
    """

    def __init__(self, costs: ModelCosts, places: int, *, by_priority: bool = False) -> None:
        self.costs = costs
        self.places = places
        self.running: list[Work] = []
        self.waiting: list[Work] = []
        self.preemptions = 0
        self.most_running = 0
        self._by_priority = by_priority
        self._numbers = itertools.count()

    @property
    def is_idle(self) -> bool:
        return not (self.running or self.waiting)

    @property
    def kv_use(self) -> float:
        """Share of the KV memory in use, 0..1."""
        return sum(work.kv for work in self.running) / self.costs.kv_tokens

    def add(self, work: Work) -> None:
        """Queue `work`."""
        work.number = next(self._numbers)
        if not self._by_priority:
            work.priority = 0
        self._queue(work)

    def drop(self, work: Work) -> None:
        """Forget `work`: its caller is gone. Nothing happens if it is over already."""
        for queue in (self.running, self.waiting):
            if work in queue:
                queue.remove(work)

    def begin(self) -> Step:
        """Plan the next step: admit and preempt."""
        step = planned(self.running, self.waiting, self.costs, self.places)
        for work in step.preempted:
            self.running.remove(work)
            work.computed = 0
            self._queue(work)
        for work in step.admitted:
            self.waiting.remove(work)
            self.running.append(work)
        self.preemptions += len(step.preempted)
        self.most_running = max(self.most_running, len(self.running))
        return step

    def end(self, step: Step) -> list[Work]:
        """Book the step. Returns the works that it gave a token or finished."""
        moved = []
        for work, tokens in step.shares:
            if work not in self.running:
                continue
            work.computed += tokens
            if work.pending > 0:
                continue
            if work.output_tokens:
                work.made += 1
            if work.made >= work.output_tokens:
                work.is_finished = True
                self.running.remove(work)
            moved.append(work)
        return moved

    def _queue(self, work: Work) -> None:
        insort(self.waiting, work, key=lambda one: (one.priority, one.number))
