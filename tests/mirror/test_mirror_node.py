"""Mirrors between two nodes, as clients see them: the same batches at the same offsets, and a failover."""

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka
import kafka.errors
import pytest
from click.testing import CliRunner
from two_clusters import TwoClusters, batches, client_of, two_clusters

from kpybroker.cli.mirror import command
from kpybroker.client import config_requests, group_requests, offset_requests, topic_requests
from kpybroker.client.client import Spot
from kpybroker.client.config_requests import ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType
from kpybroker.machines.metadata.mirror_configs import PREFIX
from support.waiting import eventually
from tests.broker.running_node import RunningNode

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    with two_clusters(tmp_path_factory.mktemp("mirror")) as made:
        made.create_mirror("dr:m-*")
        yield made


def producer(node: RunningNode, **settings: object) -> confluent_kafka.Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", **named})


def produce(node: RunningNode, topic: str, count: int, **settings: object) -> None:
    made = producer(node, **settings)
    for number in range(count):
        made.produce(topic, key=b"%d" % (number % 7), value=b"value %d" % number, partition=0)
    assert made.flush(30) == 0


def create(node: RunningNode, topic: str, partitions: int = 1, **configs: str) -> None:
    with client_of(node) as client:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        topic_requests.create(client, topic, partitions, 1, named)


def kpybroker(clusters: TwoClusters, *arguments: str) -> str:
    """The output of ``kpybroker mirror`` against the mirror."""
    server = f"127.0.0.1:{clusters.mirror.port}"
    done = CliRunner().invoke(command, [*arguments, "--bootstrap-server", server])
    assert done.exit_code == 0, done.output
    return done.output


