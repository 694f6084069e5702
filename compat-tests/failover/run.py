"""One run: a cluster, writers, the same fault again and again, and what came of it."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from failover.faults import wait_for_in_sync
from failover.producing import WRITERS, Writer, written
from failover.verdict import Place, Verdict, judge, longest_gap_s
from support.access import Access
from support.clusters import Nodes
from support.waiting import eventually

TOPIC: Final = "failover"
PARTITIONS: Final = 3
CALM_S: Final = 2.0
START_TIMEOUT_S: Final = 180.0
"""A busy machine takes long to start the JVM of a client."""
READ_TIMEOUT_S: Final = 60.0
Fault = Callable[[Any, str, random.Random], None]
"""Is done to a cluster, with a topic whose leaders may be the target."""


class Outcome(NamedTuple):
    """The result of one run."""

    verdict: Verdict
    faults: int
    gaps_s: dict[str, float]
    """By writer: the longest time without an acknowledgement."""
    failures: list[str]
    """The failures that made clients give up."""


def run(
    cluster: Nodes,
    fault: Fault,
    *,
    records: int,
    seed: int,
    rounds: int = 1,
    clients: Sequence[str] = tuple(WRITERS),
    configs: Mapping[str, str] | None = None,
    progress: Callable[[int], object] = lambda _records: None,
) -> Outcome:
    """Write with each of the clients until enough records are acknowledged and the fault came ``rounds`` times.

    ``configs`` are more ones of the topic.
    """
    admin = AdminClient(cluster.access.librdkafka)
    config = {"min.insync.replicas": "2", **(configs or {})}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(cluster.nodes), config=config)])[TOPIC].result(60)
    wait_for_in_sync(cluster, TOPIC, len(cluster.nodes))
    writers = [WRITERS[name](name, cluster.access, TOPIC, PARTITIONS) for name in clients]
    rng = random.Random(seed)
    for writer in writers:
        writer.start()
    faults = 0
    try:
        _wait_until_all_write(writers)
        while not any(writer.failures for writer in writers):
            done = sum(writer.count for writer in writers)
            if faults >= rounds and done >= records:
                break
            progress(done)
            time.sleep(CALM_S)
            fault(cluster, TOPIC, rng)
            wait_for_in_sync(cluster, TOPIC, len(cluster.nodes))
            faults += 1
        time.sleep(CALM_S)
    finally:
        for writer in writers:
            writer.stop()
    acknowledged = {place: numbers for writer in writers for place, numbers in writer.acknowledged.items()}
    return Outcome(
        judge(acknowledged, read_all(cluster.access)),
        faults,
        {writer.name: longest_gap_s(writer.times_s) for writer in writers},
        [failure for writer in writers for failure in writer.failures],
    )


def _wait_until_all_write(writers: Sequence[Writer]) -> None:
    eventually(
        lambda: all(writer.count or writer.failures for writer in writers),
        lambda: f"the first writes of {[writer.name for writer in writers if not writer.count]}",
        START_TIMEOUT_S,
    )


def read_all(access: Access) -> dict[Place, list[int]]:
    """The numbers in the log, by producer and partition, in the order of offsets."""
    found: dict[Place, list[int]] = defaultdict(list)
    consumer = Consumer(
        {
            **access.librdkafka,
            "group.id": "failover-reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        ends = {
            index: consumer.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=READ_TIMEOUT_S)[1]
            for index in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in ends])
        left = {index for index, end in ends.items() if end > 0}
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        while left:
            messages = consumer.consume(10_000, 1.0)
            if messages:
                deadline_s = time.monotonic() + READ_TIMEOUT_S
            elif time.monotonic() > deadline_s:
                raise TimeoutError(f"partitions {left} cannot be read to their ends")
            for message in messages:
                value, index, offset = message.value(), message.partition(), message.offset()
                if message.error() is None and value is not None and index is not None and offset is not None:
                    producer, number = written(value)
                    found[producer, index].append(number)
                    if offset + 1 >= ends[index]:
                        left.discard(index)
    finally:
        consumer.close()
    return found
