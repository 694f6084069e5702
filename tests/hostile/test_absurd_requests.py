"""Requests that are well formed and make no sense, or ask for much more than they are worth.

The error codes are those of Apache Kafka 4.3.1 for the same requests.
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from attacker import Attacker, create_topic, produce, produce_request
from test_batches import NOW_MS, sealed
from watched import WatchedBroker

from kpywire import api, error_codes
from kpywire.compression import ZSTD, compress
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kpywire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.record import Record, build_batch, encode_record
from support.raw_client import api_key_of
from support.waiting import eventually

MIB = 1024 * 1024
TOPIC = "absurd"
BATCH = build_batch([Record(timestamp=NOW_MS, value=b"x" * 10)])
TOPIC_NAMES = (
    "../absurd",
    "..",
    ".",
    "",
    "a/b",
    "a\0b",
    "a\nb",
    "a\\b",
    "~",
    "C:",
    "x" * 250,
    "x" * 32_000,
    "é",
    "a b",
)


@pytest.fixture(scope="module", autouse=True)
def _topic(broker: WatchedBroker) -> None:
    with Attacker(broker.port) as client:
        create_topic(client, TOPIC)
        produce(client, TOPIC, BATCH)


def fetch(partitions: Sequence[FetchPartition], topic: str = TOPIC, **fields: Any) -> FetchRequest:
    topics = [FetchTopic(topic=topic, partitions=list(partitions))]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 0, "topics": topics, **fields})


def partition(index: int = 0, offset: int = 0, max_bytes: int = 1000, **fields: int) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def create(*names: str, partitions: int = 1, factor: int = 1, **fields: Any) -> CreateTopicsRequest:
    given = {"assignments": [], "configs": [], **fields}
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **given) for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=False)


def create_assigned(index: int, *brokers: int) -> CreateTopicsRequest:
    assignment = CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
    return create("assigned", partitions=-1, factor=-1, assignments=[assignment])


def offsets(*partitions: tuple[int, int], isolation_level: int = 0) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index, timestamp in partitions]
    topics = [ListOffsetsTopic(name=TOPIC, partitions=asked)]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)


def delete_records(index: int, offset: int, topic: str = TOPIC) -> DeleteRecordsRequest:
    wanted = [DeleteRecordsPartition(partition_index=index, offset=offset)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=wanted)], timeout_ms=1000)


FETCH, CREATE, OFFSETS, PRODUCE, DELETE_RECORDS, CREATE_PARTITIONS = 12, 7, 7, 9, 2, 3
LOWEST, HIGHEST = -(2**63), 2**63 - 1
ABSURDITIES: dict[str, tuple[Any, int, list[int]]] = {
    "fetch of partition -1": (fetch([partition(-1)]), FETCH, [0, 3]),
    "fetch of offset -1": (fetch([partition(offset=-1)]), FETCH, [0, 1]),
    "fetch of the lowest offset": (fetch([partition(offset=LOWEST)]), FETCH, [0, 1]),
    "fetch of the highest offset": (fetch([partition(offset=HIGHEST)]), FETCH, [0, 1]),
    "fetch of no byte of a partition": (fetch([partition(max_bytes=0)]), FETCH, [0, 0]),
    "fetch of -1 bytes of a partition": (fetch([partition(max_bytes=-1)]), FETCH, [0, -1]),
    "fetch of no bytes": (fetch([partition()], max_bytes=0), FETCH, [0, 0]),
    "fetch of -1 bytes": (fetch([partition()], max_bytes=-1), FETCH, [0, -1]),
    "fetch of at least -1 bytes": (fetch([partition()], min_bytes=-1, max_wait_ms=2**31 - 1), FETCH, [0, 0]),
    "fetch that waits for -5 ms": (fetch([partition(offset=1)], min_bytes=1, max_wait_ms=-5), FETCH, [0, 0]),
    "fetch of one partition a thousand times": (fetch([partition()] * 1000), FETCH, [0, 0]),
    "fetch of replica 5": (fetch([partition()], replica_id=5), FETCH, [0, 6]),
    "fetch with isolation level 5": (fetch([partition()], isolation_level=5), FETCH, [-1, -1]),
    "fetch in an unknown session": (fetch([partition()], session_id=77, session_epoch=1), FETCH, [70]),
    "fetch in session epoch -5": (fetch([partition()], session_epoch=-5), FETCH, [70]),
    "fetch in a later epoch": (fetch([partition(current_leader_epoch=99)]), FETCH, [0, 75]),
    "fetch in epoch -2": (fetch([partition(current_leader_epoch=-2)]), FETCH, [0, 0]),
    "fetch after a later epoch": (fetch([partition(last_fetched_epoch=99)]), FETCH, [0, 1]),
    "fetch of ../": (fetch([partition()], topic="../../etc/passwd"), FETCH, [0, 3]),
    "offset of partition -1": (offsets((-1, -1)), OFFSETS, [3]),
    "offset by timestamp -100": (offsets((0, -100)), OFFSETS, [35]),
    "offset by the highest timestamp": (offsets((0, HIGHEST)), OFFSETS, [0]),
    "offset of a partition twice": (offsets((0, -1), (0, -1)), OFFSETS, [42]),
    "offset with isolation level 9": (offsets((0, -1), isolation_level=9), OFFSETS, [-1]),
    "produce to partition -1": (produce_request(TOPIC, BATCH, partition=-1), PRODUCE, [3]),
    "produce to ../": (produce_request("../" + TOPIC, BATCH), PRODUCE, [3]),
    "produce with acks 2": (produce_request(TOPIC, BATCH, acks=2), PRODUCE, [21]),
    "create a million partitions": (create("m", partitions=1_000_000), CREATE, [44, 0]),
    "create two billion partitions": (create("m", partitions=2**31 - 1), CREATE, [44, 0]),
    "create -5 partitions": (create("m", partitions=-5), CREATE, [37, 0]),
    "create no partition": (create("m", partitions=0), CREATE, [37, 0]),
    "create 32 767 replicas": (create("m", factor=32_767), CREATE, [38, 0]),
    "create a topic twice": (create("d", "d"), CREATE, [42, 0]),
    "create __cluster_metadata": (create("__cluster_metadata"), CREATE, [42, 0]),
    "assign to one broker twice": (create_assigned(0, 1, 1), CREATE, [39, 0]),
    "assign to nobody": (create_assigned(0), CREATE, [39, 0]),
    "assign partition -1": (create_assigned(-1, 1), CREATE, [39, 0]),
    "an unknown config": (create("c", configs=[CreatableTopicConfig(name="no.such", value="1")]), CREATE, [40, 0]),
    "a config that names a file": (
        create("c", configs=[CreatableTopicConfig(name="compression.type", value="${file:/etc/passwd:x}")]),
        CREATE,
        [40, 0],
    ),
    "two billion partitions more": (
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=2**31 - 1, assignments=None)],
            timeout_ms=1000,
            validate_only=True,
        ),
        CREATE_PARTITIONS,
        [44],
    ),
    "delete records up to -2": (delete_records(0, -2), DELETE_RECORDS, [1]),
    "delete records beyond the end": (delete_records(0, HIGHEST), DELETE_RECORDS, [1]),
    "delete records of partition -1": (delete_records(-1, 0), DELETE_RECORDS, [3]),
}  # fmt: skip


@pytest.mark.parametrize("absurdity", ABSURDITIES.values(), ids=ABSURDITIES.keys())
def test_an_absurd_request_gets_kafkas_error(attacker: Attacker, absurdity: tuple[Any, int, list[int]]) -> None:
    request, version, expected = absurdity
    codes = [int(code) for code in re.findall(r"error_code=(-?\d+)", repr(attacker.call(request, version)))]
    assert codes == expected


@pytest.mark.parametrize("name", TOPIC_NAMES, ids=lambda name: ascii(name[:20]))
def test_no_name_leads_out_of_the_log_directory(target: WatchedBroker, attacker: Attacker, name: str) -> None:
    inside, outside = set(target.data.iterdir()), set(target.directory.iterdir())
    assert attacker.call(create(name), 7).topics[0].error_code == error_codes.INVALID_TOPIC_EXCEPTION
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    assert attacker.call(asked, 9).topics[0].error_code == error_codes.INVALID_TOPIC_EXCEPTION
    assert produce(attacker, name, BATCH).error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
    assert attacker.call(deletion, 6).responses[0].error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    gone = attacker.call(delete_records(0, -1, name), 2).topics[0].partitions[0]
    assert gone.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    described = DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
    answer = attacker.call(DescribeConfigsRequest(resources=[described]), 4).results[0]
    assert answer.error_code == error_codes.INVALID_TOPIC_EXCEPTION
    assert set(target.directory.iterdir()) == outside
    assert set(target.data.iterdir()) == inside


def test_one_topic_asked_for_a_hundred_thousand_times_is_answered_once(
    target: WatchedBroker, attacker: Attacker
) -> None:
    create_topic(attacker, "wide", 500)
    before = target.memory_bytes()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="wide")] * 100_000)
    answer = attacker.call(request, 9)
    assert [len(topic.partitions) for topic in answer.topics] == [500]
    assert target.peak_memory_bytes() - before < 100 * MIB


def test_describing_configs_again_and_again_has_an_end(target: WatchedBroker, attacker: Attacker) -> None:
    before = target.memory_bytes()
    resources = [
        DescribeConfigsResource(resource_type=32, resource_name=f"group {number}", configuration_keys=None)
        for number in range(60_000)
    ]
    attacker.send(DescribeConfigsRequest(resources=resources, include_synonyms=True), 4)
    answer = attacker.read_frame()
    refused = answer.count(b"A request may not ask for more than 400000 configs")
    assert 35_000 < refused < 45_000
    assert target.peak_memory_bytes() - before < 300 * MIB


def test_a_hundred_thousand_names_in_one_request(target: WatchedBroker, attacker: Attacker) -> None:
    names = [f"name-{number:06}" for number in range(100_000)]
    before = target.memory_bytes()
    create_all = attacker.call(create(*names), 7)
    assert {topic.error_code for topic in create_all.topics} == {error_codes.POLICY_VIOLATION}
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    answer = attacker.call(asked, 9)  # which asks for all of them to be created, too many for one request
    assert {topic.error_code for topic in answer.topics} == {error_codes.UNKNOWN_TOPIC_OR_PARTITION}
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1000)
    responses = attacker.call(deletion, 6).responses
    assert {response.error_code for response in responses} == {error_codes.UNKNOWN_TOPIC_OR_PARTITION}
    assert target.peak_memory_bytes() - before < 250 * MIB


def test_thousands_of_groups_looked_for_at_once_create_their_topic_once(
    target: WatchedBroker, attacker: Attacker
) -> None:
    metadata_log = target.data / "__cluster_metadata-0" / "00000000000000000000.log"
    size = metadata_log.stat().st_size
    request = FindCoordinatorRequest(coordinator_keys=[f"group {number}" for number in range(20_000)])
    assert len(attacker.call(request, 4).coordinators) == 20_000
    one = FindCoordinatorRequest(coordinator_keys=["group"])
    eventually(
        lambda: attacker.call(one, 4).coordinators[0].error_code == error_codes.NONE, "the topic of the groups is there"
    )
    assert metadata_log.stat().st_size - size < MIB


def test_deleting_records_under_a_reader_is_out_of_range_or_records(attacker: Attacker, target: WatchedBroker) -> None:
    create_topic(attacker, "eroding")
    with Attacker(target.port) as reader, Attacker(target.port) as eraser:
        for number in range(200):
            produce(attacker, "eroding", BATCH)
            reader.send(fetch([partition(offset=max(number - 3, 0))], topic="eroding"), FETCH)
            eraser.send(delete_records(0, number, "eroding"), 2)
            answer = reader.receive(api.FETCH, FETCH).responses[0].partitions[0]
            assert answer.error_code in (error_codes.NONE, error_codes.OFFSET_OUT_OF_RANGE)
            deleted = eraser.receive(api.DELETE_RECORDS, 2).topics[0].partitions[0]
            assert (deleted.error_code, deleted.low_watermark) == (error_codes.NONE, number)


def test_a_time_search_in_a_huge_batch_does_not_delay_others(target: WatchedBroker) -> None:
    count = 900_000
    section = b"".join(encode_record(number, 0, None, b"") for number in range(count))
    section += encode_record(count, 50, None, b"")
    header = {"attributes": ZSTD, "record_count": count + 1, "max_timestamp": NOW_MS + 50}
    with Attacker(target.port) as client:
        create_topic(client, "dense")
        assert produce(client, "dense", sealed(header, compress(ZSTD, section))).error_code == error_codes.NONE
    clients = [Attacker(target.port) for _ in range(10)]
    asked = ListOffsetsPartition(partition_index=0, timestamp=NOW_MS + 40)
    for client in clients:
        client.send(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="dense", partitions=[asked])]), 7)
    for client in clients:
        answer = client.receive(api.LIST_OFFSETS, 7).topics[0].partitions[0]
        assert (answer.timestamp, answer.offset) == (NOW_MS + 50, count)
        client.sock.close()


@pytest.mark.parametrize("in_session", [True, False], ids=["in a session", "without a session"])
def test_a_topic_that_goes_and_comes_back_under_parked_fetches(target: WatchedBroker, in_session: bool) -> None:
    epoch = 0 if in_session else -1
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="phoenix")], timeout_ms=30_000)
    with Attacker(target.port) as admin:
        for _ in range(5):
            first_id = create_topic(admin, "phoenix", 3)
            readers = [Attacker(target.port) for _ in range(20)]
            for reader in readers:
                reader.call(ApiVersionsRequest(), 0)  # a connection that is not accepted yet would fetch too late
            for number, reader in enumerate(readers):
                topic = FetchTopic(topic_id=first_id, partitions=[partition(index) for index in range(3)])
                if number % 2:
                    topic = FetchTopic(topic="phoenix", partitions=[partition(index) for index in range(3)])
                wait = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, session_epoch=epoch, topics=[topic])
                reader.send(wait, 12 if number % 2 else 13)
            assert admin.call(deletion, 6).responses[0].error_code == error_codes.NONE
            second_id = create_topic(admin, "phoenix", 1)
            assert second_id != first_id
            produce(admin, "phoenix", BATCH)
            for number, reader in enumerate(readers):
                answer = reader.receive(api.FETCH, 12 if number % 2 else 13)
                codes = {each.error_code for topic in answer.responses for each in topic.partitions}
                gone = error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.UNKNOWN_TOPIC_ID
                assert codes <= {*gone, error_codes.NOT_LEADER_OR_FOLLOWER}, codes
                reader.sock.close()
            assert admin.call(deletion, 6).responses[0].error_code == error_codes.NONE


def test_every_absurdity_is_of_an_api_that_is_served(attacker: Attacker) -> None:
    served = {entry.api_key for entry in attacker.call(ApiVersionsRequest(), 0).api_keys}
    assert {api_key_of(request) for request, _, _ in ABSURDITIES.values()} <= served
