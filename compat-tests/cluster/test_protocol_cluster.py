"""DescribeCluster and DescribeLogDirs on the wire, and what a broker that is configured otherwise answers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import NewTopic, started
from kpywire import error_codes
from kpywire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kpywire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kpywire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kpywire.messages.metadata import MetadataRequest
from oracle import BrokerProcess
from support.raw_client import RawClient, connect
from support.raw_requests import (
    BROKER,
    DELETE,
    NOT_ASKED,
    SET,
    TOPIC,
    append,
    changed,
    create,
    creation,
    deletion,
    described,
    incremental_alteration,
    metadata,
    metadata_of,
    topic_named,
    wait_until_led,
)
from support.targets import TARGETS
from support.waiting import eventually

CLUSTER_OPERATIONS = 0b1_1111_1010_0000
BROKERS, CONTROLLERS = 1, 2
STATIC = 4


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_a_cluster_is_described_as_metadata_does(raw: RawClient, bootstrap_servers: str, version: int) -> None:
    cluster: DescribeClusterResponse = raw.call(DescribeClusterRequest(), version)
    known = raw.call(metadata(), 9)
    (broker,) = cluster.brokers
    assert f"{broker.host}:{broker.port}" == bootstrap_servers
    assert (broker.broker_id, broker.rack, broker.is_fenced) == (known.brokers[0].node_id, None, False)
    assert (cluster.cluster_id, cluster.controller_id) == (known.cluster_id, known.controller_id)
    assert (cluster.error_code, cluster.error_message, cluster.endpoint_type) == (error_codes.NONE, None, BROKERS)
    assert cluster.cluster_authorized_operations == NOT_ASKED
    asked = raw.call(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert asked.cluster_authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize("version", [1, 2])
def test_a_broker_answers_for_brokers_only(raw: RawClient, version: int) -> None:
    mismatch = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    expected = {CONTROLLERS: (error_codes.MISMATCHED_ENDPOINT_TYPE, mismatch)} | {
        kind: (error_codes.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {kind}") for kind in (0, 3, -1)
    }
    for kind, refusal in expected.items():
        cluster = raw.call(
            DescribeClusterRequest(endpoint_type=kind, include_cluster_authorized_operations=True), version
        )
        assert (cluster.error_code, cluster.error_message) == refusal
        assert (cluster.cluster_id, cluster.controller_id, cluster.brokers) == ("", -1, [])
        assert cluster.cluster_authorized_operations == NOT_ASKED


def test_fenced_brokers_are_described_when_asked_for(raw: RawClient) -> None:
    cluster = raw.call(DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [broker.is_fenced for broker in cluster.brokers] == [False]


# DescribeLogDirs


def log_dirs(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=partitions) for name, partitions in topics]
    )


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_partitions_are_found_in_their_directory(raw: RawClient, new_topic: NewTopic, version: int) -> None:
    topic = new_topic(partitions=3)
    append(raw, topic, 1000, partition=2)
    response: DescribeLogDirsResponse = raw.call(log_dirs((topic, [0, 2, 9, 0]), ("no-such-topic", [0])), version)
    assert response.error_code == error_codes.NONE
    (directory,) = response.results
    assert directory.error_code == error_codes.NONE
    assert Path(directory.log_dir).is_absolute()
    found = sizes(directory)
    assert found == {(topic, 0): 0, (topic, 2): found[topic, 2]}
    assert found[topic, 2] > 61
    for partition in directory.topics[0].partitions:
        assert (partition.offset_lag, partition.is_future_key) == (0, False)
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0
    else:
        assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)
    assert not directory.is_cordoned
    (every,) = raw.call(DescribeLogDirsRequest(topics=None), version).results
    assert sizes(every).items() >= found.items()
    assert (topic, 1) in sizes(every)


@pytest.mark.parametrize("version", range(1, 6))
def test_a_directory_without_what_is_asked_for_is_described_all_the_same(
    raw: RawClient, topic: str, version: int
) -> None:
    for request in (log_dirs(), log_dirs((topic, [])), log_dirs(("no-such-topic", [0])), log_dirs((topic, [7]))):
        (directory,) = raw.call(request, version).results
        assert (directory.error_code, sizes(directory)) == (error_codes.NONE, {})


# A broker that is configured otherwise


@pytest.fixture(scope="module")
def otherwise(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with two directories that creates nothing by itself, deletes nothing, and gives short answers."""
    directory = tmp_path_factory.mktemp("otherwise")
    properties = {
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "false",
        "log.dirs": f"{directory / 'one'},{directory / 'two'}",
        "max.request.partition.size.limit": "4",
        "message.max.bytes": "2000",
        "num.partitions": "3",
    }
    with TARGETS[startable_target](properties, directory=directory) as broker:
        started.append(broker)
        yield broker
        started.remove(broker)


