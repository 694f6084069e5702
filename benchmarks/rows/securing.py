"""TLS and logins: throughput and small requests over TLS beside those in plain text, handshakes, memory, SCRAM.

They share a second broker of each side, since the usual one has no such listeners. In rows with both kinds of
connections these take turns within a round, so that a slow minute meets both; the difference of their CPU is what TLS
costs.
"""

import gc
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from benchmarks import processes
from benchmarks.clients import running
from benchmarks.figures import Figure
from benchmarks.raw import frames
from benchmarks.raw.asking import Conversation
from benchmarks.rows.idle import CONNECTION_RSS, SETTLE_S, greet
from benchmarks.rows.producing import expect_records
from benchmarks.rows.requesting import SMALL_BATCH_BYTES, now_ms
from benchmarks.rows.row import Effort, Meter, Row
from benchmarks.rows.shape import Shape
from benchmarks.secured import Secured, secured
from benchmarks.sides import Side

RECORD_BYTES: Final = 1000
CONNECTIONS: Final = 1000
SMALL_CONNECTIONS: Final = 20
TURNS: Final = 4
"""How often connections with TLS and without take turns in a round."""
TLS_RATE = Figure("over TLS", "MB/s", True)
TLS_CPU = Figure("broker CPU over TLS", "s/GB", False)
PLAIN_RATE = Figure("in plain text", "MB/s", True)
PLAIN_CPU = Figure("broker CPU in plain text", "s/GB", False)
TLS_REQUEST = Figure("broker CPU over TLS", "µs/request", False)
PLAIN_REQUEST = Figure("broker CPU in plain text", "µs/request", False)
HANDSHAKES = Figure("handshakes", "per s of broker CPU", True)
LOGINS = Figure("logins", "per s of broker CPU", True)


class Throughput(Row):
    """A client with records of 1 KB, over TLS and in plain text."""

    figures = (TLS_RATE, TLS_CPU, PLAIN_RATE, PLAIN_CPU)

    @property
    def count(self) -> int:
        return self.effort.records(RECORD_BYTES)

    @property
    def shape(self) -> Shape:
        return Shape(RECORD_BYTES, self.effort.partitions)

    def measured(self, broker: Secured, load: Callable[[], float]) -> tuple[float, float]:
        """MB/s, and seconds of CPU per GB."""
        meter = Meter(broker)
        took_s = load()
        _, cpu_s = meter.end()
        size = self.count * RECORD_BYTES
        return size / took_s / 1e6, cpu_s / size * 1e9


class TlsProduce(Throughput):
    """Two loads of a topic, which must hold every record at the end."""

    key = "tls-produce"
    title = "produce over TLS, confluent-kafka, 1 KB"

    def play(self, side: Side) -> dict[str, float]:
        broker = secured(side)
        topic = broker.create_topic("produce", self.effort.partitions)
        plain_rate, plain_cpu = self.measured(
            broker, lambda: self.send(broker.bootstrap_servers, topic, running.NO_SECURITY)
        )
        rate, cpu = self.measured(broker, lambda: self.send(broker.bootstrap_with_tls, topic, self.security_of(broker)))
        expect_records(broker, topic, self.effort.partitions, 2 * self.count)
        broker.delete_topic(topic)
        return {TLS_RATE.name: rate, TLS_CPU.name: cpu, PLAIN_RATE.name: plain_rate, PLAIN_CPU.name: plain_cpu}

    def send(self, bootstrap: str, topic: str, security: Mapping[str, str]) -> float:
        """Write a round's records. Return the seconds that takes."""
        return running.confluent_produce(bootstrap, topic, self.count, self.shape, security)

    def security_of(self, broker: Secured) -> Mapping[str, str]:
        """The client's settings for the listener with TLS."""
        return broker.security


class TlsProduceJava(TlsProduce):
    """Kafka's ProducerPerformance, which fills its records of TLS. The last two thirds of its records are timed."""

    key = "tls-produce-java"
    title = "produce over TLS, ProducerPerformance, 1 KB"
    expected_s = 90.0

    @property
    def shape(self) -> Shape:
        return super().shape._replace(acks="all", idempotent=True)

    def send(self, bootstrap: str, topic: str, security: Mapping[str, str]) -> float:
        warm_count = self.count // 3
        return self.count / running.producer_performance(
            bootstrap, topic, self.count - warm_count, warm_count, self.shape, security
        )

    def security_of(self, broker: Secured) -> Mapping[str, str]:
        return broker.security_of_java


class TlsConsume(Throughput):
    """confluent-kafka reads a topic that was filled in plain text."""

    key = "tls-consume"
    title = "consume over TLS, confluent-kafka, 1 KB"

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        broker = secured(side)
        topic = self.topics[side] = broker.create_topic("consume", self.effort.partitions)
        running.confluent_fill(broker.bootstrap_servers, topic, self.count, self.shape)

    def close(self, side: Side) -> None:
        secured(side).delete_topic(self.topics.pop(side))

    def play(self, side: Side) -> dict[str, float]:
        broker, topic, partitions = secured(side), self.topics[side], self.effort.partitions
        plain_rate, plain_cpu = self.measured(
            broker, lambda: running.confluent_consume(broker.bootstrap_servers, topic, partitions, self.count)
        )
        rate, cpu = self.measured(
            broker,
            lambda: running.confluent_consume(
                broker.bootstrap_with_tls, topic, partitions, self.count, broker.security
            ),
        )
        return {TLS_RATE.name: rate, TLS_CPU.name: cpu, PLAIN_RATE.name: plain_rate, PLAIN_CPU.name: plain_cpu}


