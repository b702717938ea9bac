"""The demo's course: a stack in a folder of its own, three legs with the same people, a search."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app import clock
from app.domain.jobs import OPEN
from app.domain.load import LoadPlan, LoadReport, Waited, arrivals
from app.local.demo import config
from app.local.demo.measured import ALONE, THROTTLED, UNTHROTTLED, Answer, Leg, Measured, Sample
from app.services.items import SourceItems
from app.services.submission import JobRequest
from app.storage.sources.base import ReadOptions
from app.storage.sources.file_origin import FilePlace
from app.worker.load import run_load

if TYPE_CHECKING:
    from celery import Celery

    from app.local.state import StackState
    from app.services.inspection import JobView, PoolView
    from app.wiring import Wiring

CORPUS, COLLECTION = "docstrings.jsonl", "python"
QUERIES = (
    "how do I read a compressed file",
    "wait until several threads have all arrived",
    "turn a date into text",
)
RPS, MAX_TOKENS, PROMPT_WORDS, SEED = 5.0, 8, 24, 7
_HITS = 3
_CHUNKS_A_PLACE = 4
_LOOK_S = 0.25
_LONGEST_LEG_S = 300.0
_WARM_UP_S = 2.0
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How much of it: seconds of people alone, and every how manieth docstring is embedded."""

    alone_s: float = 6.0
    every: int = 2


@dataclass(frozen=True, slots=True)
class Seen:
    """What the view is shown: the leg, the pool, the job (none while people are alone)."""

    leg: str
    pool: PoolView
    job: JobView | None


Show = Callable[[Seen], None]


def start_stack(data: Path) -> StackState:
    """The embedded stack on `data`, with the demo's own settings and nobody else's."""
    from app.local import background, ports
    from app.local.options import SIMULATED, StackOptions

    for name in [name for name in os.environ if name.startswith("GIVEWAY_")]:
        del os.environ[name]  # The demo must not run on somebody's real database.
    port = ports.choose(data, SIMULATED)
    file = data / "giveway.toml"
    file.write_text(config.config_toml(port), encoding="utf-8")
    options = StackOptions(
        data=data, config=file, endpoint_port=port, simulate=True, endpoint_speed=config.SPEED
    )
    return background.start(options)


@contextmanager
def _in_background(
    act: Callable[[], LoadReport], stop: threading.Event
) -> Iterator[Future[LoadReport]]:
    """`act` in a thread; told to stop, and waited for, whatever happens here."""
    with ThreadPoolExecutor(1, "giveway-demo") as pool:
        try:
            yield pool.submit(act)
        finally:
            stop.set()


