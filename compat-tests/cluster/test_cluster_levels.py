"""Three nodes formatted for an older release serve as such, and are raised to the newest levels by `kafka-features`."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kpybroker.machines.metadata import metadata_version
from oracle import java
from support.clusters import PROGRAMS, Cluster, KafkaNode, KpyNode
from support.java_tools import JavaTools
from support.upgrading import finalized
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]
PATIENCE_S = 120.0
RELEASES = ("3.6", "3.3", "3.7", "3.9", "4.0", "4.2")
"""Without directories in the records; then all kinds."""
TOPIC = "levelled"
RECORDS = 300
PAYLOAD = re.compile(r"payload: (\{.*\})$", re.MULTILINE)
NEWEST = {
    "metadata.version": 33,
    "transaction.version": 2,
    "kraft.version": 1,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
}
NOT_REPORTED_YET = "because not all of the voters support it"
"""A voter tells its leader what it supports a fetch timeout after that has begun to lead (KIP-853)."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The oldest of these is enough where nobody asks for more (`make upgrade`)."""
    if "release" in metafunc.fixturenames:
        metafunc.parametrize("release", RELEASES if metafunc.config.getoption("--upgrades") > 1 else RELEASES[:1])


@pytest.fixture
def cluster(target: str, release: str, tmp_path: Path) -> Iterator[Cluster]:
    if target not in PROGRAMS:
        pytest.skip("formats nodes of its own")
    cluster = Cluster(PROGRAMS[target], tmp_path)
    for node in cluster.nodes.values():
        cast("KpyNode | KafkaNode", node).formatting = ("--release-version", release)
        node.start_timeout_s = PATIENCE_S
    with cluster:
        yield cluster


def write(cluster: Cluster, begin: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for number in range(begin, begin + RECORDS):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


def read(cluster: Cluster, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "levels", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        found: list[int] = []
        while len(found) < count:
            messages = consumer.consume(count, PATIENCE_S)
            assert messages
            found += [int(message.value() or b"") for message in messages if message.error() is None]
        return found
    finally:
        consumer.close()


def metadata_records(log_directory: Path) -> list[dict[str, Any]]:
    """The records of a metadata log, as Apache Kafka's own DumpLogSegments reads them."""
    log = log_directory / "__cluster_metadata-0" / f"{0:020d}.log"
    finished = java("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(log))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return [json.loads(match) for match in PAYLOAD.findall(finished.stdout)]


def versions_written(records: list[dict[str, Any]], kind: str) -> list[int]:
    """In their order, each once."""
    return list(dict.fromkeys(record["version"] for record in records if record["type"] == kind))


def test_an_older_cluster_serves_and_is_raised_to_the_newest_levels(
    cluster: Cluster, release: str, java_tools: JavaTools
) -> None:
    level = metadata_version.level_of(release)
    nodes = list(cluster.nodes.values())
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    assert finalized(nodes[0].port).get("metadata.version") == level
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "2"})])[TOPIC].result(PATIENCE_S)
    write(cluster, 0)

    words = [f"--feature={name}={wanted}" for name, wanted in NEWEST.items() if name != "metadata.version"]
    raised = java_tools.run("kafka-features", *servers, "upgrade", "--metadata", "4.4", *words)
    until_s = time.monotonic() + PATIENCE_S
    while NOT_REPORTED_YET in raised.text and time.monotonic() < until_s:
        raised = java_tools.run("kafka-features", *servers, "upgrade", "--metadata", "4.4", *words)
    assert raised.exit_code == 0, raised.text
    for name, wanted in NEWEST.items():
        assert f"{name} was upgraded to {wanted}." in raised.out
    eventually(lambda: all(finalized(node.port).items() >= NEWEST.items() for node in nodes), "the levels")
    write(cluster, RECORDS)
    lowered = java_tools.run("kafka-features", *servers, "downgrade", "--feature", "metadata.version=32")
    assert lowered.exit_code == 1
    assert "Refusing to perform the requested downgrade because it might delete metadata information." in lowered.text
    status = java_tools.run("kafka-metadata-quorum", *servers, "describe", "--status").out
    (voters,) = re.findall(r"^CurrentVoters: +(\[.*\])$", status, re.MULTILINE)
    assert len({each["directoryId"] for each in json.loads(voters)}) == 3

    for node in nodes:
        node.restart()
    write(cluster, 2 * RECORDS)
    assert read(cluster, 3 * RECORDS) == list(range(3 * RECORDS))
    cluster.stop()
    records = metadata_records(Path(cast("KpyNode | KafkaNode", nodes[0]).properties["log.dirs"].split(",")[0]))
    before, after = metadata_version.register_broker_record_version(level), 4
    assert versions_written(records, "REGISTER_BROKER_RECORD") == [before, after]
    before, after = metadata_version.partition_record_version(level), 2
    assert versions_written(records, "PARTITION_CHANGE_RECORD")[-1] == after
    assert versions_written(records, "PARTITION_RECORD")[0] == before
