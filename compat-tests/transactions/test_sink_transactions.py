"""The transaction of the exactly-once sink, without Spark: what a consumer with ``read_committed`` gets.

``tests/sink`` plays every crash and every order of zombies; here are those that a broker decides by its own rules.
"""

import contextlib
import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import KafkaError as ConfluentError

from conftest import NewTopic
from kpybroker.client.appending import Appender
from kpybroker.client.client import Client, Spot
from kpybroker.client.group_requests import committed
from kpybroker.machines.errors import KafkaError
from kpybroker.pipeline.sink import committing
from kpybroker.pipeline.sink.options import Mark
from kpybroker.pipeline.sink.packing import Batches, Chooser, Packer, SinkRow
from kpywire.compression import LZ4
from support.stepping_clients import SETTINGS, Killed, Mortal

TIMEOUT_MS = 60_000
PARTITIONS = 3
CALLS = 10
"""A micro-batch of the tests has more calls than that."""


@pytest.fixture
def client(bootstrap_servers: str) -> Iterator[Client]:
    with Client(bootstrap_servers, 10.0, SETTINGS._replace(api_timeout_s=20.0)) as made:
        yield made


def packed(topic: str, *numbers: int) -> Batches:
    """Batches of the numbers, some rows each."""
    packer = Packer(Chooser(lambda _: PARTITIONS), lambda: 1, codec=LZ4, batch_bytes=100)
    for number in numbers:
        packer.add(SinkRow(topic, number % PARTITIONS, None, b"%d" % number))
    return packer.take_all()


def write(client: Client, topic: str, batch: int) -> bool:
    """Write a micro-batch of two tasks with ten rows each."""
    parts = [packed(topic, *range(first, first + 10)) for first in (batch * 20, batch * 20 + 10)]
    return committing.write(client, topic, TIMEOUT_MS, Mark("query", batch), parts)


def numbers(servers: str, topic: str, partitions: int = PARTITIONS) -> list[int]:
    """The numbers that are visible, those of each partition in their order."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    reading = set(found)
    while reading:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found[message.partition()].append(int(message.value()))
        elif message.error().code() == ConfluentError._PARTITION_EOF:
            reading.discard(message.partition())
    consumer.close()
    assert all(each == sorted(each) for each in found.values())
    return sorted(number for each in found.values() for number in each)


@pytest.mark.parametrize("is_served", [False, True], ids=["request lost", "answer lost"])
def test_a_driver_that_dies_at_any_call_is_followed_by_one_that_completes_its_work(
    client: Client, bootstrap_servers: str, new_topic: NewTopic, is_served: bool
) -> None:
    topic = new_topic(PARTITIONS)
    for batch in itertools.count():
        with Mortal(client, batch + 1, is_served=is_served) as mortal, contextlib.suppress(Killed):
            write(mortal, topic, batch)
        write(client, topic, batch)
        if not mortal.is_dead:
            break
    assert batch >= CALLS
    assert numbers(bootstrap_servers, topic) == list(range(20 * batch + 20))


def test_a_micro_batch_is_written_once_and_its_mark_is_an_offset_of_a_group(
    client: Client, bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic(PARTITIONS)
    assert [write(client, topic, batch) for batch in (0, 0, 1, 0, 1, 2)] == [True, False, True, False, False, True]
    assert numbers(bootstrap_servers, topic) == list(range(60))
    assert {spot: commit.offset for spot, commit in committed(client, topic).items()} == {Spot(topic, 0): 2}


def test_a_task_of_an_aborted_job_is_fenced_and_what_it_wrote_is_not_visible(
    client: Client, bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic(PARTITIONS)
    identity = committing.begin(client, topic, TIMEOUT_MS)
    with Client(bootstrap_servers, 10.0, SETTINGS) as late:
        zombie = Appender(late, identity)
        zombie.append(packed(topic, 1000, 1001, 1002))
        write(client, topic, 0)
        for appender in (zombie, Appender(late, identity)):
            with pytest.raises(KafkaError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|INVALID_TXN_STATE"):
                appender.append(packed(topic, 2000, 2001, 2002))
        write(client, topic, 1)
    assert numbers(bootstrap_servers, topic) == list(range(40))


def test_tasks_write_under_one_transaction_at_the_same_time(
    client: Client, bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic(PARTITIONS)
    for batch in range(2):
        identity = committing.begin(client, topic, TIMEOUT_MS)
        tasks = [Client(bootstrap_servers, 10.0, SETTINGS) for _ in range(PARTITIONS)]
        appenders = [Appender(task, identity) for task in tasks]
        for step in range(3):
            for number, appender in enumerate(appenders):
                appender.append(packed(topic, batch * 9 + step * 3 + number))
        assert numbers(bootstrap_servers, topic) == list(range(batch * 9))
        committing.commit(client, identity, Mark("query", batch), [appender.counts for appender in appenders])
        for task in tasks:
            task.close()
    assert numbers(bootstrap_servers, topic) == list(range(18))


def test_a_batch_too_large_for_its_topic_is_divided(
    client: Client, bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic(max_message_bytes="1000")
    packer = Packer(Chooser(lambda _: 1), lambda: 1)
    for number in range(100):
        packer.add(SinkRow(topic, None, None, b"%099d" % number))
    committing.write(client, topic, TIMEOUT_MS, None, [packer.take_all()])
    assert numbers(bootstrap_servers, topic, 1) == list(range(100))