class Course:
    """The legs, on a running stack. Times are in seconds since it was made."""

    def __init__(self, wiring: Wiring, celery: Celery, corpus: Path, show: Show) -> None:
        self._wiring = wiring
        self._celery = celery
        self._corpus = corpus
        self._show = show
        self._began_s = clock.monotonic_s()

    def run(self, pace: Pace, say_leg: Callable[[Leg], None]) -> Measured:
        """All of it. `say_leg` is told of each leg that is over."""
        for pool in (config.GIVEWAY, config.UNTHROTTLED):
            run_load(self._celery, replace(_people(pool, _WARM_UP_S), seed=SEED + 1))
        legs: list[Leg] = []
        acts: tuple[Callable[[], Leg], ...] = (
            partial(self._alone, pace.alone_s),
            partial(self._with_backfill, UNTHROTTLED, config.UNTHROTTLED),
            partial(self._with_backfill, THROTTLED, config.GIVEWAY),
        )
        for act in acts:
            leg = act()
            legs.append(leg)
            say_leg(leg)
        return Measured(
            target_ms=config.TARGET_P95_MS,
            legs=tuple(legs),
            searches=tuple((query, self._search(query)) for query in QUERIES),
            machine=_machine(),
            load={
                "rps": RPS,
                "max_tokens": MAX_TOKENS,
                "seed": SEED,
                "places": config.PLACES,
                "speed": config.SPEED,
            },
        )

    def _alone(self, seconds: float) -> Leg:
        plan, stop = _people(config.GIVEWAY, seconds), threading.Event()
        samples = []
        began_s = self._now_s()
        with _in_background(partial(run_load, self._celery, plan, stop=stop), stop) as load:
            while not load.done():
                samples.append(self._sample(ALONE, config.GIVEWAY, None))
                threading.Event().wait(_LOOK_S)
        answers = _answers(load.result(), began_s, seconds)
        return Leg(ALONE, began_s, self._now_s(), answers, tuple(samples))

    def _with_backfill(self, name: str, pool: str) -> Leg:
        """People come until the backfill is over; those who came before that are counted, all."""
        plan, stop = _people(pool, _LONGEST_LEG_S), threading.Event()
        finished: list[Waited] = []  # Appending is atomic.

        samples: list[Sample] = []
        began_s = self._now_s()
        act = partial(run_load, self._celery, plan, finished.append, stop)
        with _in_background(act, stop) as load:
            job = self._followed(name, pool, self._submit(name, pool), samples)
            over_s = self._now_s()
            came = sum(due_s <= over_s - began_s for due_s in arrivals(plan))
            while self._now_s() < over_s + _PATIENCE_S and not load.done():
                if sum(one.due_s <= over_s - began_s for one in tuple(finished)) >= came:
                    break
                threading.Event().wait(0.05)
        return Leg(
            name=name,
            began_s=began_s,
            ended_s=over_s,
            answers=_answers(load.result(), began_s, over_s - began_s),
            samples=tuple(samples),
            total=job.progress.total,
            done=job.progress.done,
            failed_items=job.progress.failed,
            backfill_s=over_s - began_s,
        )

    def _submit(self, name: str, pool: str) -> str:
        options = ReadOptions(id_field="id", text_field="text", format="jsonl")
        items = SourceItems(FilePlace(self._corpus, self._corpus.name), options)
        collection = COLLECTION if pool == config.GIVEWAY else f"{COLLECTION}-{pool}"
        params = {"model": config.EMBED[pool], "collection": collection, "prefix": ""}
        lines = self._corpus.read_bytes().count(b"\n")
        chunk_items = max(1, -(-lines // (_CHUNKS_A_PLACE * (config.PLACES - 1))))
        key = f"docstrings-{name}"
        request = JobRequest(kind="embed", params=params, key=key, chunk_items=chunk_items)
        job = self._wiring.submission.submit(request, items).job
        self._wiring.ringing.ring(pool)
        return job.key

    def _followed(self, name: str, pool: str, key: str, samples: list[Sample]) -> JobView:
        """The job when it has ended."""
        while True:
            samples.append(self._sample(name, pool, key))
            view = self._wiring.inspection.job(key)
            if view.job.state not in OPEN:
                return view
            threading.Event().wait(_LOOK_S)

    def _sample(self, name: str, pool: str, key: str | None) -> Sample:
        view = self._wiring.inspection.pool(pool)
        job = self._wiring.inspection.job(key) if key else None
        self._show(Seen(name, view, job))
        return Sample(
            at_s=self._now_s(),
            p95_ms=view.reading.p95_ms,
            limit=view.limit,
            in_flight=view.batch_in_flight,
            reason=str(view.reason),
            done=job.progress.done if job else 0,
            total=job.progress.total if job else 0,
        )

    def _search(self, query: str) -> tuple[tuple[str, float, str | None], ...]:
        hits = self._wiring.searching.search(COLLECTION, query, _HITS)
        return tuple((hit.key, hit.score, hit.text) for hit in hits)

    def _now_s(self) -> float:
        return clock.monotonic_s() - self._began_s


def _people(pool: str, seconds: float) -> LoadPlan:
    """The same people in each leg: same moments, same questions."""
    return LoadPlan(
        model=config.CHAT[pool],
        rps=RPS,
        seconds=seconds,
        max_tokens=MAX_TOKENS,
        prompt_words=PROMPT_WORDS,
        seed=SEED,
        user="demo",
    )


def _answers(report: LoadReport, began_s: float, within_s: float) -> tuple[Answer, ...]:
    return tuple(
        Answer(began_s + one.due_s, one.latency_ms if one.code is None else None)
        for one in report.waits
        if one.due_s <= within_s
    )


def _machine() -> dict[str, str | int | None]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "python": platform.python_version(),
    }
