"""The loop is late: it is noticed, told, and blamed on somebody."""

import asyncio
import gc
import logging
import re
import time
from typing import Any

import pytest
from scraped_node import ScrapedNode

from kpybroker.monitoring.metrics.loop_watch import EVERY_MS, LoopWatch
from kpybroker.monitoring.metrics.window import quantiles_ms
from kpybroker.requests.dispatching.dispatcher import SLOW_NS
from kpybroker.requests.server.complaints import Complaints
from kpybroker.runtime.counters import UNCOUNTED, ApiCounters
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.raw_client import RawClient
from support.waiting import eventually, until

BLOCKED_MS = 300
FETCH, METADATA = 1, 3


class Served:
    """A dispatcher as the watch sees it."""

    def __init__(self) -> None:
        self.slow_ns, self.slowest = SLOW_NS, None
        self.counters = {METADATA: ApiCounters()}


class Pieces:
    """A line of pieces as the watch sees it."""

    def __init__(self, slow_ns: int = 0, slowest: Any = None) -> None:
        self.slow_ns, self.slowest = slow_ns, slowest


class Sender:
    """A connection as the watch sees it."""

    def __init__(self, counters: ApiCounters) -> None:
        self.counters = counters

    def __str__(self) -> str:
        return "10.0.0.8:5000"


async def watched(
    blocked_ms: int, dispatcher: Any, *, warn_ms: int, collect: bool = False, line: Any = None
) -> LoopWatch:
    """A watch over a loop that is blocked once."""
    loop = asyncio.get_running_loop()
    watch = LoopWatch(loop, Complaints(ManualScheduler()), [dispatcher], line or Pieces(), warn_ms)
    watch.start()
    try:
        if collect:
            gc.collect()
        time.sleep(blocked_ms / 1000)  # noqa: ASYNC251 - blocking the loop is what this is about
        await until(lambda: sum(watch.lateness) >= 2)
    finally:
        watch.stop()
    return watch


def test_a_blocked_loop_is_logged_with_the_request_it_served(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kpybroker.loop")
    dispatcher: Any = Served()
    dispatcher.slow_ns, dispatcher.slowest = 290_000_000, (FETCH, "10.0.0.7:5000")
    watch = asyncio.run(watched(BLOCKED_MS, dispatcher, warn_ms=100))
    (line,) = caplog.messages
    assert line.startswith("the event loop stood still for ")
    assert "Fetch of 10.0.0.7:5000 took 290 ms of it" in line
    assert dispatcher.slowest is None, "the next one is somebody else's fault"
    # At least what the timer was late by, less what half an octave may lose.
    assert quantiles_ms(watch.lateness)[-1] >= (BLOCKED_MS - EVERY_MS) / 1.5
    assert watch.late_ns >= (BLOCKED_MS - EVERY_MS) * 1_000_000


def test_a_block_without_a_request_is_logged_as_such(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kpybroker.loop")
    asyncio.run(watched(BLOCKED_MS, Served(), warn_ms=100))
    assert caplog.messages[0].endswith("ms, not for a request")


def test_a_request_that_is_worked_on_in_pieces_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kpybroker.loop")
    dispatcher = Served()
    causes = {
        "Metadata of 10.0.0.8:5000": Sender(dispatcher.counters[METADATA]),
        "a login of 10.0.0.8:5000": Sender(UNCOUNTED),
        "work of the node itself": None,
    }
    for cause, slowest in causes.items():
        line = Pieces(280_000_000, slowest)
        asyncio.run(watched(BLOCKED_MS, dispatcher, warn_ms=100, line=line))
        assert f"{cause} took 280 ms of it" in caplog.messages[-1]
        assert line.slow_ns == 0, "the next one has another cause"


def test_without_a_threshold_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kpybroker.loop")
    watch = asyncio.run(watched(BLOCKED_MS, Served(), warn_ms=0))
    assert watch.late_ns > 0
    assert caplog.messages == []


def test_pauses_of_the_collector_are_counted_until_the_watch_ends() -> None:
    before = list(gc.callbacks)
    watch = asyncio.run(watched(0, Served(), warn_ms=0, collect=True))
    assert sum(watch.gc_pauses) >= 1
    assert watch.gc_ns > 0
    assert gc.callbacks == before
    counted = sum(watch.gc_pauses)
    gc.collect()
    assert sum(watch.gc_pauses) == counted


def test_a_large_request_with_a_long_step_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """It is worked on in steps; one of them takes long."""
    caplog.set_level(logging.WARNING, "kpybroker.loop")

    def slow(api_key: int, handle: Any) -> Any:
        def handle_slowly(*arguments: Any) -> Any:
            until = time.thread_time() + BLOCKED_MS / 1000
            while time.thread_time() < until:
                sum(range(1000))
            return handle(*arguments)

        return handle_slowly if api_key == METADATA else handle

    node = ScrapedNode({"kpybroker.loop.lag.warn.ms": "100"}, intercept=slow)
    try:
        with RawClient(node.port) as client:
            client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 10_000), 12)
        named = re.compile(r"stood still.*Metadata of 127\.0\.0\.1:")
        eventually(
            lambda: any(map(named.search, list(caplog.messages))), lambda: f"a warning, beside {caplog.messages}"
        )
    finally:
        node.stop()


def test_a_request_that_takes_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kpybroker.loop")

    def slow(api_key: int, handle: Any) -> Any:
        def handle_slowly(*arguments: Any) -> Any:
            time.sleep(BLOCKED_MS / 1000)
            return handle(*arguments)

        return handle_slowly if api_key == METADATA else handle

    settings = {"kpybroker.loop.lag.warn.ms": "100"}
    node = ScrapedNode(settings, intercept=slow)
    try:
        with RawClient(node.port) as client:
            client.call(MetadataRequest(topics=[]), 12)
        named = re.compile(r"stood still.*Metadata of 127\.0\.0\.1:")
        eventually(
            lambda: any(map(named.search, list(caplog.messages))), lambda: f"a warning, beside {caplog.messages}"
        )
    finally:
        node.stop()
