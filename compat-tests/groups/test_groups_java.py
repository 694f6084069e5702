"""Java's consumers and Kafka's tools for groups do their normal day: share a topic, describe, reset, delete, list."""

import re
import secrets
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition

from conftest import NewTopic
from support.clients import CLIENTS, Record
from support.group_members import ConfluentMember, Ledger
from support.java_tools import Finished, JavaTools
from support.waiting import eventually

pytestmark = pytest.mark.java

PARTITIONS = 6
NOON_MS = 1_600_000_000_000
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"

Run = Callable[..., Finished]


@pytest.fixture
def group() -> str:
    return f"java-{secrets.token_hex(4)}"


@pytest.fixture
def run(java_tools: JavaTools, bootstrap_servers: str) -> Run:
    """Runs a tool on the broker; it must succeed, or fail if the test says so."""

    def run_on_broker(tool: str, *arguments: str, fails: bool = False) -> Finished:
        finished = java_tools.run(tool, *arguments, "--bootstrap-server", bootstrap_servers)
        assert (finished.exit_code != 0) == fails, finished.text
        return finished

    return run_on_broker


def write(bootstrap_servers: str, topic: str, count: int, partitions: int = 1) -> None:
    records = [
        Record(str(number).encode(), timestamp_ms=NOON_MS + 1_000 * number, partition=number % partitions)
        for number in range(count)
    ]
    CLIENTS["confluent-kafka"](bootstrap_servers).produce(topic, records)


