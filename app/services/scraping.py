"""What the endpoints say about themselves, asked in the background so that no tick waits for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from app import clock, errors
from app.domain.routing import HEALTHY, EndpointSpec
from app.domain.throttle.readings import Gauges
from app.inference.gauges import Gauges as Told
from app.inference.wires import Wires
from app.services.pools import Pool

_NO_PAGE_S = 60.0
"""An endpoint that tells nothing is asked again after so long."""
_SILENT_S = 5.0
"""So long at most until an endpoint that has told before is asked again."""
_UNASKED_S = 150.0
"""A thread that nobody has asked for so long ends; a tick takes a minute at most."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one endpoint told, and when (on the monotonic clock)."""

    told: Told
    at_s: float


class Scraping:
    """The newest gauges of each pool. Thread-safe; a process that was forked asks for itself."""

    def __init__(self, wires: Wires, every_s: float = 1.0, deadline_s: float = 0.5) -> None:
        self._wires = wires
        self._every_s = every_s
        self._deadline_s = deadline_s
        self._watches: dict[str, _Watch] = {}
        self._counted: dict[tuple[str, str], float] = {}
        self._guard = threading.Lock()

    def gauges(self, pool: Pool) -> Gauges | None:
        """What the endpoints of `pool` told last, put together; None: none has told anything.

        Returns at once. `age_s` is that of the oldest page used; pages past the pool's
        `gauges_stale_s` are used only where there is no younger one.
        """
        # By address: two entries may be one server, whose load must not count twice.
        specs = {spec.base_url: spec for spec in pool.endpoints if _is_asked(pool, spec)}
        self._leave({spec.base_url for spec in pool.endpoints} - specs.keys())
        pages = {url: self._page(spec) for url, spec in specs.items()}
        found = {url: page for url, page in pages.items() if page is not None}
        if not found:
            return None
        rising = [self._is_rising(pool.name, url, page.told) for url, page in found.items()]
        return merged(
            list(found.values()),
            clock.monotonic_s(),
            pool.policy.gauges_stale_s,
            preemptions_rising=any(rising),
        )

    def close(self) -> None:
        """End the threads; none of them makes another call."""
        with self._guard:
            watches = list(self._watches.values())
            self._watches.clear()
        for watch in watches:
            watch.stop()

    def _leave(self, urls: Set[str]) -> None:
        """Ask these no more: an endpoint whose breaker is open gets nothing but probes."""
        with self._guard:
            watches = [watch for url in urls if (watch := self._watches.pop(url, None)) is not None]
        for watch in watches:
            watch.stop()

    def _page(self, spec: EndpointSpec) -> Page | None:
        with self._guard:
            watch = self._watches.get(spec.base_url)
            if watch is None or not watch.is_running:
                before = None if watch is None else watch.page
                watch = _Watch(lambda: self._told(spec), self._every_s, before)
                self._watches[spec.base_url] = watch
            return watch.asked()

    def _told(self, spec: EndpointSpec) -> Told:
        return self._wires.of(spec).metrics(deadline_s=self._deadline_s)

    def _is_rising(self, pool: str, url: str, told: Told) -> bool:
        """Whether the count went up since the same pool was asked before."""
        if told.preemptions is None:
            return False
        with self._guard:
            before = self._counted.get((pool, url), told.preemptions)
            self._counted[pool, url] = told.preemptions
        return told.preemptions > before


def _is_asked(pool: Pool, spec: EndpointSpec) -> bool:
    return not pool.health.get(spec.name, HEALTHY).is_dead


class _Watch:
    """One thread that asks one endpoint again and again, as long as somebody wants to know."""

    def __init__(self, ask: Callable[[], Told], every_s: float, page: Page | None) -> None:
        self.page = page
        self._ask = ask
        self._every_s = every_s
        self._failures = 0
        self._wanted_s = clock.monotonic_s()
        self._stop = threading.Event()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="gauges", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """False in a forked child too: threads stay behind with the parent."""
        return self._thread.is_alive() and self._process == os.getpid()

    def asked(self) -> Page | None:
        """The newest page."""
        self._wanted_s = clock.monotonic_s()
        return self.page

    def stop(self) -> None:
        self._stop.set()
        if self.is_running:
            self._thread.join()

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stop.wait(pause_s):
            if clock.monotonic_s() - self._wanted_s > _UNASKED_S:
                return
            pause_s = self._once()

    def _once(self) -> float:
        """Ask; the seconds until it is worth asking again."""
        began_s = clock.monotonic_s()
        try:
            told = self._ask()
        except (errors.EndpointError, errors.ConfigError):
            self._failures += 1
            most_s = _NO_PAGE_S if self.page is None else _SILENT_S
            return float(min(most_s, self._every_s * 2**self._failures))
        if told == Told():
            return _NO_PAGE_S
        self._failures = 0
        # From when it was asked: the answer is no younger than that.
        self.page = Page(told, began_s)
        return max(0.0, self._every_s - (clock.monotonic_s() - began_s))


def merged(
    pages: Sequence[Page], now_s: float, stale_s: float, *, preemptions_rising: bool
) -> Gauges:
    """One pool's gauges: loads and capacities summed, of the KV use the worst."""
    fresh = [page for page in pages if now_s - page.at_s <= stale_s]
    used = fresh or [max(pages, key=lambda page: page.at_s)]
    told = [page.told for page in used]
    return Gauges(
        engine_waiting=_total([one.waiting for one in told]),
        engine_running=_total([one.running for one in told]),
        kv_usage=max(
            (one.kv_cache_use for one in told if one.kv_cache_use is not None), default=None
        ),
        preemptions_rising=preemptions_rising,
        kv_capacity_tokens=_total([one.kv_capacity_tokens for one in told]),
        age_s=max(0.0, now_s - min(page.at_s for page in used)),
    )


def _total(values: Sequence[float | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known)) if known else None