class TlsSmallRequests(Row):
    """Produce of one small batch from connections that each wait for their answer."""

    key = "tls-small-requests"
    title = f"Produce of {SMALL_BATCH_BYTES} B over TLS, {SMALL_CONNECTIONS} connections"
    figures = (TLS_REQUEST, PLAIN_REQUEST)

    def play(self, side: Side) -> dict[str, float]:
        broker = secured(side)
        topic = broker.create_topic("small", 1)
        produce = frames.produce(topic, [0], frames.batch_of_bytes(SMALL_BATCH_BYTES, now_ms())).frame
        cpu_s, answers = {True: 0.0, False: 0.0}, {True: 0, False: 0}
        with ExitStack() as stack:
            conversations = {
                encrypted: [
                    stack.enter_context(
                        Conversation(broker.address_with_tls, broker.tls) if encrypted else Conversation(broker.address)
                    )
                    for _ in range(SMALL_CONNECTIONS)
                ]
                for encrypted in (True, False)
            }
            for turn in range(2 * TURNS):
                encrypted = turn % 2 == 0
                meter = Meter(broker)
                answers[encrypted] += self._ask(conversations[encrypted], produce)
                cpu_s[encrypted] += meter.end()[1]
        expect_records(broker, topic, 1, sum(answers.values()))
        broker.delete_topic(topic)
        return {
            TLS_REQUEST.name: cpu_s[True] / answers[True] * 1e6,
            PLAIN_REQUEST.name: cpu_s[False] / answers[False] * 1e6,
        }

    def _ask(self, conversations: list[Conversation], produce: bytes) -> int:
        until_s, answers = time.perf_counter() + self.effort.load_s / TURNS, 0
        while time.perf_counter() < until_s:
            for conversation in conversations:
                conversation.send(produce)
            for conversation in conversations:
                conversation.answer()
            answers += len(conversations)
        return answers


class TlsHandshakes(Row):
    """Clients that connect over TLS, ask for versions and leave, one after the other."""

    key = "tls-handshakes"
    title = "connections over TLS: handshake, ApiVersions, end"
    figures = (HANDSHAKES,)

    def play(self, side: Side) -> dict[str, float]:
        broker = secured(side)

        def connect() -> None:
            with Conversation(broker.address_with_tls, broker.tls) as conversation:
                conversation.ask(frames.api_versions())

        return {HANDSHAKES.name: per_cpu_second(broker, connect, self.effort.load_s)}


class ScramLogins(Row):
    """Clients that connect, log in by SCRAM-SHA-256 and leave, one after the other."""

    key = "scram-logins"
    title = "logins by SCRAM-SHA-256, without TLS"
    figures = (LOGINS,)

    def play(self, side: Side) -> dict[str, float]:
        broker = secured(side)
        return {LOGINS.name: per_cpu_second(broker, broker.log_in, self.effort.load_s)}


class TlsIdleConnections(Row):
    """A fresh broker, and clients with TLS that have asked for versions and then say nothing."""

    key = "tls-idle-connections"
    title = f"{CONNECTIONS} idle connections over TLS"
    figures = (CONNECTION_RSS,)
    warms_up = False
    expected_s = 60.0

    def play(self, side: Side) -> dict[str, float]:
        with ExitStack() as stack:
            broker = stack.enter_context(Secured(side))
            connections = [Conversation(broker.address_with_tls, broker.tls) for _ in range(10)]
            for first in connections:
                with first:
                    greet(first)
            time.sleep(SETTLE_S)
            before = processes.rss_bytes(broker.broker.pid)
            for _ in range(CONNECTIONS):
                greet(stack.enter_context(Conversation(broker.address_with_tls, broker.tls)))
            time.sleep(SETTLE_S)
            after = processes.rss_bytes(broker.broker.pid)
        gc.collect()
        return {CONNECTION_RSS.name: (after - before) / CONNECTIONS / 1e3}


def per_cpu_second(broker: Side, once: Callable[[], object], seconds: float) -> float:
    """How often it can be done in a second of the broker's CPU."""
    until_s, times, meter = time.perf_counter() + seconds, 0, Meter(broker)
    while time.perf_counter() < until_s:
        once()
        times += 1
    return times / meter.end()[1]


def security_rows(effort: Effort) -> list[Row]:
    return [
        TlsProduce(effort),
        TlsProduceJava(effort),
        TlsConsume(effort),
        TlsSmallRequests(effort),
        TlsHandshakes(effort),
        ScramLogins(effort),
        TlsIdleConnections(effort),
    ]
