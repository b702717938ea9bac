"""A model server in virtual time: continuous batching, chunked prefill, KV memory, preemption.

One step costs T = c0 + cP·prefill tokens + cB·running + cC·context tokens (milliseconds). Steps in
which nothing but decoding happens are added up at once, until a request ends or the world wants a
word; there is no object and no loop turn for a token.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Waiting(StrEnum):
    """Who is admitted next to the engine's running batch."""

    FCFS = "fcfs"
    PRIORITY = "priority"
    """People before batch; a full engine still does not give a place back."""


@dataclass(frozen=True, slots=True)
class ServerModel:
    """The cost of a step and the size of an engine. Defaults: an 8B model on an A100."""

    fixed_ms: float = 12.5
    per_prefill_token_ms: float = 0.06
    per_running_ms: float = 0.02
    per_context_token_ms: float = 0.00009
    kv_tokens: int = 140_000
    step_tokens: int = 2_048
    """Token budget of a step: one for each decoding request, the rest for prefill."""
    max_running: int = 256
    waiting: Waiting = Waiting.FCFS

    def tokens_per_s(self, running: int, context: int = 0) -> float:
        """Decoding speed of `running` requests with `context` tokens each, all of them together."""
        step_ms = (
            self.fixed_ms
            + self.per_running_ms * running
            + self.per_context_token_ms * running * context
        )
        return 1000.0 * running / step_ms


class Call:
    """One request to the server, from submission to its last token. Times are in seconds."""

    __slots__ = (
        "ahead",
        "batch",
        "closed",
        "done",
        "end_step",
        "ended_at",
        "entered_at",
        "first_at",
        "output",
        "prefill_left",
        "prompt",
        "refused",
        "running",
        "streams",
        "submitted_at",
        "x",
    )

    def __init__(
        self, submitted_at: float, prompt: int, output: int, *, batch: bool, streams: bool = True
    ) -> None:
        self.submitted_at = submitted_at
        self.prompt = prompt
        self.output = output
        self.batch = batch
        self.streams = streams
        self.done = 0
        """Tokens given; while decoding, `Engine.tokens_of` knows the present number."""
        self.prefill_left = prompt
        self.end_step = 0
        self.running = False
        self.closed = False
        self.entered_at = -1.0
        self.first_at: float | None = None
        self.ended_at: float | None = None
        self.ahead = 0
        self.refused = False
        self.x = math.nan


