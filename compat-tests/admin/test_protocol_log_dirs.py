"""A partition between the log directories of its broker: AlterReplicaLogDirs, and kafka-reassign-partitions."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import started
from kpybroker.cli import main
from kpywire import error_codes
from kpywire.messages import alter_partition_reassignments as reassignments
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kpywire.messages.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.record import read_records
from oracle import BrokerProcess
from support.java_tools import JavaTools
from support.raw_client import RawClient, connect
from support.raw_requests import (
    BROKER,
    DELETE,
    SET,
    append,
    batch_of,
    create,
    deletion,
    incremental_alteration,
    metadata_of,
    now_ms,
    produce,
    wait_until_gone,
)
from support.targets import TARGETS
from support.waiting import becomes, eventually

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LONGEST = 255 - len("-0." + 32 * "0" + "-future")
"""The longest name of a topic that can move."""


@pytest.fixture(scope="module")
def broker(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One with two directories."""
    directory = tmp_path_factory.mktemp("two")
    properties = {"log.dirs": f"{directory / 'one'},{directory / 'two'}"}
    with TARGETS[startable_target](properties, directory=directory) as process:
        started.append(process)
        yield process
        started.remove(process)


@pytest.fixture
def two(broker: BrokerProcess) -> Iterator[RawClient]:
    with connect(broker.bootstrap_servers) as client:
        yield client


def moves(wanted: Mapping[Path | str, Mapping[str, list[int]]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=str(path),
                topics=[AlterReplicaLogDirTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
            )
            for path, topics in wanted.items()
        ]
    )


def answers(client: RawClient, request: AlterReplicaLogDirsRequest, version: int = 2) -> dict[tuple[str, int], int]:
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in client.call(request, version).results
        for partition in topic.partitions
    }


def places(client: RawClient, topic: str) -> dict[tuple[str, int, bool], DescribeLogDirsPartition]:
    """By the name of the directory, the partition, and whether it is only a copy."""
    return {
        (os.path.basename(directory.log_dir), partition.partition_index, partition.is_future_key): partition
        for directory in client.call(DescribeLogDirsRequest(topics=None), 5).results
        for described in directory.topics
        for partition in described.partitions
        if described.name == topic
    }


def elsewhere(broker: BrokerProcess, client: RawClient, topic: str) -> tuple[Path, Path]:
    """(where partition 0 lies, the other directory)."""
    ((name, _, _),) = [place for place in places(client, topic) if place[1] == 0]
    return broker.directory / name, broker.directory / {"one": "two", "two": "one"}[name]


def throttle(client: RawClient, rate: str | None) -> None:
    change = (RATE, DELETE, None) if rate is None else (RATE, SET, rate)
    answer = client.call(incremental_alteration((BROKER, "1", [change])), 1)
    assert answer.responses[0].error_code == error_codes.NONE


