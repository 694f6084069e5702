"""Kafka's command line tools do their work on the broker and print what they print on Apache Kafka."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka.admin import AdminClient

from conftest import NewTopic
from support.clients import CLIENTS, Record, Sending, contents
from support.java_tools import Finished, JavaTools

pytestmark = pytest.mark.java
NOON_MS = 1_600_000_000_000


class Run(Protocol):
    def __call__(self, tool: str, *arguments: str, stdin: str = "", fails: bool = False) -> Finished: ...


@pytest.fixture
def run(java_tools: JavaTools, bootstrap_servers: str) -> Run:
    """Runs a tool on the broker; it must succeed, or fail if the test says so."""

    def run_on_broker(tool: str, *arguments: str, stdin: str = "", fails: bool = False) -> Finished:
        finished = java_tools.run(tool, *arguments, "--bootstrap-server", bootstrap_servers, stdin=stdin)
        assert (finished.exit_code != 0) == fails, finished.text
        return finished

    return run_on_broker


def write(bootstrap_servers: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    records = [Record(value, b"k", (("h", b"1"),), NOON_MS + n, partition) for n, value in enumerate(values)]
    CLIENTS["confluent-kafka"](bootstrap_servers).produce(topic, records, Sending(linger_ms=10))


def test_topics_are_created_listed_described_altered_and_deleted(run: Run, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    options = ("--partitions", "2", "--replication-factor", "1", "--config", "segment.ms=70000")
    created = run("kafka-topics", "--create", "--topic", name, *options)
    assert created.out == f"Created topic {name}.\n"
    assert name in run("kafka-topics", "--list").out.splitlines()
    described = run("kafka-topics", "--describe", "--topic", name).out.splitlines()
    assert re.match(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: .*segment\.ms=70000",
        described[0],
    )
    for number, line in enumerate(described[1:]):
        assert re.match(rf"\tTopic: {name}\tPartition: {number}\tLeader: (\d+)\tReplicas: \1\tIsr: \1\t", line)
    run("kafka-topics", "--alter", "--topic", name, "--partitions", "5")
    assert "PartitionCount: 5" in run("kafka-topics", "--describe", "--topic", name).out
    again = run("kafka-topics", "--create", "--topic", name, fails=True)
    assert f"Topic '{name}' already exists." in again.text
    assert run("kafka-topics", "--create", "--topic", name, "--if-not-exists").exit_code == 0
    run("kafka-topics", "--delete", "--topic", name)
    missing = run("kafka-topics", "--describe", "--topic", name, fails=True)
    assert f"Topic '{name}' does not exist as expected" in missing.text


def test_only_partitions_in_trouble_are_listed_as_such(run: Run, topic: str) -> None:
    for trouble in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert topic not in run("kafka-topics", "--describe", trouble).out


@pytest.mark.parametrize(
    ("entity_type", "name", "called", "config"),
    [
        ("users", "quota-user", "user-principal 'quota-user'", "producer_byte_rate=1048576"),
        ("clients", "quota-client", "client-id 'quota-client'", "request_percentage=12.5"),
        ("ips", "192.0.2.9", "ip '192.0.2.9'", "connection_creation_rate=7"),
    ],
)
def test_quotas_are_set_described_and_removed(run: Run, entity_type: str, name: str, called: str, config: str) -> None:
    entity = ("--entity-type", entity_type, "--entity-name", name)
    key, value = config.split("=")
    run("kafka-configs", "--alter", *entity, "--add-config", config)
    described = run("kafka-configs", "--describe", *entity).out
    assert f"Quota configs for {called} are {key}={float(value)}" in described
    run("kafka-configs", "--alter", *entity, "--delete-config", key)
    assert key not in run("kafka-configs", "--describe", *entity).out


def test_topic_configs_are_described_and_altered(run: Run, new_topic: NewTopic) -> None:
    topic = new_topic(segment_ms="70000")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    changes = "retention.ms=90000,cleanup.policy=[compact,delete]"
    added = run("kafka-configs", "--alter", *entity, "--add-config", changes)
    assert added.out == f"Completed updating config for topic {topic}.\n"
    described = run("kafka-configs", "--describe", *entity).out
    retention = "  retention.ms=90000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=90000}"
    assert f"Dynamic configs for topic {topic} are:" in described
    assert retention in described.splitlines()
    assert "  cleanup.policy=compact,delete sensitive=false" in described
    run("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms,segment.ms")
    described = run("kafka-configs", "--describe", *entity).out
    assert "segment.ms" not in described
    everything = run("kafka-configs", "--describe", "--all", *entity).out
    assert "  retention.ms=-1" not in everything
    assert "  segment.ms=604800000 sensitive=false synonyms={}" in everything.splitlines()


def test_bad_configs_are_refused(run: Run, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    refused = run("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=long", fails=True)
    assert "Invalid value long for configuration retention.ms: Not a number of type LONG" in refused.text


def test_broker_configs_are_described(run: Run, admin: AdminClient) -> None:
    (broker_id,) = admin.list_topics(timeout=30).brokers
    entity = ("--entity-type", "brokers", "--entity-name", str(broker_id))
    described = run("kafka-configs", "--describe", "--all", *entity).out
    assert f"All configs for broker {broker_id} are:" in described
    assert "  num.network.threads=" in described
    assert re.search(r"^  log\.dirs=\S+ sensitive=false synonyms=\{STATIC_BROKER_CONFIG:log\.dirs=", described, re.M)
    assert (
        "  message.max.bytes=1048588 sensitive=false synonyms={DEFAULT_CONFIG:message.max.bytes=1048588}"
        in described.splitlines()
    )


def test_offsets_are_listed_in_every_way(run: Run, new_topic: NewTopic, bootstrap_servers: str) -> None:
    topic = new_topic(partitions=2)
    write(bootstrap_servers, topic, [b"a", b"b", b"c"], 0)
    write(bootstrap_servers, topic, [b"d"], 1)

    def offsets(*arguments: str) -> str:
        return run("kafka-get-offsets", "--topic", topic, *arguments).out

    assert offsets() == offsets("--time", "-1") == offsets("--time", "latest") == f"{topic}:0:3\n{topic}:1:1\n"
    assert offsets("--time", "earliest") == f"{topic}:0:0\n{topic}:1:0\n"
    assert offsets("--time", "max-timestamp", "--partitions", "0") == f"{topic}:0:2\n"
    assert offsets("--time", "-4") == f"{topic}:0:0\n{topic}:1:0\n"
    assert offsets("--time", str(NOON_MS + 1)) == f"{topic}:0:1\n"


def test_records_are_deleted(run: Run, topic: str, bootstrap_servers: str, tmp_path: Path) -> None:
    write(bootstrap_servers, topic, [b"a", b"b", b"c"])
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}
    (tmp_path / "offsets.json").write_text(json.dumps(wanted))
    deleted = run("kafka-delete-records", "--offset-json-file", str(tmp_path / "offsets.json"))
    assert f"partition: {topic}-0\tlow_watermark: 2" in deleted.out
    assert CLIENTS["confluent-kafka"](bootstrap_servers).beginning_offsets(topic) == [2]


def test_log_directories_are_described(run: Run, topic: str, bootstrap_servers: str) -> None:
    write(bootstrap_servers, topic, [b"x" * 10_000])
    described = run("kafka-log-dirs", "--describe", "--topic-list", topic).out
    (broker,) = json.loads(described.splitlines()[-1])["brokers"]
    (directory,) = broker["logDirs"]
    (partition,) = directory["partitions"]
    assert directory["error"] is None
    assert partition["partition"] == f"{topic}-0"
    assert 10_000 < partition["size"] < 10_200
    assert (partition["offsetLag"], partition["isFuture"]) == (0, False)


def test_the_served_apis_are_listed(run: Run, bootstrap_servers: str, in_zookeeper_mode: bool) -> None:
    produce, fetch, api_versions = (11, 17, 4) if in_zookeeper_mode else (13, 18, 5)
    listed = run("kafka-broker-api-versions").out
    assert re.search(rf"^{bootstrap_servers} \(id: \d+ rack: null isFenced: false\) -> \($", listed, re.M)
    assert re.search(rf"^\tProduce\(0\): 0 to {produce} \[usable: {produce}\],$", listed, re.M)
    assert re.search(rf"^\tFetch\(1\): [04] to {fetch} \[usable: {fetch}\],$", listed, re.M)
    assert re.search(rf"^\tApiVersions\(18\): 0 to {api_versions} \[usable: {api_versions}\],$", listed, re.M)


def test_the_cluster_names_itself(run: Run, admin: AdminClient) -> None:
    cluster_id = admin.list_topics(timeout=30).cluster_id
    assert run("kafka-cluster", "cluster-id").out == f"Cluster ID: {cluster_id}\n"


def test_the_console_producer_writes_what_it_is_given(run: Run, topic: str, bootstrap_servers: str) -> None:
    lines = "k1\tv1\nk2\tvälüe 🦀\nk3\t\n"
    options = ("--reader-property", "parse.key=true", "--compression-codec", "zstd")
    run("kafka-console-producer", "--topic", topic, *options, stdin=lines)
    read = CLIENTS["kafka-python"](bootstrap_servers).read(topic)
    assert [record.content for record in read] == contents(
        [Record(b"v1", b"k1"), Record("välüe 🦀".encode(), b"k2"), Record(b"", b"k3")]
    )


def test_the_console_consumer_reads_a_partition_from_an_offset(run: Run, topic: str, bootstrap_servers: str) -> None:
    write(bootstrap_servers, topic, [b"a", "zwölf".encode(), b"c", b"d"])
    where = ("--topic", topic, "--partition", "0")
    assert run("kafka-console-consumer", *where, "--offset", "1", "--max-messages", "2").out == "zwölf\nc\n"
    assert run("kafka-console-consumer", *where, "--offset", "earliest", "--max-messages", "1").out == "a\n"
    whole = [
        f"--formatter-property=print.{part}=true" for part in ("timestamp", "partition", "offset", "headers", "key")
    ]
    printed = run("kafka-console-consumer", *where, "--offset", "3", "--max-messages", "1", *whole).out
    assert printed == f"CreateTime:{NOON_MS + 3}\tPartition:0\tOffset:3\th:1\tk\td\n"


def test_the_producer_perf_test_writes_every_record(run: Run, topic: str, bootstrap_servers: str) -> None:
    sizes = ("--num-records", "5000", "--record-size", "200", "--throughput", "-1")
    printed = run("kafka-producer-perf-test", "--topic", topic, *sizes).out
    assert "5000 records sent" in printed
    assert CLIENTS["kafka-python"](bootstrap_servers).end_offsets(topic) == [5000]