@pytest.fixture
def other(otherwise: BrokerProcess) -> Iterator[RawClient]:
    with connect(otherwise.bootstrap_servers) as client:
        yield client


UnusedTopic = Callable[[], str]


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_stay_where_deletion_is_disabled(other: RawClient, unused_topic: UnusedTopic, version: int) -> None:
    topic = unused_topic()
    create(other, topic)
    (result,) = other.call(deletion(topic, version=version), version).responses
    disabled = error_codes.TOPIC_DELETION_DISABLED if version >= 3 else error_codes.INVALID_REQUEST
    assert (result.name, result.error_code, result.error_message) == (topic, disabled, None)
    assert metadata_of(other, topic).error_code == error_codes.NONE


@pytest.mark.parametrize("version", [0, 1, 4, 12])
def test_topics_are_not_created_where_that_is_disabled(
    other: RawClient, unused_topic: UnusedTopic, version: int
) -> None:
    topic = unused_topic()
    for _ in range(3):
        (answer,) = other.call(metadata(topic, create=True), version).topics
        assert answer.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert topic not in {found.name for found in other.call(MetadataRequest(topics=None), 9).topics}


def test_topics_get_the_brokers_partitions_and_configs(other: RawClient, unused_topic: UnusedTopic) -> None:
    topic = unused_topic()
    (result,) = other.call(creation(topic_named(topic, -1, -1)), 7).topics
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    limit = next(config for config in result.configs if config.name == "max.message.bytes")
    assert (limit.value, limit.config_source) == ("2000", STATIC)
    wait_until_led(other, topic, 3)
    config = described(other, TOPIC, topic, synonyms=True)["max.message.bytes"]
    assert (config.value, config.config_source) == ("2000", STATIC)
    assert [(one.value, one.source) for one in config.synonyms] == [("2000", STATIC), ("1048588", 5)]


def test_pages_of_partitions_are_as_long_as_the_broker_allows(other: RawClient, unused_topic: UnusedTopic) -> None:
    topic = unused_topic()
    create(other, topic, 5)
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)], response_partition_limit=2000)
    answer = other.call(request, 0)
    assert len(answer.topics[0].partitions) == 4
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == (topic, 4)


def test_partitions_are_spread_over_the_directories(other: RawClient, unused_topic: UnusedTopic) -> None:
    topic = unused_topic()
    create(other, topic, 8)
    wanted = {(topic, index) for index in range(8)}

    def spread() -> list[set[tuple[str, int]]]:
        return [set(sizes(result)) for result in other.call(log_dirs((topic, list(range(8)))), 5).results]

    eventually(lambda: set().union(*spread()) == wanted, "all partitions in directories")
    one, two = spread()
    assert one
    assert two
    assert not one & two


def test_directories_that_are_cordoned_get_no_new_partitions(other: RawClient, unused_topic: UnusedTopic) -> None:
    one, two = (result.log_dir for result in other.call(DescribeLogDirsRequest(topics=None), 5).results)

    def cordon(operation: int, value: str | None) -> tuple[int, str | None]:
        request = incremental_alteration((BROKER, "1", [("cordoned.log.dirs", operation, value)]))
        return changed(other, request, 1)[BROKER, "1"]

    def cordoned_become(*paths: str) -> None:
        def found() -> set[str]:
            results = other.call(DescribeLogDirsRequest(topics=[]), 5).results
            return {result.log_dir for result in results if result.is_cordoned}

        eventually(lambda: found() == set(paths), f"{paths} are cordoned")

    code, message = cordon(SET, "/no/such/directory")
    assert code == error_codes.INVALID_REQUEST
    assert "Missing entries : /no/such/directory" in str(message)
    assert cordon(SET, one) == (error_codes.NONE, None)
    cordoned_become(one)
    topic = unused_topic()
    create(other, topic, 4)
    wanted = {(topic, index) for index in range(4)}
    asked = log_dirs((topic, list(range(4))))
    eventually(
        lambda: {r.log_dir: set(sizes(r)) for r in other.call(asked, 5).results} == {one: set(), two: wanted},
        "all new partitions in the other directory",
    )
    assert cordon(SET, "*") == (error_codes.NONE, None)
    cordoned_become(one, two)
    refusal = (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned."
    )

    def refused() -> bool:
        (answer,) = other.call(creation(topic_named(unused_topic()), validate_only=True), 7).topics
        return bool(answer.error_message == refusal)

    eventually(refused, "the controller knows of the directories")
    assert cordon(DELETE, None) == (error_codes.NONE, None)
    cordoned_become()
