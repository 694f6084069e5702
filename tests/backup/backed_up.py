"""Runs of backups of a node, and nodes that start with what was restored."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import confluent_kafka
import pytest

from kpybroker.cli.checking import check_directories
from kpybroker.client import group_requests, offset_requests, topic_requests
from kpybroker.client.client import Spot
from kpybroker.machines.backup.manifest import RunManifest
from kpybroker.pipeline.backup import creating
from kpybroker.pipeline.backup.restoring import RestoreTarget, config_of, restore
from kpybroker.pipeline.backup.store import BackupStore
from tests.broker.running_node import RunningNode, start
from tests.mirror.two_clusters import client_of

CLOCK_MS = count(1_700_000_000_000, 1000)


def create_topic(node: RunningNode, name: str, partitions: int = 1, **configs: str) -> None:
    with client_of(node) as client:
        topic_requests.create(
            client, name, partitions, 1, {key.replace("_", "."): value for key, value in configs.items()}
        )


def producer(node: RunningNode, **settings: object) -> confluent_kafka.Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", **named})


def produce(node: RunningNode, topic: str, records: int, partition: int = 0, **settings: object) -> None:
    made = producer(node, **settings)
    for number in range(records):
        made.produce(topic, key=b"%d" % number, value=b"value %d" % number, partition=partition)
    assert made.flush(30) == 0


def commit(node: RunningNode, group: str, topic: str, offset: int, partition: int = 0) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": f"127.0.0.1:{node.port}", "group.id": group})
    position = confluent_kafka.TopicPartition(topic, partition, offset, metadata="of the test")
    (done,) = consumer.commit(offsets=[position], asynchronous=False)
    assert done.error is None
    consumer.close()


def run(node: RunningNode, store: BackupStore, *patterns: str) -> RunManifest:
    """A run of a backup."""
    return creating.create(lambda: client_of(node), store, patterns, lambda: next(CLOCK_MS), lambda _: None)


def delete_before(node: RunningNode, topic: str, offset: int) -> None:
    with client_of(node) as client:
        offset_requests.delete_records(client, {Spot(topic, 0): offset})


@contextmanager
def restored(store: BackupStore, manifest: RunManifest, directory: Path) -> Iterator[RunningNode]:
    """A node with what is restored from a run. Nothing is wrong with its directory, before and after."""
    path = str(directory)
    restore(store, manifest, RestoreTarget(path, config_of(None, path)), 1_700_000_000_000, pytest.fail, lambda _: None)
    check_directory(path)
    made = start(directory)
    try:
        yield made
    finally:
        made.stop()
    check_directory(path)


def check_directory(path: str) -> None:
    found = check_directories([path], lambda _: None, lambda _: None)
    assert not [each for each in found.findings if each.level == "damage"], found.findings


def positions(node: RunningNode, group: str) -> Mapping[Spot, group_requests.Commit]:
    with client_of(node) as client:
        return client.retrying(lambda: group_requests.committed(client, group))


def ends(node: RunningNode, spots: Iterable[Spot], *, committed_only: bool = False) -> dict[Spot, int]:
    with client_of(node) as client:
        return client.list_offsets(dict.fromkeys(spots, -1), committed_only=committed_only)


def values(node: RunningNode, topic: str, partition: int = 0) -> list[bytes]:
    """The committed values of a partition."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": f"127.0.0.1:{node.port}", "group.id": "values", "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append(message.value())
