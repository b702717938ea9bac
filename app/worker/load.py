"""Interactive load: people who come when they come, and what each of them waited.

Open loop: arrivals are fixed beforehand and nobody waits for an answer before the next one comes,
so a slow server meets the same people as a fast one. A wait is counted from the moment at which the
request was *due*, so that a late sender hides nothing (no coordinated omission).
"""

from __future__ import annotations

import math
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from celery import Celery
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as NoResult

from app import clock
from app.errors import ConfigError, EndpointError
from app.worker.interactive_tasks import facts
from app.worker.queues import broker_priority
from app.worker.results import close_backend

MOST_IN_FLIGHT = 512
"""Requests in flight, each with a thread; whoever comes after them waits, and the wait counts."""
_LOOK_S = 1.0
_TEXT = """
    queue latency batch people index shard cache vector token prompt answer model endpoint lease
    chunk retry limit window reading pressure policy worker broker schedule invoice order refund
    parcel garden river bridge winter harvest engine pilot letter museum theatre violin recipe
"""
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """`rps` requests a second on average for `seconds`. Everything random comes from `seed`.

    `poisson`: people come independently of each other; else at even distances. `timeout_s` is how
    long one waits before they leave. `max_tokens` and `prompt_words` are of each request.
    """

    model: str
    rps: float
    seconds: float
    kind: Literal["chat", "embed"] = "chat"
    max_tokens: int = 64
    prompt_words: int = 40
    seed: int = 0
    poisson: bool = True
    timeout_s: float = 60.0
    user: str | None = None

    def __post_init__(self) -> None:
        if not (self.rps > 0 and self.seconds > 0 and self.timeout_s > 0):
            raise ConfigError("rps, seconds and the timeout must be above 0")
        if self.max_tokens < 1 or self.prompt_words < 1:
            raise ConfigError("max_tokens and prompt_words must be at least 1")
        if self.rps * self.seconds > 1_000_000:
            raise ConfigError("that is more than a million requests; lower rps or seconds")


@dataclass(frozen=True, slots=True)
class Waited:
    """One request over. Times from when it was due, which is `due_s` after the start.

    `code` None: it went well; else why not. `late_ms` is how late it was sent.
    """

    due_s: float
    latency_ms: float
    code: str | None = None
    first_token_ms: float | None = None
    queue_ms: float | None = None
    late_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of a plan. Percentiles are of requests that went well; None: there was none."""

    plan: LoadPlan
    sent: int
    ok: int
    failed: int
    errors: dict[str, int]
    wall_s: float
    rps_achieved: float
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    first_token_p50_ms: float | None
    first_token_p95_ms: float | None
    first_token_p99_ms: float | None
    queue_p95_ms: float | None
    late_p99_ms: float | None
    """How late requests left this process; much of it means that the generator is too slow."""
    waits: tuple[Waited, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """All figures; without the single requests."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        del plain["waits"], plain["plan"]
        return asdict(self.plan) | plain


def arrivals(plan: LoadPlan) -> list[float]:
    """When each request is due, in seconds after the start, in order; all within `seconds`."""
    if not plan.poisson:
        return [n / plan.rps for n in range(math.ceil(plan.rps * plan.seconds - 1e-9))]
    chance = random.Random(plan.seed)  # noqa: S311 - load, not secrets
    due: list[float] = []
    at_s = chance.expovariate(plan.rps)
    while at_s < plan.seconds:
        due.append(at_s)
        at_s += chance.expovariate(plan.rps)
    return due


def prompt(plan: LoadPlan, number: int) -> str:
    """The text of the `number`-th request: its own, and the same in every run."""
    chance = random.Random(f"{plan.seed}/{number}")  # noqa: S311 - load, not secrets
    words = chance.choices(_WORDS, k=plan.prompt_words)
    return f"{number}: {' '.join(words)}"


