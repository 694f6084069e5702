"""Takes the pictures of ``docs/console.md``: ``make pictures``.

Every page of the console in both themes, of a node in memory with some traffic.
"""

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep, time

from console_node import console_node
from stage import Stage, flight

from kpybroker.monitoring.console.page import ConsolePage
from kpybroker.monitoring.console.pages import PAGES
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.record import Record
from support.browser import Browser

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


def addresses(stage: Stage) -> dict[str, tuple[str, int]]:
    """The address and height of each picture, by name."""
    found = {
        name_of(page): (stage.address(page, page.path), HEIGHTS.get(page.path, 760)) for page in PAGES if page.template
    }
    return {**found, "refused": (NOWHERE, 760)}


def open_all(browser: Browser) -> None:
    """Open the records, as the pictures show them."""
    browser.run("document.querySelectorAll('details.record').forEach((each) => { each.open = true; })")


SETTINGS = {"kpybroker_console_write_enable": "true", "log_segment_bytes": "1048576"}


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
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
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


def main() -> None:
    """Take all pictures."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    with console_node(**SETTINGS) as node, TemporaryDirectory() as profile:
        stage = Stage(node)
        furnish(stage)
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
        stage.close()


if __name__ == "__main__":
    main()
