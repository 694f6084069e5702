"""Takes the pictures of ``docs/console.md``: ``make pictures``.

Every page of the console in both themes, of a node in memory with some traffic.
"""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import sleep, time
from unittest.mock import patch

from mirroring_node import MirroringNode, furnished, mirroring_node
from stage import Stage, flight

from kpybroker.monitoring.console.page import ConsolePage
from kpybroker.monitoring.console.pages import PAGES
from kpybroker.monitoring.history import changes, recorder, samples
from kpybroker.monitoring.history.samples import FINE_MS, HistoryEvent, Rings, SampledLag, sample_of
from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.record import Record
from support.browser import Browser
from support.waiting import eventually

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "console"
WATCHED_S = 60
"""How long the node has traffic before the pictures, so that plots show something."""
HEIGHTS = {"/topics/{topic}": 1060, "/group": 1050, "/connections": 1150, "/": 860}


WIDTH = 1180
NOWHERE = "/topics/nowhere"
"""A topic that is not there, for the picture of a refusal."""


def name_of(page: ConsolePage) -> str:
    """The name of a page's picture."""
    return page.template.removesuffix(".html")


UNPICTURED = {"/tiers"}
"""The pages that only nodes with tiered storage have."""
PICTURED = [page for page in PAGES if page.template and page.path not in UNPICTURED]


def addresses(stage: Stage) -> dict[str, tuple[str, int]]:
    """The address and height of each picture, by name."""
    found = {name_of(page): (stage.address(page, page.path), HEIGHTS.get(page.path, 760)) for page in PICTURED}
    return {**found, "refused": (NOWHERE, 760)}


def open_all(browser: Browser) -> None:
    """Open the records, as the pictures show them."""
    browser.run("document.querySelectorAll('details.record').forEach((each) => { each.open = true; })")


SETTINGS = {"kpybroker_console_write_enable": "true", "log_segment_bytes": "1048576"}


@contextmanager
def pictured() -> Iterator[Stage]:
    """A node that looks like one of a cluster in use, and mirrors another one."""
    with TemporaryDirectory() as directory, mirroring_node(Path(directory), remembering(), **SETTINGS) as mirroring:
        stage = Stage(mirroring.node)
        mirror_orders(mirroring)
        furnish(stage)
        yield stage
        stage.close()


def mirror_orders(mirroring: MirroringNode) -> None:
    """Mirror topics of which the source has lost one."""
    furnished(mirroring)
    source = mirroring.source
    source.create("orders-2025")
    source.produce("orders-2025", [Record(timestamp=1_000, value=b"v")] * 5)
    eventually(lambda: mirroring.has("orders-2025", 5), "the mirror has all", 60)
    with source.client as client:
        client.call(DeleteTopicsRequest(topic_names=["orders-2025"], timeout_ms=10_000), 5)
    eventually(lambda: mirroring.node.get("/api/mirrors").json["partitions"], "the page knows that it is gone")


def furnish(stage: Stage) -> None:
    """Add what makes the pictures look like those of a cluster in use."""
    for topic in ("airports", "bookings", "weather"):
        stage.node.create(topic, 3)
        stage.node.produce(topic, [Record(timestamp=int(time() * 1000), value=b"%d" % n) for n in range(50)])
    assert stage.node.post("/topics/flights/configs", name="retention.ms", value="3 days").status == 200
    stage.queries["/group"] = "id=joined"
    stage.node.limit("producer_byte_rate", 10e6)
    stage.node.limit("request_percentage", 80.0)


def traffic(stage: Stage, stop: threading.Event) -> None:
    """Produce and read until it is time to stop."""
    node, offset, number = stage.node, 20, 0
    while not stop.wait(0.05):
        number += 1
        for _ in range(1 + number // 40 % 4):
            node.produce("flights", [flight(n)._replace(timestamp=int(time() * 1000)) for n in range(30)])
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 12)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic="flights", partitions=[wanted])],
            forgotten_topics_data=[],
        )
        with node.client as client:
            client.call(request, 12)
        offset += 30
        if number % 20 == 0:
            node.commit("joined", "flights", offset, stage.member, 1)
            node.get("/api/group", id="joined")
            node.get("/api/groups")


def past() -> Rings:
    """An hour and a half in which a node was away, and a group fell behind and caught up."""
    rng, rings, before, lag = Random(1), Rings(), None, 0.0
    until_ms = int(time() * 1000) // FINE_MS * FINE_MS
    for number in range(540, 0, -1):
        wave = 1.4 + math.sin(number / 80) + 0.15 * rng.random()
        is_away = 200 < number < 260
        lag = lag + 400 if is_away else max(0.0, lag - 600)
        values = {
            samples.BYTES_IN: 40_000 * wave,
            samples.BYTES_OUT: 36_000 * wave * (0.4 if is_away else 1),
            samples.RECORDS_IN: 500 * wave,
            samples.REQUESTS: 30 * wave,
            samples.PRODUCE_P50: 0.3,
            samples.PRODUCE_P99: 6 + 5 * rng.random(),
            samples.FETCH_P50: 0.1,
            samples.FETCH_P99: 2 + rng.random(),
            samples.WAIT_P50: 110 + 20 * rng.random(),
            samples.WAIT_P99: 480 + 20 * rng.random(),
            samples.LATE: 40 + 10 * rng.random(),
            samples.LONGEST: 30 + 20 * rng.expovariate(1),
            samples.COLLECTOR: 0.4 + 0.2 * rng.random(),
            samples.UNDER_REPLICATED: 6.0 if is_away else 0.0,
            samples.WITHOUT_LEADER: 0.0,
        }
        before = sample_of(until_ms - number * FINE_MS, values, {"joined": SampledLag(lag, lag / 700)}, before)
        rings.add(before)
    for number, what, subject, moved, detail in (
        (260, changes.GONE, "2", 1, ""),
        (260, changes.LED, "flights-1", 6, "1 2"),
        (200, changes.BACK, "2", 1, ""),
        (120, changes.CONFIG, "topic flights", 1, "retention.ms"),
    ):
        rings.note(HistoryEvent(until_ms - number * FINE_MS, what, subject, moved, detail))
    return rings


@contextmanager
def remembering() -> Iterator[None]:
    """Within this, a node remembers the time before its start."""
    with patch.object(recorder, "Rings", side_effect=[Rings(), past()]):
        yield


def main() -> None:
    """Take all pictures."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    with pictured() as stage, TemporaryDirectory() as profile:
        node = stage.node
        node.get("/")
        stop = threading.Event()
        thread = threading.Thread(target=traffic, args=(stage, stop))
        thread.start()
        sleep(WATCHED_S)
        with Browser(Path(profile)) as browser:
            for name, (path, height) in addresses(stage).items():
                for theme in ("light", "dark"):
                    browser.open(
                        f"http://127.0.0.1:{node.node.http_port}{path}", theme=theme, width=WIDTH, height=height
                    )
                    open_all(browser)
                    (FIGURES / f"{name}-{theme}.png").write_bytes(browser.picture())
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