def summary(plan: LoadPlan, waits: Sequence[Waited], wall_s: float) -> LoadReport:
    """The figures of a run."""
    well = [one for one in waits if one.code is None]
    latencies = sorted(one.latency_ms for one in well)
    firsts = sorted(one.first_token_ms for one in well if one.first_token_ms is not None)
    queued = sorted(one.queue_ms for one in well if one.queue_ms is not None)
    late = sorted(one.late_ms for one in waits)
    return LoadReport(
        plan=plan,
        sent=len(waits),
        ok=len(well),
        failed=len(waits) - len(well),
        errors=dict(Counter(one.code for one in waits if one.code is not None).most_common()),
        wall_s=round(wall_s, 3),
        rps_achieved=round(len(waits) / max(plan.seconds, 1e-9), 3),
        mean_ms=round(sum(latencies) / len(latencies), 3) if latencies else None,
        p50_ms=percentile(latencies, 0.50),
        p95_ms=percentile(latencies, 0.95),
        p99_ms=percentile(latencies, 0.99),
        max_ms=percentile(latencies, 1.0),
        first_token_p50_ms=percentile(firsts, 0.50),
        first_token_p95_ms=percentile(firsts, 0.95),
        first_token_p99_ms=percentile(firsts, 0.99),
        queue_p95_ms=percentile(queued, 0.95),
        late_p99_ms=percentile(late, 0.99),
        waits=tuple(sorted(waits, key=lambda one: one.due_s)),
    )


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not pass (as percentile_disc)."""
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)], 3)


def run_load(
    app: Celery,
    plan: LoadPlan,
    on_finish: Callable[[Waited], object] = lambda _: None,
    stop: threading.Event | None = None,
) -> LoadReport:
    """Send every request at its time, wait for all answers, and say what people waited.

    `on_finish` is told of each request as it ends, from the thread that waited for it. Setting
    `stop` ends the sending and the waiting; the report is of what was over by then.
    """
    senders = _Senders(app, plan, on_finish, stop or threading.Event())
    return senders.run()


class _Senders:
    """One run: a thread a request in flight, each with result connections of its own."""

    def __init__(
        self,
        app: Celery,
        plan: LoadPlan,
        on_finish: Callable[[Waited], object],
        stop: threading.Event,
    ) -> None:
        self._app = app
        self._plan = plan
        self._on_finish = on_finish
        self._stop = stop
        self._lock = threading.Lock()
        self._backends: list[Any] = []
        self._waits: list[Waited] = []
        self._started_s = 0.0
        self._started_at = 0.0

    def run(self) -> LoadReport:
        due = arrivals(self._plan)
        most = max(1, min(MOST_IN_FLIGHT, len(due)))
        pool = ThreadPoolExecutor(most, "giveway-load", initializer=self._join)
        try:
            self._warm_up()
            self._started_s, self._started_at = clock.monotonic_s(), clock.now().timestamp()
            for number, due_s in enumerate(due):
                if self._stop.wait(max(0.0, self._started_s + due_s - clock.monotonic_s())):
                    break
                pool.submit(self._request, number, due_s)
        except BaseException:
            self._stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=self._stop.is_set())
            for backend in self._backends:
                close_backend(backend)
        wall_s = clock.monotonic_s() - self._started_s
        return summary(self._plan, self._waits, wall_s)

    def _warm_up(self) -> None:
        """The first connection to the broker is not what people should wait for."""
        with suppress(Exception), self._app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=0, timeout=1)

    def _join(self) -> None:
        """Celery keeps a result backend a thread; they are closed when all is over."""
        with self._lock:
            self._backends.append(self._app.backend)

    def _request(self, number: int, due_s: float) -> None:
        late_s = clock.monotonic_s() - self._started_s - due_s
        if self._stop.is_set():
            return
        code: str | None = None
        reply: dict[str, Any] = {}
        try:
            reply = self._answer(number, due_s)
        except _Stopped:
            return
        except (NoResult, TaskRevokedError):
            code = "no_answer"
        except EndpointError as error:
            code = error.code
        except Exception as error:  # noqa: BLE001 - every way to fail is counted by its name
            code = type(error).__name__
        latency_s = clock.monotonic_s() - self._started_s - due_s
        late_ms = max(0.0, late_s * 1000)
        # The worker counts from when it got the message; the difference is the way there.
        way_ms = latency_s * 1000 - float(reply.get("total_ms") or 0.0)
        first, queued = reply.get("first_token_ms"), reply.get("queue_ms")
        waited = Waited(
            due_s=due_s,
            latency_ms=latency_s * 1000,
            code=code,
            first_token_ms=None if first is None else way_ms + float(first),
            queue_ms=None if queued is None else way_ms + float(queued),
            late_ms=late_ms,
        )
        with self._lock:
            self._waits.append(waited)
        self._on_finish(waited)

    def _answer(self, number: int, due_s: float) -> dict[str, Any]:
        plan = self._plan
        kwargs: dict[str, Any] = {"model": plan.model, "submitted_at": self._started_at + due_s}
        if plan.user is not None:
            kwargs["user"] = plan.user
        if plan.kind == "chat":
            kwargs |= {"prompt": prompt(plan, number), "max_tokens": plan.max_tokens}
        else:
            kwargs |= {"texts": [prompt(plan, number)]}
        result = self._app.send_task(
            f"giveway.interactive.{plan.kind}",
            kwargs=kwargs,
            argsrepr="()",
            kwargsrepr=facts(kwargs),
            priority=broker_priority(0, self._app.conf.broker_url),
            expires=plan.timeout_s,
            retry=False,
        )
        try:
            return self._result(result, self._started_s + due_s + plan.timeout_s)
        finally:
            with suppress(Exception):
                result.forget()

    def _result(self, result: Any, until_s: float) -> dict[str, Any]:
        """The reply. In short waits, so that stopping is heard and a lost notice is made good."""
        while True:
            left_s = until_s - clock.monotonic_s()
            try:
                reply: dict[str, Any] = result.get(timeout=max(0.001, min(_LOOK_S, left_s)))
            except NoResult:
                if self._stop.is_set():
                    raise _Stopped from None
                if left_s <= _LOOK_S:
                    raise
                continue
            return reply


class _Stopped(Exception):
    """The run was stopped while this request waited."""