def rows(table: str) -> list[dict[str, str]]:
    """The lines of a tool's table by its headings."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    heading = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[heading], line, strict=False)) for line in lines[heading + 1 :]]


def committed(bootstrap_servers: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return [each.offset for each in consumer.committed(asked, timeout=30)]
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "assignor", [COOPERATIVE, RANGE, "consumer"], ids=["cooperative-sticky", "range", "consumer-protocol"]
)
def test_java_consumers_come_and_go_and_every_record_is_read_once(
    assignor: str, java_tools: JavaTools, bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(PARTITIONS)
    arguments = [bootstrap_servers, topic, group, assignor, str(PARTITIONS)]
    finished = java_tools.run("group-of-consumers", *arguments, timeout_s=120)
    counts = re.fullmatch(r"lost (\d+), repeated (\d+), owned twice (\d+), read (\d+)\n", finished.out)
    assert counts is not None, finished.text
    lost, repeated, owned_twice, read = map(int, counts.groups())
    assert (lost, repeated, owned_twice) == (0, 0, 0)
    assert read == sum(committed(bootstrap_servers, group, topic, PARTITIONS)) > 0


def test_the_console_consumer_reads_as_a_member_of_a_group(
    run: Run, bootstrap_servers: str, topic: str, group: str
) -> None:
    write(bootstrap_servers, topic, 10)
    options = ["--topic", topic, "--group", group, "--timeout-ms", "20000"]
    first = run("kafka-console-consumer", *options, "--from-beginning", "--max-messages", "4")
    assert first.out.split() == ["0", "1", "2", "3"]
    again = run("kafka-console-consumer", *options, "--max-messages", "6")
    assert again.out.split() == ["4", "5", "6", "7", "8", "9"]
    assert committed(bootstrap_servers, group, topic, 1) == [10]


def test_the_performance_test_reads_as_a_group(run: Run, bootstrap_servers: str, topic: str, group: str) -> None:
    write(bootstrap_servers, topic, 2_000)
    finished = run(
        "kafka-consumer-perf-test", "--topic", topic, "--group", group, "--num-records", "2000", "--hide-header"
    )
    figures = finished.out.strip().split(", ")
    assert int(figures[4]) == 2_000
    assert committed(bootstrap_servers, group, topic, 1) == [2_000]


def test_groups_are_listed_and_described(
    run: Run, bootstrap_servers: str, new_topic: NewTopic, group: str, in_zookeeper_mode: bool
) -> None:
    topic = new_topic(2)
    write(bootstrap_servers, topic, 20, 2)
    groups = ["kafka-consumer-groups", "--group", group, "--describe"]
    ledger = Ledger()
    with ConfluentMember("member", ledger, bootstrap_servers, topic, group) as member:
        member.wait_for(2)
        eventually(lambda: committed(bootstrap_servers, group, topic, 2) == [10, 10], "the commits")
        write(bootstrap_servers, topic, 3)
        eventually(lambda: ledger.count() == 23, "the records")
        eventually(lambda: committed(bootstrap_servers, group, topic, 2) == [13, 10], "the commits")
        offsets = {row["PARTITION"]: row for row in rows(run(*groups).out)}
        for partition, end in (("0", "13"), ("1", "10")):
            row = offsets[partition]
            assert (row["TOPIC"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == (topic, end, end, "0")
            assert row["CONSUMER-ID"].startswith("rdkafka-")
            assert (row["HOST"], row["CLIENT-ID"]) == ("/127.0.0.1", "rdkafka")
        (row,) = rows(run(*groups, "--members", "--verbose").out)
        assert (row["CLIENT-ID"], row["#PARTITIONS"]) == ("rdkafka", "2")
        (row,) = rows(run(*groups, "--state").out)
        assert (row["ASSIGNMENT-STRATEGY"], row["STATE"], row["#MEMBERS"]) == ("range", "Stable", "1")
        listed = rows("GROUP STATE\n" + run("kafka-consumer-groups", "--list", "--state").out.partition("\n")[2])
        assert {"GROUP": group, "STATE": "Stable"} in listed
        assert group in run("kafka-groups", "--list", "--consumer").out
        member.leave()
    write(bootstrap_servers, topic, 5)
    described = run(*groups)
    assert f"Consumer group '{group}' has no active members." in described.text
    assert {row["PARTITION"]: row["LAG"] for row in rows(described.out)} == {"0": "5", "1": "0"}
    assert group in run("kafka-consumer-groups", "--list").out.split()
    missing = run("kafka-consumer-groups", "--group", group + "-", "--describe")
    words = f"GroupIdNotFoundException: Group {group}- not found."
    if in_zookeeper_mode:
        words = f"Error: Consumer group '{group}-' does not exist."
    assert words in missing.text


def test_offsets_are_reset_and_deleted(run: Run, bootstrap_servers: str, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(2)
    write(bootstrap_servers, topic, 20, 2)
    reset = ["kafka-consumer-groups", "--group", group, "--topic", topic, "--reset-offsets"]

    def to(*how: str) -> list[int]:
        shown = [int(row["NEW-OFFSET"]) for row in sorted(rows(run(*reset, *how, "--dry-run").out), key=_partition)]
        before = committed(bootstrap_servers, group, topic, 2)
        run(*reset, *how, "--execute")
        after = committed(bootstrap_servers, group, topic, 2)
        assert after == shown != before
        return after

    assert to("--to-latest") == [10, 10]
    assert to("--to-earliest") == [0, 0]
    assert to("--to-offset", "7") == [7, 7]
    assert to("--shift-by", "-2") == [5, 5]
    assert to("--to-datetime", "2020-09-13T12:26:48.000") == [4, 4]

    ledger = Ledger()
    with ConfluentMember("member", ledger, bootstrap_servers, topic, group) as member:
        member.wait_for(2)
        assert "inactive" in run(*reset, "--to-earliest", "--execute").text
        eventually(lambda: ledger.count() == 12, "the records")
        member.leave()
    assert committed(bootstrap_servers, group, topic, 2) == [10, 10]
    run("kafka-consumer-groups", "--group", group, "--topic", f"{topic}:1", "--delete-offsets")
    assert committed(bootstrap_servers, group, topic, 2) == [10, -1001]


def _partition(row: dict[str, str]) -> str:
    return row["PARTITION"]


def test_groups_are_deleted(run: Run, bootstrap_servers: str, topic: str, group: str) -> None:
    write(bootstrap_servers, topic, 1)
    with ConfluentMember("member", Ledger(), bootstrap_servers, topic, group) as member:
        member.wait_for(1)
        delete: Sequence[str] = ["kafka-consumer-groups", "--group", group, "--delete"]
        assert "not empty" in run(*delete).text
        member.leave()
    assert "successful" in run(*delete).text
    assert group not in run("kafka-consumer-groups", "--list").out.split()