class Engine:
    """One engine. `run` moves it forward to `until`, which the world may lower while it runs."""

    def __init__(self, model: ServerModel, on_end: Callable[[Call, Engine], None]) -> None:
        self.model = model
        self.on_end = on_end
        self.now = 0.0
        self.until = 0.0
        self.slowness = 1.0
        self.preemptions = 0
        self.wasted_recompute = 0
        self._step = 0
        self._people: deque[Call] = deque()
        self._batch: deque[Call] = deque()
        self._prefilling: list[Call] = []
        self._decoding: dict[Call, None] = {}
        self._ends: list[tuple[int, int, Call]] = []
        self._serial = 0
        self._context = 0
        self._prefill_kv = 0

    @property
    def running(self) -> int:
        return len(self._decoding) + len(self._prefilling)

    @property
    def queued(self) -> int:
        return len(self._people) + len(self._batch)

    @property
    def kv_usage(self) -> float:
        return (self._context + self._prefill_kv) / self.model.kv_tokens

    def tokens_of(self, call: Call) -> int:
        """Output tokens that `call` has given by now."""
        return call.output - (call.end_step - self._step) if call.running else call.done

    def work_of(self, call: Call) -> int:
        """Prompt tokens read and output tokens given by now."""
        if call.running or call.ended_at is not None:
            return call.prompt + self.tokens_of(call)
        return max(0, call.prompt + call.done - call.prefill_left)

    def submit(self, call: Call) -> None:
        call.entered_at = self.now
        (self._batch if call.batch else self._people).append(call)

    def close(self, call: Call) -> None:
        """Stop `call` and free its place at once, as closing a streamed HTTP call does."""
        if call.ended_at is not None or call.closed:
            return
        call.closed = True
        if call.running:
            call.done = self.tokens_of(call)
            self._leave(call)
        elif call in self._prefilling:
            self._prefilling.remove(call)
            self._prefill_kv -= call.prompt + call.done
        else:
            queue = self._batch if call.batch else self._people
            if call in queue:
                queue.remove(call)

    def run(self) -> None:
        """Forward to the first step boundary at or after `until`."""
        while self.now < self.until:
            self._admit()
            if self._prefilling:
                self._mixed_step()
            elif self._decoding:
                self._decode_steps()
            else:
                self.now = self.until

    def _next_waiting(self) -> deque[Call] | None:
        people, batch = self._people, self._batch
        if not batch:
            return people or None
        if not people:
            return batch
        if self.model.waiting is Waiting.PRIORITY or people[0].entered_at <= batch[0].entered_at:
            return people
        return batch

    def _admit(self) -> None:
        model = self.model
        while queue := self._next_waiting():
            if len(self._decoding) + len(self._prefilling) >= model.max_running:
                return
            call = queue[0]
            needs = call.prompt + call.done
            free = model.kv_tokens - self._context - self._prefill_kv - len(self._decoding)
            if needs + 1 > free and self.running:
                return
            queue.popleft()
            call.prefill_left = needs
            self._prefill_kv += needs
            self._prefilling.append(call)

    def _mixed_step(self) -> None:
        """One step that reads prompts beside the decoding of those who are past theirs."""
        model = self.model
        self._make_room()
        decoding = len(self._decoding)
        budget = max(1, model.step_tokens - decoding)
        read = 0
        finished = 0
        for call in self._prefilling:
            take = min(call.prefill_left, budget - read)
            if take <= 0:
                break
            call.prefill_left -= take
            read += take
            if call.prefill_left:
                break
            finished += 1
        step_ms = (
            model.fixed_ms
            + model.per_prefill_token_ms * read
            + model.per_running_ms * (decoding + finished)
            + model.per_context_token_ms * self._context
        )
        self.now += step_ms * self.slowness / 1000.0
        self._step += 1
        self._context += decoding
        for call in self._prefilling[:finished]:
            self._first_token(call)
        del self._prefilling[:finished]
        self._finish()

    def _first_token(self, call: Call) -> None:
        self._prefill_kv -= call.prompt + call.done
        call.done += 1
        if call.first_at is None:
            call.first_at = self.now
        if call.done >= call.output:
            call.ended_at = self.now
            self.on_end(call, self)
            return
        self._context += call.prompt + call.done
        call.end_step = self._step + call.output - call.done
        call.running = True
        self._decoding[call] = None
        self._serial += 1
        heapq.heappush(self._ends, (call.end_step, self._serial, call))

    def _decode_steps(self) -> None:
        """As many equal steps as nothing changes in: to the next end, full memory, or `until`."""
        model = self.model
        self._make_room()
        decoding = len(self._decoding)
        base = (
            model.fixed_ms
            + model.per_running_ms * decoding
            + model.per_context_token_ms * self._context
        ) * (self.slowness / 1000.0)
        slope = model.per_context_token_ms * decoding * (self.slowness / 1000.0)
        steps = max(1, self._next_end() - self._step)
        room = (model.kv_tokens - self._context - self._prefill_kv) // decoding
        steps = min(steps, max(1, room))
        left = self.until - self.now
        # k·base + slope·k·(k−1)/2 ≥ left, solved for the smallest k
        linear = base - slope / 2
        by_time = math.ceil((math.sqrt(linear * linear + 2 * slope * left) - linear) / slope)
        steps = min(steps, max(1, by_time))
        self.now += steps * base + slope * steps * (steps - 1) / 2
        self._step += steps
        self._context += steps * decoding
        self._finish()

    def _next_end(self) -> int:
        ends = self._ends
        while True:
            end_step, _, call = ends[0]
            if call.running and call.end_step == end_step:
                return end_step
            heapq.heappop(ends)

    def _finish(self) -> None:
        ends = self._ends
        while ends and ends[0][0] <= self._step:
            end_step, _, call = heapq.heappop(ends)
            if not call.running or call.end_step != end_step:
                continue
            call.done = call.output
            self._leave(call)
            call.ended_at = self.now
            self.on_end(call, self)

    def _leave(self, call: Call) -> None:
        self._context -= call.prompt + call.done
        call.running = False
        del self._decoding[call]

    def _make_room(self) -> None:
        """Preempt the newest (batch first under priority) while the next step does not fit."""
        kv = self.model.kv_tokens
        while (
            len(self._decoding) > 1 and self._context + self._prefill_kv + len(self._decoding) > kv
        ):
            victim = next(reversed(self._decoding))
            if self.model.waiting is Waiting.PRIORITY and not victim.batch:
                victim = next((c for c in reversed(self._decoding) if c.batch), victim)
            victim.done = self.tokens_of(victim)
            self._leave(victim)
            self.preemptions += 1
            self.wasted_recompute += victim.prompt + victim.done
            (self._batch if victim.batch else self._people).appendleft(victim)
