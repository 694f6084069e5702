"""A node in a thread of the test, in memory, with a clock that can be moved and its metrics parsed."""

import asyncio
import gzip
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kpybroker.config.broker import BrokerConfig
from kpybroker.node.node import Node
from kpybroker.requests.dispatching.served import Intercept
from kpybroker.testing.clock import ControlledScheduler
from kpystorage.memory_disk import MemoryDisk
from kpywire import error_codes
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from release.documents.metrics import SECTIONS
from support.group_requests import joining
from support.raw_client import RawClient
from support.raw_requests import append, batch_of, create, metadata, produce
from support.waiting import eventually

NO_SESSION, NEW_SESSION = -1, 0
SPARK_READER = "spark-kafka-source-0123-executor"
Series = dict[tuple[tuple[str, str], ...], float]


class Scrape:
    """The samples of one scrape, by name."""

    def __init__(self, text: str) -> None:
        self.samples: dict[str, Series] = {}
        self.types: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.types, f"the lines of {name} are not together"
                self.types[name] = kind
            elif not line.startswith("#"):
                # One line at a time, since the library adds _total to counters whose names lack it.
                ((sample,),) = [family.samples for family in text_string_to_metric_families(line + "\n")]
                assert list(self.types)[-1] == sample.name, f"{line} stands somewhere else"
                series = self.samples.setdefault(sample.name, {})
                labels = tuple(sorted(sample.labels.items()))
                assert labels not in series, f"{sample.name}{labels} comes twice"
                series[labels] = sample.value

    def value(self, name: str, **labels: str) -> float:
        """The value of the one series that has exactly these labels."""
        return self.samples[name][tuple(sorted(labels.items()))]

    def labelled(self, name: str, label: str) -> dict[str, float]:
        """The values of a name by one label."""
        return {dict(labels).get(label, ""): value for labels, value in self.samples.get(name, {}).items()}


class ScrapedNode:
    """Starts in the constructor; `stop` ends it."""

    def __init__(self, settings: dict[str, str], intercept: Intercept | None = None) -> None:
        base = {
            "log.dirs": "/data",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "kpybroker.http.listener": "127.0.0.1:0",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "connections.max.idle.ms": "-1",
        }
        self.loop = asyncio.new_event_loop()
        self.scheduler = ControlledScheduler(self.loop)
        config = BrokerConfig.load(None, {**base, **settings})
        self.node = Node(config, self.loop, print, scheduler=self.scheduler, intercept=intercept)
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        try:
            self.run(self.node.start(MemoryDisk()))
        except BaseException:
            self.stop()
            raise
        self.port = self.node.ports["PLAINTEXT"]

    def run(self, coroutine: Any) -> Any:
        """On the node's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def call(self, function: Callable[[], Any]) -> Any:
        """On the node's loop."""

        async def run() -> Any:
            return function()

        return self.run(run())

    def advance(self, delta_ms: float) -> None:
        """Let time pass."""
        self.run(self.scheduler.advance(delta_ms))

    def get(self, path: str, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
        """One request to the second port; the response is not read yet."""
        assert self.node.http_port is not None
        connection = http.client.HTTPConnection("127.0.0.1", self.node.http_port, timeout=60)
        connection.request("GET", path, headers=headers or {})
        return connection.getresponse()

    def scrape(self, *, compressed: bool = False) -> Scrape:
        """Everything it shows now."""
        response = self.get("/metrics", {"Accept-Encoding": "gzip"} if compressed else {})
        body = response.read()
        assert response.status == 200
        assert (response.getheader("Content-Encoding") == "gzip") is compressed
        return Scrape((gzip.decompress(body) if compressed else body).decode())

    def stop(self) -> None:
        self.run(self.node.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)
        self.loop.close()


def documented_names() -> set[str]:
    """Every name of a metric in docs/metrics.md."""
    measures = [each for _, tables in SECTIONS for table in tables for each in table.measures]
    return {name.text for each in measures for name in each.names.values()}


def fetch_of(
    topic: str, offset: int, *, wait_ms: int = 0, session_epoch: int = NO_SESSION, max_bytes: int = 1 << 20
) -> FetchRequest:
    """A fetch of partition 0, for version 12."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
    )


def commit(client: RawClient, group: str, topic: str, offset: int) -> None:
    """For partition 0, as somebody who is no member; makes the coordinator's topic where there is none yet."""
    client.call(FindCoordinatorRequest(key=group, key_type=0), 3)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])])
    eventually(
        lambda: client.call(request, 2).topics[0].partitions[0].error_code == error_codes.NONE,
        f"a commit of {group}",
    )


@contextmanager
def scraped_node(**settings: str) -> Iterator[ScrapedNode]:
    """A node with these settings, ``_`` for ``.``."""
    node = ScrapedNode({name.replace("_", "."): value for name, value in settings.items()})
    try:
        yield node
    finally:
        node.stop()


@contextmanager
def busy_node() -> Iterator[ScrapedNode]:
    """A node as it is without configuration, with a group, a reader as Spark makes one, and an error."""
    with (
        scraped_node() as node,
        RawClient(node.port, client_id=f"consumer-{SPARK_READER}-1") as spark,
        RawClient(node.port, client_id="kpybroker-scan") as scan,
    ):
        create(spark, "flights", 1)
        append(spark, "flights", 1_000, 2_000)
        produce(spark, "nowhere", batch_of(1))
        spark.call(metadata("flights"), 12)
        commit(spark, "readers", "flights", 1)
        assert scan.call(joining("team", version=3), 3).generation_id == 1
        for client in (spark, scan):
            client.call(fetch_of("flights", 1, session_epoch=NEW_SESSION), 12)
        yield node
