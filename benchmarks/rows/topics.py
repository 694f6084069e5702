"""Thousands of topics or partitions on the broker that plays all rows: created, described, described, left alone."""

import time

from benchmarks.figures import Figure
from benchmarks.raw import frames, load, many
from benchmarks.raw.asking import Conversation
from benchmarks.rows.everywhere import create, delete, named, until, write_everywhere
from benchmarks.rows.row import Effort, Meter, Row
from benchmarks.sides import Side

VISIBLE = Figure("all visible", "ms", False)
WRITABLE = Figure("the last written to", "ms", False)
WRITTEN = Figure("all written to", "ms", False)
CREATE_CPU = Figure("broker CPU", "ms", False)
GROWN_RSS = Figure("RSS growth", "MB", False)
METADATA_P50 = Figure("list (Metadata of all), p50", "ms", False)
METADATA_CPU = Figure("list, broker CPU", "ms", False)
ONE_P50 = Figure("Metadata of one, p50", "µs", False)
DESCRIBE_P50 = Figure("DescribeTopicPartitions, a page, p50", "ms", False)
IDLE_CPU = Figure("broker CPU idle", "ms/s", False)
SETTLE_S = 3.0
DELETED_EVERY_S = 0.2
IDLE_S = 3.0
METADATA_THROTTLE = 4 + 1
DESCRIBE_THROTTLE = 4 + 1
"""In an answer after its size prefix: two bytes that are 0 in every good one."""


def creation_ms(side: Side, conversation: Conversation, topics: dict[str, int]) -> dict[str, float]:
    """From the request until Metadata have all, until the last topic takes a batch, until every partition has one."""
    meter = Meter(side)
    began = time.perf_counter()
    create(conversation, topics)

    def all_visible() -> bool:
        return many.led_partitions(conversation.ask(many.metadata(list(topics)))) == topics

    until(all_visible)
    visible_s = time.perf_counter() - began
    write_everywhere(conversation, {list(topics)[-1]: 1})
    writable_s = time.perf_counter() - began
    write_everywhere(conversation, topics)
    written_s = time.perf_counter() - began
    _, cpu_s = meter.end()
    return {
        VISIBLE.name: visible_s * 1000,
        WRITABLE.name: writable_s * 1000,
        WRITTEN.name: written_s * 1000,
        CREATE_CPU.name: cpu_s * 1000,
    }


class CreatedTopics(Row):
    """A row whose topics stay until it is over: ext4 makes files slowly for a while after many were removed.

    ``count`` topics of ``partitions`` each. Where many rounds of them would be too much for one broker, a round begins
    with the removal of the last one's and waits until their files are gone: Apache Kafka keeps a file of each open.
    """

    key: str
    title: str
    count: int
    partitions: int
    one_round_at_a_time = False

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.created: dict[Side, list[str]] = {}

    def create(self, side: Side) -> dict[str, float]:
        if self.one_round_at_a_time:
            self.close(side)
        topics = dict.fromkeys(named(self.key, self.count), self.partitions)
        self.created.setdefault(side, []).extend(topics)
        with Conversation(side.address) as conversation:
            return creation_ms(side, conversation, topics)

    def close(self, side: Side) -> None:
        topics = self.created.pop(side, [])
        if topics:
            with Conversation(side.address) as conversation:
                delete(conversation, topics)
            time.sleep(SETTLE_S)
            until(lambda: not side.deleted_logs(), DELETED_EVERY_S)

    def metadata(self, side: Side) -> dict[str, float]:
        """All topics by one request, as a client that subscribes to a pattern asks."""
        meter = Meter(side)
        request = frames.Produce(many.client_metadata(), (METADATA_THROTTLE,))
        asked = load.requests(side.address, [request], connections=1, seconds=self.effort.load_s, ready=meter.begin)
        _, cpu_s = meter.end()
        return {METADATA_P50.name: asked.p50_us / 1000, METADATA_CPU.name: cpu_s / asked.answers * 1000}


class Topics(CreatedTopics):
    """A number of topics with a partition each by one admin's requests; then lists and metadata of them."""

    partitions = 1
    figures = (VISIBLE, WRITABLE, WRITTEN, CREATE_CPU, DESCRIBE_P50, METADATA_P50, METADATA_CPU, ONE_P50)

    def __init__(self, effort: Effort, count: int) -> None:
        super().__init__(effort)
        self.count = count
        self.key = f"topics-{count}"
        self.title = f"{count:,} topics".replace(",", " ")
        self.one_round_at_a_time = count > 1000
        self.expected_s = 300.0 if count > 1000 else 60.0
        self.warms_up = count <= 1000

    def play(self, side: Side) -> dict[str, float]:
        seen = self.create(side)
        half_s = self.effort.load_s / 2
        describing = frames.Produce(many.describe_topic_partitions(), (DESCRIBE_THROTTLE,))
        described = load.requests(side.address, [describing], connections=1, seconds=half_s)
        asking = frames.Produce(many.client_metadata([self.created[side][-1]]), (METADATA_THROTTLE,))
        one = load.requests(side.address, [asking], connections=1, seconds=half_s)
        return {
            **seen,
            **self.metadata(side),
            DESCRIBE_P50.name: described.p50_us / 1000,
            ONE_P50.name: one.p50_us,
        }


class TenThousandPartitions(CreatedTopics):
    """Ten topics of 1 000 partitions; then all their metadata again and again; then nothing at all."""

    key = "partitions-10000"
    title = "10 000 partitions"
    count = 10
    partitions = 1000
    figures = (VISIBLE, WRITABLE, WRITTEN, CREATE_CPU, METADATA_P50, METADATA_CPU, IDLE_CPU, GROWN_RSS)
    one_round_at_a_time = True
    warms_up = False
    expected_s = 200.0

    def play(self, side: Side) -> dict[str, float]:
        rss_bytes = side.rss_bytes()
        seen = {**self.create(side), **self.metadata(side)}
        time.sleep(SETTLE_S)
        meter = Meter(side)
        time.sleep(IDLE_S)
        idle_s, idle_cpu_s = meter.end()
        return {
            **seen,
            IDLE_CPU.name: idle_cpu_s / idle_s * 1000,
            GROWN_RSS.name: max(0, side.rss_bytes() - rss_bytes) / 1e6,
        }


def topic_rows(effort: Effort) -> list[Row]:
    """The largest last."""
    return [Topics(effort, 1000), Topics(effort, 10_000), TenThousandPartitions(effort)]
