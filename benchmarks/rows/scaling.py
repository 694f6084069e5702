"""What a node does with a thousand topics, ten thousand partitions, a thousand connections."""

import gc
import resource
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median

from benchmarks import processes
from benchmarks.figures import Figure
from benchmarks.raw import frames, load, many
from benchmarks.raw.asking import Address, Conversation, ask
from benchmarks.rows.consuming import ConsumeConfluent
from benchmarks.rows.lifecycle import STOP, start_ms
from benchmarks.rows.requesting import CPU_PER_REQUEST, P50, P99
from benchmarks.rows.row import Effort, Meter, RoundError, Row
from benchmarks.sides import HOST, TOPIC_CONFIG, Side
from oracle import BrokerProcess

VISIBLE = Figure("all visible", "ms", False)
WRITABLE = Figure("the last written to", "ms", False)
WRITTEN = Figure("all written to", "ms", False)
CREATE_CPU = Figure("broker CPU", "ms", False)
GROWN_RSS = Figure("RSS growth", "MB", False)
METADATA_P50 = Figure("Metadata of all, p50", "ms", False)
METADATA_CPU = Figure("Metadata of all, broker CPU", "ms", False)
IDLE_CPU = Figure("broker CPU idle", "ms/s", False)
START_CLEAN = Figure("start to all partitions answering, after a clean stop", "ms", False)
START_KILLED = Figure("start to all partitions answering, after SIGKILL", "ms", False)
CONNECTED_RSS = Figure("RSS with 1 000 connections", "MB", False)
CONNECTION_RSS = Figure("RSS per connection", "KB", False)
BATCH_BYTES = 213
SETTLE_S = 3.0
IDLE_S = 3.0
WAIT_S = 120.0
RECORDS_PER_REQUEST = 9000
"""Kafka's controller refuses a request that takes more than 10 000 records."""
LOOK_EVERY_S = 0.002
RETRY_S = 0.02
CONNECTIONS = 1000
THROTTLE_PLACE = 4 + 1
"""In an answer after its size prefix: two bytes that are 0 in every good one."""


def small_batch() -> bytes:
    return frames.batch_of_bytes(BATCH_BYTES, int(time.time() * 1000))


def named(purpose: str, count: int) -> list[str]:
    run = uuid.uuid4().hex[:8]
    return [f"{purpose}-{run}-{number}" for number in range(count)]


def until(ready: Callable[[], bool]) -> None:
    """Raises RoundError when it takes too long."""
    deadline = time.perf_counter() + WAIT_S
    while not ready():
        if time.perf_counter() > deadline:
            raise RoundError(f"not ready after {WAIT_S:.0f} s")
        time.sleep(LOOK_EVERY_S)