def values(client: RawClient, topic: str) -> list[bytes | None]:
    """Everything in partition 0."""
    found: list[bytes | None] = []
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=len(found), partition_max_bytes=1 << 22)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])
        answer = client.call(request, 12).responses[0].partitions[0]
        assert answer.error_code == error_codes.NONE
        if not answer.records:
            return found
        found += [record.value for record in read_records(answer.records)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_that_cannot_move_gets_the_reason(broker: BrokerProcess, two: RawClient, version: int) -> None:
    topic = f"there-{version}"
    create(two, topic)
    here, there = elsewhere(broker, two, topic)
    nowhere, unknown = error_codes.LOG_DIR_NOT_FOUND, error_codes.UNKNOWN_TOPIC_OR_PARTITION
    for path in ("/nowhere", "one", "", f"{there}/"):
        assert answers(two, moves({path: {topic: [0], "nope": [0]}}), version) == {
            (topic, 0): nowhere,
            ("nope", 0): nowhere,
        }
    refused = answers(two, moves({there: {topic: [7, -1], "": [0], "a b": [0], "__cluster_metadata": [0]}}), version)
    assert set(refused.values()) == {unknown}
    for length, code in ((LONGEST, unknown), (LONGEST + 1, error_codes.INVALID_TOPIC_EXCEPTION)):
        assert answers(two, moves({there: {"x" * length: [0]}}), version) == {("x" * length, 0): code}
    assert answers(two, moves({}), version) == {}
    assert answers(two, moves({here: {topic: [0, 0]}}), version) == {(topic, 0): error_codes.NONE}
    assert set(places(two, topic)) == {(here.name, 0, False)}


def test_a_partition_moves_while_it_is_written_and_read(broker: BrokerProcess, two: RawClient) -> None:
    create(two, "busy")
    here, there = elsewhere(broker, two, "busy")
    for _ in range(8):
        produce(two, "busy", batch_of(now_ms(), size=100_000))
    throttle(two, "100000")
    stop, written = threading.Event(), 8

    def write() -> None:
        nonlocal written
        with connect(broker.bootstrap_servers) as client:
            while not stop.is_set():
                assert append(client, "busy", now_ms()) == written
                written += 1
                stop.wait(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert answers(two, moves({there: {"busy": [0]}})) == {("busy", 0): error_codes.NONE}
        copies = [place for (_, _, is_copy), place in places(two, "busy").items() if is_copy]
        assert all(copy.offset_lag > 0 for copy in copies)
        assert [path.name[-7:] for path in there.glob("busy-0.*")] == ["-future"] * len(copies)
        throttle(two, None)
        becomes(lambda: set(places(two, "busy")), {(there.name, 0, False)}, within_s=60)
        assert len(values(two, "busy")) >= 8
    finally:
        stop.set()
        writer.join()
        throttle(two, None)
    assert len(values(two, "busy")) == written
    assert append(two, "busy", now_ms()) == written
    assert metadata_of(two, "busy").partitions[0].offline_replicas == []
    eventually(lambda: not (here / "busy-0").exists(), "the old directory has another name")


def test_a_move_is_called_off_by_asking_for_where_the_partition_is(broker: BrokerProcess, two: RawClient) -> None:
    create(two, "undecided")
    here, there = elsewhere(broker, two, "undecided")
    for _ in range(8):
        produce(two, "undecided", batch_of(now_ms(), size=100_000))
    throttle(two, "10000")
    for path, expected in (
        (there, {(here.name, 0, False), (there.name, 0, True)}),
        (there, {(here.name, 0, False), (there.name, 0, True)}),
        (here, {(here.name, 0, False)}),
    ):
        assert answers(two, moves({path: {"undecided": [0]}})) == {("undecided", 0): error_codes.NONE}
        becomes(lambda: set(places(two, "undecided")), expected)
    answers(two, moves({there: {"undecided": [0]}}))
    throttle(two, None)
    two.call(deletion("undecided"), 6)
    wait_until_gone(two, "undecided")
    becomes(lambda: set(places(two, "undecided")), set())
    for path in (here, there):
        eventually(lambda path=path: not list(path.glob("undecided-0*-future")), "no copy is left")  # type: ignore[misc]


def test_a_partition_that_comes_later_lies_where_it_was_wanted(broker: BrokerProcess, two: RawClient) -> None:
    wanted = moves({broker.directory / "two": {"later": [0, 1, 2]}})
    assert set(answers(two, wanted).values()) == {error_codes.UNKNOWN_TOPIC_OR_PARTITION}
    create(two, "later", 3)
    becomes(lambda: set(places(two, "later")), {("two", index, False) for index in range(3)})


def test_no_replica_moves_to_a_cordoned_directory(broker: BrokerProcess, two: RawClient) -> None:
    create(two, "stays")
    path = str(broker.directory / "two")
    cordoned = incremental_alteration((BROKER, "1", [("cordoned.log.dirs", SET, path)]))
    assert two.call(cordoned, 1).responses[0].error_code == error_codes.NONE

    def answered() -> set[int]:
        return set(answers(two, moves({path: {"stays": [0], "none": [0]}})).values())

    becomes(answered, {error_codes.INVALID_REPLICA_ASSIGNMENT})
    freed = incremental_alteration((BROKER, "1", [("cordoned.log.dirs", DELETE, None)]))
    assert two.call(freed, 1).responses[0].error_code == error_codes.NONE
    becomes(answered, {error_codes.NONE, error_codes.UNKNOWN_TOPIC_OR_PARTITION})


# AlterPartitionReassignments, which comes before


@pytest.mark.parametrize("version", [0, 1])
def test_only_brokers_that_are_there_get_partitions(two: RawClient, version: int, in_zookeeper_mode: bool) -> None:
    topic = f"reassigned-{version}"
    create(two, topic, 6)
    wanted: list[list[int] | None] = [[1], None, [], [1, 2], [1, 1], [-3]]
    partitions = [
        reassignments.ReassignablePartition(partition_index=index, replicas=replicas)
        for index, replicas in enumerate(wanted)
    ]
    partitions.append(reassignments.ReassignablePartition(partition_index=9, replicas=[1]))
    request = reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            reassignments.ReassignableTopic(name=topic, partitions=partitions),
            reassignments.ReassignableTopic(name="nope", partitions=partitions[:1]),
        ]
    )
    response = two.call(request, version)
    invalid, unknown = error_codes.INVALID_REPLICA_ASSIGNMENT, error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assignment = "The manual partition assignment includes"
    if in_zookeeper_mode:
        assert (response.error_code, response.error_message) == (error_codes.NONE, "")
        found = {
            (one.name, each.partition_index): each.error_code  # Apache Kafka prints sets of Scala in its messages
            for one in response.responses
            for each in one.partitions
        }
        codes = (error_codes.NONE, error_codes.NO_REASSIGNMENT_IN_PROGRESS, *[invalid] * 4)
        assert found == {
            **{(topic, index): code for index, code in enumerate(codes)},
            (topic, 9): unknown,
            ("nope", 0): unknown,
        }
        return
    assert (response.error_code, response.error_message) == (error_codes.NONE, None)
    assert [(one.name, [(p.error_code, p.error_message) for p in one.partitions]) for one in response.responses] == [
        (
            topic,
            [
                (error_codes.NONE, None),
                (error_codes.NO_REASSIGNMENT_IN_PROGRESS, None),
                (invalid, f"{assignment} an empty replica list."),
                (invalid, f"{assignment} broker 2, but no such broker is registered."),
                (invalid, f"{assignment} the broker 1 more than once."),
                (invalid, f"{assignment} broker -3, but no such broker is registered."),
                (unknown, f"Unable to find partition {topic}:9."),
            ],
        ),
        ("nope", [(unknown, "Unable to find a topic named nope.")]),
    ]


