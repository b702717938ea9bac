"""Gauges of real endpoints: read in the background, aged, and never waited for."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from app.domain.inference import ChatRequest, Message
from app.domain.routing import EndpointSpec
from app.domain.throttle.policies.budget import OPTIONS, Light, signal
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import Bounds, PolicySettings
from app.inference.wires import Wires
from app.services.pools import Pool
from app.services.scraping import Scraping
from tests.rig import MakeRig
from tests.served import Served, serving
from tests.waiting import until

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = (
    'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_waiting{engine="0"} 2\n'
    "vllm:kv_cache_usage_perc 0.4\nvllm:num_preemptions_total 7\n"
    'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1\n'
)


def a_pool(*urls: str, stale_s: float = 5.0) -> Pool:
    specs = tuple(
        EndpointSpec(f"e{number}", "main", "vllm", url, ("fake-chat",), 8)
        for number, url in enumerate(urls)
    )
    return Pool(Bounds(8, pool="main"), PolicySettings(gauges_stale_s=stale_s), specs)


@pytest.fixture
def scraping_every() -> Iterator[Callable[..., Scraping]]:
    """Makes scrapings that end with the test."""
    with contextlib.ExitStack() as stack:

        def made(every_s: float = 0.05, deadline_s: float = 0.5) -> Scraping:
            wires = Wires()
            stack.callback(wires.close)
            one = Scraping(wires, every_s, deadline_s)
            stack.callback(one.close)
            return one

        yield made


class Scripted:
    """A raw server whose answer to the next GET is `page`; None: it hangs, "": it is not found."""

    def __init__(self, stack: contextlib.ExitStack, page: str | None) -> None:
        self.page = page
        self.asked = self.left = 0
        self._over = threading.Event()
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        stack.callback(self._end)
        threading.Thread(target=self._accept, daemon=True).start()

    def _end(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            self.asked += 1
            page = self.page
            if page is None:
                self._over.wait(60)
                self.left += 1
                return
            status = "200 OK" if page else "404 Not Found"
            head = f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {len(page)}\r\n\r\n"
            connection.sendall((head + page).encode())


@pytest.fixture
def scripted() -> Iterator[Callable[[str | None], Scripted]]:
    with contextlib.ExitStack() as stack:
        yield lambda page: Scripted(stack, page)


def told(
    scraping: Scraping, pool: Pool, right: Callable[[Gauges], bool] = lambda _: True
) -> Gauges:
    """The first gauges that are `right`."""

    def found() -> Gauges | None:
        gauges = scraping.gauges(pool)
        return gauges if gauges is not None and right(gauges) else None

    gauges = until(found, 5, "what is right", every_s=0.01)
    assert gauges is not None
    return gauges


def test_the_load_of_a_real_endpoint_is_seen(scraping_every):
    with serving("--places", "2") as server, contextlib.ExitStack() as stack:
        wires = Wires()
        stack.callback(wires.close)
        pool = a_pool(server.url)
        scraping = scraping_every()
        wire = wires.of(pool.endpoints[0])
        asked = ChatRequest("fake-chat", (Message("user", "word " * 60),), max_tokens=50)
        threads = [
            threading.Thread(target=wire.chat, args=(asked,), kwargs={"deadline_s": 20})
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        busy = told(scraping, pool, lambda g: bool(g.engine_waiting and g.kv_usage))
        for thread in threads:
            thread.join()
        told(scraping, pool, lambda g: g.engine_running == 0 and g.age_s < 0.5)

    assert (busy.engine_running, busy.engine_waiting) == (2, 1)
    assert 0 < busy.kv_usage < 0.01
    assert busy.kv_capacity_tokens == 140_000


def test_preemptions_of_a_real_endpoint_are_seen_to_rise_and_to_stop(scraping_every):
    with serving("--kv-tokens", "256", "--step-tokens", "128", "--speed", "4") as server:
        pool, scraping = a_pool(server.url), scraping_every()
        assert not told(scraping, pool).preemptions_rising
        wires = Wires()
        wire = wires.of(pool.endpoints[0])
        asked = ChatRequest("fake-chat", (Message("user", "word " * 60),), max_tokens=60)
        threads = [
            threading.Thread(target=wire.chat, args=(asked,), kwargs={"deadline_s": 20})
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        rising = told(scraping, pool, lambda g: g.preemptions_rising)
        for thread in threads:
            thread.join()
        wires.close()
        over = told(scraping, pool, lambda g: g.engine_running == 0 and not g.preemptions_rising)

    assert rising.kv_capacity_tokens == over.kv_capacity_tokens == 256


def test_two_endpoints_of_a_pool_are_summed_and_the_fuller_memory_counts(scripted, scraping_every):
    other = PAGE.replace("perc 0.4", "perc 0.7").replace('running{engine="0"} 3', "running 5")
    pool, scraping = a_pool(scripted(PAGE).url, scripted(other).url), scraping_every()

    gauges = told(scraping, pool, lambda g: g.engine_running == 8)

    assert (gauges.engine_waiting, gauges.kv_usage) == (4, 0.7)
    assert gauges.kv_capacity_tokens == 2 * 1600


def test_one_server_behind_two_names_counts_once(scripted, scraping_every):
    url = scripted(PAGE).url
    pool, scraping = a_pool(url, url), scraping_every()

    assert told(scraping, pool).engine_running == 3


def test_preemptions_rise_once_for_each_pool_that_asks(scripted, scraping_every):
    server, scraping = scripted(PAGE), scraping_every()
    pool = a_pool(server.url)
    assert not told(scraping, pool).preemptions_rising

    server.page = PAGE.replace("total 7", "total 9")
    assert told(scraping, pool, lambda g: g.preemptions_rising).engine_running == 3
    assert not scraping.gauges(pool).preemptions_rising

    server.page = PAGE.replace("total 7", "total 0")  # It was started anew.
    asked = server.asked
    until(lambda: server.asked >= asked + 3, 5, "the page and one more")
    assert not scraping.gauges(pool).preemptions_rising


def test_an_endpoint_without_the_page_is_left_alone(scripted, scraping_every):
    missing, other = scripted(""), scripted("<html>hello</html>")
    scraping = scraping_every(every_s=0.02)
    pool = a_pool(missing.url, other.url)
    for _ in range(40):
        assert scraping.gauges(pool) is None
        time.sleep(0.01)

    assert (missing.asked, other.asked) == (1, 1)


def test_gauges_that_stop_are_aged_out(scripted, scraping_every):
    server, scraping = scripted(PAGE.replace("perc 0.4", "perc 0.95")), scraping_every()
    pool = a_pool(server.url, stale_s=0.4)
    fresh = told(scraping, pool)
    server.page = None
    old = told(scraping, pool, lambda g: g.age_s > 0.4)

    def light(gauges: Gauges) -> Light:
        reading = Reading(computed_at=BEGAN, gauges=gauges)
        return signal(reading, pool.policy, OPTIONS).light

    assert (light(fresh), light(old)) == (Light.RED, Light.GREEN)


def test_a_dead_endpoint_does_not_age_the_others(scripted, scraping_every):
    dead, alive = scripted(PAGE), scripted(PAGE)
    scraping = scraping_every(deadline_s=0.1)
    pool = a_pool(dead.url, alive.url, stale_s=0.3)
    told(scraping, pool, lambda g: g.engine_running == 6)
    dead.page = None

    left = told(scraping, pool, lambda g: g.engine_running == 3)
    assert left.age_s <= 0.3


def test_a_hanging_page_never_delays_a_tick(rig: MakeRig, endpoint: Served, scripted):
    hanging = scripted(None)
    entry = {"name": "hung", "base_url": hanging.url, "models": ["fake-chat"]}
    one = rig(endpoints=[entry], throttle={"tick_s": 0.2, "valid_for_s": 5})
    one.wiring.scraping._deadline_s = 120.0
    throttling = one.wiring.throttling
    assert throttling.tick("main") is not None
    until(lambda: hanging.asked, 5, "a look at the page")

    asking = [one.wiring.scraping.gauges(one.wiring.pools.named("main")) for _ in range(100)]
    assert asking == [None] * 100
    # A tick that comes too early is passed over.
    one.execute("UPDATE throttle_limits SET computed_at = computed_at - interval '1 s'")
    assert throttling.tick("main") is not None
    assert hanging.left == 0, "all this while the first look still waits"


def test_a_decision_holds_what_the_endpoint_said(rig: MakeRig):
    one = rig(throttle={"tick_s": 0.2, "valid_for_s": 5})
    pool = one.wiring.pools.named("main")
    told(one.wiring.scraping, pool)
    one.wiring.throttling.tick("main")

    (row,) = one.wiring.inspection.decisions("main", 1, None)
    gauges = row["arguments"]["reading"]["gauges"]
    assert gauges["kv_capacity_tokens"] == 140_000
    assert gauges["age_s"] < 2