def create(conversation: Conversation, topics: dict[str, int]) -> None:
    """In requests that a controller can write as one batch. Raises RoundError."""
    waiting = list(topics.items())
    while waiting:
        size = max(1, RECORDS_PER_REQUEST // (waiting[0][1] + 2))
        now, waiting = dict(waiting[:size]), waiting[size:]
        errors = many.created_errors(conversation.ask(many.create_topics(now, TOPIC_CONFIG)))
        if len(errors) != len(now) or any(errors.values()):
            raise RoundError(f"topics are not created: error codes {sorted(set(errors.values()))}")


def delete(conversation: Conversation, topics: Sequence[str]) -> None:
    errors = many.deleted_errors(conversation.ask(many.delete_topics(topics)))
    if any(errors.values()):
        raise RoundError(f"topics are not deleted: error codes {sorted(set(errors.values()))}")


def write_everywhere(conversation: Conversation, topics: dict[str, int]) -> None:
    """A batch into every partition, again where it is refused. Raises RoundError."""
    batch = small_batch()
    left: dict[str, Sequence[int]] = {name: range(count) for name, count in topics.items()}
    deadline = time.perf_counter() + WAIT_S
    while left:
        refused: dict[str, list[int]] = {}
        code = 0
        for name, index, error in many.produced_errors(conversation.ask(many.produce(left, batch))):
            if error:
                refused.setdefault(name, []).append(index)
                code = error
        left = dict(refused)
        if left:
            time.sleep(RETRY_S)
        if time.perf_counter() > deadline:
            raise RoundError(f"{len(left)} topics are not writable after {WAIT_S:.0f} s: error code {code}")


def creation_ms(side: Side, conversation: Conversation, topics: dict[str, int]) -> dict[str, float]:
    """From the request until Metadata have all, until the last topic takes a batch, until every partition has one."""
    meter = Meter(side)
    began = time.perf_counter()
    create(conversation, topics)

    def all_visible() -> bool:
        led = many.led_partitions(conversation.ask(many.metadata(list(topics))))
        return led == topics

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
    """A row whose topics stay until it is over: ext4 makes files slowly for a while after many were removed."""

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.created: dict[Side, list[str]] = {}

    def creation_ms(self, side: Side, conversation: Conversation, topics: dict[str, int]) -> dict[str, float]:
        self.created.setdefault(side, []).extend(topics)
        return creation_ms(side, conversation, topics)

    def close(self, side: Side) -> None:
        with Conversation(side.address) as conversation:
            delete(conversation, self.created.pop(side))
        time.sleep(SETTLE_S)


class ThousandTopics(CreatedTopics):
    """One CreateTopics of 1 000 topics with a partition each, until a batch is in every one of them."""

    key = "thousand-topics"
    title = "1 000 topics created by one request"
    figures = (VISIBLE, WRITABLE, WRITTEN, CREATE_CPU)

    def play(self, side: Side) -> dict[str, float]:
        with Conversation(side.address) as conversation:
            return self.creation_ms(side, conversation, dict.fromkeys(named("topics", 1000), 1))


class TenThousandPartitions(CreatedTopics):
    """Ten topics of 1 000 partitions; then all their metadata again and again; then nothing at all. One round."""

    key = "ten-thousand-partitions"
    title = "10 000 partitions"
    figures = (VISIBLE, WRITABLE, WRITTEN, CREATE_CPU, METADATA_P50, METADATA_CPU, IDLE_CPU, GROWN_RSS)
    warms_up = False

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort._replace(rounds=1))

    def play(self, side: Side) -> dict[str, float]:
        rss_bytes = side.rss_bytes()
        with Conversation(side.address) as conversation:
            seen = self.creation_ms(side, conversation, dict.fromkeys(named("partitions", 10), 1000))
        requests = [frames.Produce(many.client_metadata(), (THROTTLE_PLACE,))]
        meter = Meter(side)
        asked = load.requests(side.address, requests, connections=1, seconds=self.effort.load_s, ready=meter.begin)
        _, cpu_s = meter.end()
        time.sleep(SETTLE_S)
        meter.begin()
        time.sleep(IDLE_S)
        idle_s, idle_cpu_s = meter.end()
        return {
            **seen,
            METADATA_P50.name: asked.p50_us / 1000,
            METADATA_CPU.name: cpu_s / asked.answers * 1000,
            IDLE_CPU.name: idle_cpu_s / idle_s * 1000,
            GROWN_RSS.name: (side.rss_bytes() - rss_bytes) / 1e6,
        }


class Restart(Row):
    """A broker with a topic of so many partitions: clean stop, start, a batch into each, SIGKILL, start."""

    figures = (STOP, START_CLEAN, START_KILLED)
    warms_up = False
    topic = "kept"

    def __init__(self, effort: Effort, partitions: int) -> None:
        super().__init__(effort)
        self.partitions = partitions
        self.key = f"restart-{partitions}"
        self.title = f"restart with {partitions} partitions"
        self.brokers: dict[Side, BrokerProcess] = {}

    def open(self, side: Side) -> None:
        broker = self.brokers[side] = side.another(self.key)
        broker.prepare()
        start_ms(broker)
        with Conversation(Address(HOST, broker.port)) as conversation:
            create(conversation, {self.topic: self.partitions})
        self.write(broker)

    def play(self, side: Side) -> dict[str, float]:
        broker = self.brokers[side]
        stop_ms = broker.stop() * 1000
        clean_ms = self.start_ms(broker)
        self.write(broker)
        broker.kill()
        killed_ms = self.start_ms(broker)
        self.write(broker)
        return {STOP.name: stop_ms, START_CLEAN.name: clean_ms, START_KILLED.name: killed_ms}

    def write(self, broker: BrokerProcess) -> None:
        with Conversation(Address(HOST, broker.port)) as conversation:
            write_everywhere(conversation, {self.topic: self.partitions})

    def start_ms(self, broker: BrokerProcess) -> float:
        """Until ListOffsets is answered for every partition."""
        began = time.perf_counter()
        start_ms(broker)
        asking = frames.latest_offsets(self.topic, self.partitions)

        def all_answer() -> bool:
            answer = ask(Address(HOST, broker.port), asking)
            ends = frames.answered_offsets(self.topic, self.partitions, answer)
            if any(not error and not offset for error, offset in ends):
                raise RoundError("records are lost")
            return not any(error for error, _ in ends)

        until(all_answer)
        return (time.perf_counter() - began) * 1000

    def close(self, side: Side) -> None:
        broker = self.brokers.pop(side)
        if broker.process is not None:
            broker.kill()