@pytest.mark.java
def test_kafka_reassign_partitions_moves_replicas_between_directories(
    broker: BrokerProcess, two: RawClient, java_tools: JavaTools, tmp_path: Path
) -> None:
    topic = f"tool{now_ms()}"
    create(two, topic, 2)
    append(two, topic, now_ms())
    here, there = elsewhere(broker, two, topic)
    plan = tmp_path / "plan.json"
    partitions = [{"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(there)]}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    command = ("kafka-reassign-partitions", "--bootstrap-server", broker.bootstrap_servers)

    def run(*arguments: str) -> str:
        finished = java_tools.run(*command, "--reassignment-json-file", str(plan), *arguments)
        assert finished.exit_code == 0, finished.text
        return finished.out

    begun = run("--execute", "--replica-alter-log-dirs-throttle", "100000000")
    assert f"Successfully started partition reassignment for {topic}-0" in begun
    assert f"Successfully started moving log directory to {there} for replica {topic}-0 with broker 1" in begun
    becomes(lambda: (there.name, 0, False) in places(two, topic), expected=True)
    done = run("--verify")
    assert f"Reassignment of replica {topic}-0-1 completed successfully." in done
    assert "Clearing broker-level throttles on broker 1" in done
    assert here.name != there.name


def test_our_command_empties_a_directory(broker: BrokerProcess, two: RawClient) -> None:
    create(two, "leaving", 2)
    append(two, "leaving", now_ms())
    here, there = elsewhere(broker, two, "leaving")
    words = ("1", "--empty", str(here), "--disk-limit", "100", "-b", broker.bootstrap_servers)

    def run(*options: str) -> str:
        found = CliRunner().invoke(main, ["balance", "directories", *words, *options])
        assert found.exit_code == 0, found.output
        return found.output

    assert f"leaving-0: {here} → {there}" in run()
    assert (here.name, 0, False) in places(two, "leaving"), "a plan moves nothing"
    assert "begun." in run("--apply")
    becomes(lambda: {place[0] for place in places(two, "leaving")}, {there.name})
    becomes(run, "Nothing has to move.\n")  # partitions of other tests have left as well
