"""Loads put on one endpoint to see how it bears them: one at a time, a fixed number, a rate."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from app import clock, errors
from app.domain.calibration.measured import RateStep, TimedCall
from app.domain.inference import ChatRequest, EmbedRequest, Message
from app.inference.cancel import Cancel
from app.inference.wire import Wire

_VOCABULARY = (
    "river stone lamp garden winter paper silver window market engine harbour letter forest "
    "morning bridge kitchen travel season copper island candle summer village thunder basket"
)
_ASK = "continue this list with many more words and do not stop before you are told to"
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Shape:
    """What each call asks for."""

    model: str
    prompt_words: int
    max_tokens: int
    deadline_s: float


class Probe:
    """Timed calls to one endpoint, each with a prompt that no cache has seen. Thread-safe.

    `stop` set: calls in flight are closed at once and no more are made.
    """

    def __init__(self, wire: Wire, seed: int = 0) -> None:
        self.stop = Cancel()
        self._wire = wire
        # Another run must not find this one's prompts in the server's prefix cache.
        self._run = f"{random.SystemRandom().getrandbits(40):x}"
        self._random = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self._words = _VOCABULARY.split()
        self._flying = 0
        self._guard = threading.Lock()

    @property
    def in_flight(self) -> int:
        return self._flying

    def call(self, shape: Shape, cancelled: Cancel | None = None) -> TimedCall:
        """One chat. An endpoint's error is told in the result, not raised."""
        at_s: list[float] = []
        content = f"{self._text(shape.prompt_words)} {_ASK}"
        ask = (Message("user", content),)
        request = ChatRequest(shape.model, ask, shape.max_tokens, may_be_silent=True)
        with self._counted() as ahead:
            sent_s = clock.monotonic_s()
            try:
                reply = self._wire.chat(
                    request,
                    deadline_s=shape.deadline_s,
                    on_text=lambda _: at_s.append(clock.monotonic_s()),
                    cancelled=cancelled or self.stop,
                )
            except errors.EndpointError as error:
                return TimedCall(sent_s, tuple(at_s), ahead=ahead, error=error.code, why=str(error))
            ended_s = clock.monotonic_s()
        usage = reply.usage
        return TimedCall(
            sent_s, tuple(at_s), ended_s, usage.prompt_tokens, usage.completion_tokens, ahead
        )

    def embed(self, model: str, items: int, words: int, deadline_s: float) -> tuple[float, int]:
        """One embedding call: its milliseconds and tokens. Raises EndpointError."""
        texts = tuple(self._text(words) for _ in range(items))
        began_s = clock.monotonic_s()
        reply = self._wire.embed(
            EmbedRequest(model, texts), deadline_s=deadline_s, cancelled=self.stop
        )
        return (clock.monotonic_s() - began_s) * 1000, reply.usage.prompt_tokens

    def _text(self, words: int) -> str:
        with self._guard:
            chosen = self._random.choices(self._words, k=max(1, words - 1))
            return " ".join((f"{self._run}{self._random.getrandbits(32):x}", *chosen))

    @contextlib.contextmanager
    def _counted(self) -> Iterator[int]:
        """One more in flight; yields how many there were."""
        with self._guard:
            ahead = self._flying
            self._flying += 1
        try:
            yield ahead
        finally:
            with self._guard:
                self._flying -= 1


def kept_in_flight(
    probe: Probe, shape: Shape, running: int, seconds: float
) -> tuple[list[TimedCall], float, float]:
    """`running` calls at a time for so long (a closed loop). Returns them all, and from when until
    when so many were in flight."""
    calls: list[TimedCall] = []
    over = threading.Event()

    def one_after_the_other() -> None:
        while not over.is_set() and not probe.stop.is_set():
            call = probe.call(shape)
            calls.append(call)
            if call.error is not None:
                over.set()  # It does not bear so many: one refusal says it.

    with ThreadPoolExecutor(running, thread_name_prefix="probe") as threads:
        began_s = clock.monotonic_s()
        try:
            for _ in range(running):
                threads.submit(one_after_the_other)
            over.wait(seconds)
            until_s = clock.monotonic_s()
        except BaseException:
            probe.stop.set()
            raise
        finally:
            over.set()
    return calls, began_s, until_s


def sent_at_rate(
    probe: Probe,
    shape: Shape,
    rps: float,
    seconds: float,
    chance: random.Random,
    most_in_flight: int,
    most_wait_s: float,
    told: Callable[[float], None] = lambda _: None,
) -> RateStep:
    """Calls at random times, `rps` a second on average, whether the ones before are done or not.

    It gives up, and closes what is in flight, when a call fails, when more than `most_in_flight`
    pile up, or when they are not done `most_wait_s` after the last was sent. `told` hears the
    seconds that have passed.
    """
    stop, failed = Cancel(), threading.Event()
    probe.stop.hook(stop.set)
    calls: list[TimedCall] = []

    def one() -> None:
        call = probe.call(shape, stop)
        calls.append(call)
        if call.error not in (None, "abandoned"):
            failed.set()

    gave_up = False
    with ThreadPoolExecutor(most_in_flight, thread_name_prefix="probe") as threads:
        try:
            began_s = due_s = clock.monotonic_s()
            while not gave_up:
                due_s += chance.expovariate(rps)
                if due_s >= began_s + seconds:
                    break
                failed.wait(max(0.0, due_s - clock.monotonic_s()))
                told(min(seconds, clock.monotonic_s() - began_s))
                gave_up = failed.is_set() or probe.in_flight >= most_in_flight
                if not gave_up:
                    threads.submit(one)
            last_s = clock.monotonic_s()
            while probe.in_flight and not gave_up:
                time.sleep(_LOOK_S)
                gave_up = failed.is_set() or clock.monotonic_s() - last_s > most_wait_s
        finally:
            stop.set()
            probe.stop.unhook(stop.set)
    return RateStep(rps, tuple(sorted(calls, key=lambda call: call.sent_s)), gave_up)