def values(node: RunningNode, topic: str, **settings: object) -> list[bytes]:
    """The values of a topic's only partition as a consumer reads them."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.port}",
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **named,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    found = []
    while True:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append(message.value())


@pytest.mark.parametrize("codec", CODECS)
def test_a_mirror_has_the_batches_of_its_source(clusters: TwoClusters, codec: str) -> None:
    topic = f"m-codec-{codec}"
    create(clusters.source, topic)
    produce(clusters.source, topic, 50, compression_type=codec, enable_idempotence=True)
    produce(clusters.source, topic, 30, compression_type=codec)
    clusters.wait_for(topic)
    assert batches(clusters.mirror, topic, 0) == batches(clusters.source, topic, 0)


def test_a_mirror_has_the_id_the_partitions_and_the_configs_of_its_source(clusters: TwoClusters) -> None:
    create(clusters.source, "m-shape", 3, retention_ms="86400000", cleanup_policy="compact", min_insync_replicas="1")
    eventually(lambda: "m-shape" in clusters.mirror.node.image.topics, "the topic is there")
    here, there = (
        node.call(lambda n=node: n.node.image.topics["m-shape"]) for node in (clusters.mirror, clusters.source)
    )
    assert here.id == there.id
    with client_of(clusters.source) as client:
        change = ConfigChange(ConfigOperation.SET, "retention.ms", "1000000")
        config_requests.alter(client, ConfigResource(ConfigResourceType.TOPIC, "m-shape"), [change])
        topic_requests.grow(client, "m-shape", 5) if hasattr(topic_requests, "grow") else topic_requests.add_partitions(
            client, "m-shape", 5
        )

    def configs() -> dict[str, str]:
        return {
            key: value
            for key, value in clusters.mirror.node.image.configs_of(2, "m-shape").items()
            if not key.startswith(PREFIX)
        }

    eventually(
        lambda: configs() == {"retention.ms": "1000000", "cleanup.policy": "compact"}, "the configs are carried over"
    )
    eventually(lambda: len(clusters.mirror.node.image.topics["m-shape"].partitions) == 5, "the topic has grown")


def test_transactions_are_mirrored_as_they_are(clusters: TwoClusters) -> None:
    create(clusters.source, "m-transactions")
    writer = producer(clusters.source, transactional_id="mirrored")
    writer.init_transactions(30)
    for number in range(4):
        writer.begin_transaction()
        writer.produce("m-transactions", b"of transaction %d" % number, partition=0)
        writer.flush(30)
        writer.commit_transaction(30) if number % 2 else writer.abort_transaction(30)
    clusters.wait_for("m-transactions")
    assert batches(clusters.mirror, "m-transactions", 0) == batches(clusters.source, "m-transactions", 0)
    read = values(clusters.mirror, "m-transactions", isolation_level="read_committed")
    assert read == [b"of transaction 1", b"of transaction 3"]


def test_producers_learn_that_a_mirror_is_read_only(clusters: TwoClusters) -> None:
    create(clusters.source, "m-read-only")
    clusters.wait_for("m-read-only")
    writer = kafka.KafkaProducer(bootstrap_servers=f"127.0.0.1:{clusters.mirror.port}")
    with pytest.raises(kafka.errors.PolicyViolationError):
        writer.send("m-read-only", b"x").get(30)
    writer.close()
    errors: list[Any] = []
    made = producer(clusters.mirror)
    made.produce("m-read-only", b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    made.flush(30)
    assert [error.code() for error in errors] == [confluent_kafka.KafkaError.POLICY_VIOLATION]
    with client_of(clusters.mirror) as client, pytest.raises(Exception, match="POLICY_VIOLATION"):
        offset_requests.delete_records(client, {Spot("m-read-only", 0): 0})


def test_the_log_start_follows_the_source(clusters: TwoClusters) -> None:
    create(clusters.source, "m-start")
    produce(clusters.source, "m-start", 30)
    clusters.wait_for("m-start")
    with client_of(clusters.source) as client:
        offset_requests.delete_records(client, {Spot("m-start", 0): 17})
    produce(clusters.source, "m-start", 1)
    clusters.wait_for("m-start")


def test_offsets_of_groups_are_carried_over_and_skip_nothing(clusters: TwoClusters) -> None:
    create(clusters.source, "m-groups")
    produce(clusters.source, "m-groups", 10)
    clusters.wait_for("m-groups")
    with client_of(clusters.source) as client:
        group_requests.commit(client, "workers", {Spot("m-groups", 0): 7})
        group_requests.commit(client, "ahead", {Spot("m-groups", 0): 25})  # of records that are not there yet

    def here(group: str) -> int | None:
        with client_of(clusters.mirror) as client:
            found = group_requests.committed(client, group).get(Spot("m-groups", 0))
            return None if found is None else found.offset

    eventually(lambda: here("workers") == 7, "the offset is carried over")
    eventually(lambda: here("ahead") == 10, "the offset is cut to what is mirrored")
    produce(clusters.source, "m-groups", 20)
    eventually(lambda: here("ahead") == 25, "the offset follows what is mirrored")


def test_a_topic_that_was_created_again_at_the_source_stays_as_it_was(clusters: TwoClusters) -> None:
    create(clusters.source, "m-again")
    produce(clusters.source, "m-again", 5)
    clusters.wait_for("m-again")
    before = batches(clusters.mirror, "m-again", 0)
    with client_of(clusters.source) as client:
        topic_requests.delete(client, "m-again")
    create(clusters.source, "m-again")
    server = f"127.0.0.1:{clusters.mirror.port}"
    source = clusters.source_file
    done = CliRunner().invoke(command, ["status", "--source", source, "--bootstrap-server", server])
    assert done.exit_code == 4
    assert "created again at the source" in done.output
    assert batches(clusters.mirror, "m-again", 0) == before
    with client_of(clusters.mirror) as client:
        topic_requests.delete(client, "m-again")
    clusters.wait_for("m-again")


def test_a_mirror_that_was_stopped_goes_on_where_the_source_begins_now(clusters: TwoClusters) -> None:
    create(clusters.source, "m-overtaken")
    produce(clusters.source, "m-overtaken", 10)
    clusters.wait_for("m-overtaken")
    kpybroker(clusters, "stop", "dr")
    produce(clusters.source, "m-overtaken", 20)
    with client_of(clusters.source) as client:
        offset_requests.delete_records(client, {Spot("m-overtaken", 0): 25})
    assert len(values(clusters.mirror, "m-overtaken")) == 10
    kpybroker(clusters, "create", "dr", "--topics", "m-*")
    clusters.wait_for("m-overtaken")
    assert values(clusters.mirror, "m-overtaken") == values(clusters.source, "m-overtaken")


def test_a_failover_makes_topics_writable_and_ends_open_transactions(clusters: TwoClusters) -> None:
    create(clusters.source, "m-failover")
    produce(clusters.source, "m-failover", 10)
    with client_of(clusters.source) as client:
        group_requests.commit(client, "workers", {Spot("m-failover", 0): 6})
    writer = producer(clusters.source, transactional_id="open")
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce("m-failover", b"open", partition=0)
    writer.flush(30)
    clusters.wait_for("m-failover")

    report = json.loads(
        kpybroker(clusters, "failover", "dr", "--wait-lag", "0", "--source", clusters.source_file, "--json")
    )
    assert report["aborted_transactions"] == 1
    assert {each["lost_records"] for each in report["partitions"] if each["topic"] == "m-failover"} == {0}
    produce(clusters.mirror, "m-failover", 5)
    read = values(clusters.mirror, "m-failover", isolation_level="read_committed")
    assert read == [b"value %d" % number for number in (*range(10), *range(5))]
    member = confluent_kafka.Consumer({"bootstrap.servers": f"127.0.0.1:{clusters.mirror.port}", "group.id": "workers"})
    member.subscribe(["m-failover"])
    message = member.poll(20)
    assert message is not None
    assert message.offset() == 6, "the group goes on where it was at the source"
    member.close()
    configs = clusters.mirror.node.image.configs_of(2, "m-failover")
    assert not [name for name in configs if name.startswith(PREFIX)]