class IdleConnections(Row):
    """A fresh broker, and 1 000 clients that have asked for versions and metadata and then say nothing."""

    key = "idle-connections"
    title = "1 000 idle connections"
    figures = (CONNECTED_RSS, CONNECTION_RSS)
    warms_up = False

    def play(self, side: Side) -> dict[str, float]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
        broker = side.another(f"idle-{uuid.uuid4().hex[:8]}")
        broker.prepare()
        start_ms(broker)
        try:
            address = Address(HOST, broker.port)
            with Conversation(address) as first:
                create(first, {"idle": 6})
                greet(first)
                before = processes.rss_bytes(broker.pid)
                with ExitStack() as stack:
                    for _ in range(CONNECTIONS):
                        greet(stack.enter_context(Conversation(address)))
                    time.sleep(SETTLE_S)
                    after = processes.rss_bytes(broker.pid)
        finally:
            broker.kill()
            gc.collect()
        return {CONNECTED_RSS.name: after / 1e6, CONNECTION_RSS.name: (after - before) / CONNECTIONS / 1e3}


def greet(conversation: Conversation) -> None:
    conversation.ask(frames.api_versions())
    conversation.ask(many.client_metadata())


class FetchMany(Row):
    """One consumer of 1 000 partitions with a batch of 213 B in each, one Fetch after the other."""

    key = "fetch-many"
    topic = "wide"
    partitions = 1000
    offset = 0
    session = False
    figures = (CPU_PER_REQUEST, P50, P99)

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic(self.key, self.partitions)
        with Conversation(side.address) as conversation:
            write_everywhere(conversation, {topic: self.partitions})

    def play(self, side: Side) -> dict[str, float]:
        meter = Meter(side)
        with Conversation(side.address) as conversation:
            took_us = self.fetches(conversation, self.topics[side], meter)
        _, cpu_s = meter.end()
        took_us.sort()
        return {
            CPU_PER_REQUEST.name: cpu_s / len(took_us) * 1e6,
            P50.name: median(took_us),
            P99.name: took_us[len(took_us) * 99 // 100],
        }

    def fetches(self, conversation: Conversation, topic: str, meter: Meter) -> list[float]:
        """Microseconds that each took."""
        every = {topic: range(self.partitions)}
        new = (0, 0) if self.session else (0, -1)
        asking = many.fetch(every, offset=self.offset, session=new, partition_bytes=1 << 20, max_wait_ms=0)
        session_id = self.checked(conversation.ask(asking))
        epoch, took_us = 1, []
        meter.begin()
        deadline = time.perf_counter() + self.effort.load_s
        while (began := time.perf_counter()) < deadline:
            if self.session:
                now = (session_id, epoch)
                asking = many.fetch({}, offset=0, session=now, partition_bytes=1 << 20, max_wait_ms=0)
                epoch += 1
            self.checked(conversation.ask(asking))
            took_us.append((time.perf_counter() - began) * 1e6)
        return took_us

    def checked(self, answer: bytes) -> int:
        """The session's id. Raises RoundError."""
        code, session_id = many.fetched_session(answer)
        if code or self.session != bool(session_id):
            raise RoundError(f"error code {code}, session {session_id}")
        if not self.session and self.offset == 0 and len(answer) < self.partitions * BATCH_BYTES:
            raise RoundError(f"an answer of {len(answer)} bytes has not all records")
        return session_id

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))


class FetchAllFull(FetchMany):
    key = "fetch-full"
    title = "Fetch of 1 000 partitions without a session, a batch in each"


class FetchNothingNew(FetchMany):
    key = "fetch-empty"
    title = "Fetch of 1 000 partitions without a session, nothing new"
    offset = 1


class FetchIncremental(FetchMany):
    key = "fetch-incremental"
    title = "incremental Fetch of a session of 1 000 partitions, nothing new"
    offset = 1
    session = True


class ConsumeThousandPartitions(ConsumeConfluent):
    """confluent-kafka with 1 000 partitions."""

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort._replace(partitions=1000), 1000)
        self.key = "consume-thousand-partitions"
        self.title = "consume 1 000 partitions, confluent-kafka, 1000 B"


def scale_rows(effort: Effort) -> list[Row]:
    """What one broker does with much of everything, in the order it is played and printed."""
    return [
        ThousandTopics(effort),
        FetchAllFull(effort),
        FetchNothingNew(effort),
        FetchIncremental(effort),
        ConsumeThousandPartitions(effort),
        Restart(effort, 1000),
        IdleConnections(effort),
        TenThousandPartitions(effort),
    ]
