"""Metadata and DescribeTopicPartitions on the wire, as Apache Kafka answers them."""

from collections.abc import Callable

import pytest

from conftest import NewTopic
from kpywire import error_codes
from kpywire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from support.raw_client import RawClient
from support.raw_requests import (
    INVALID_NAMES,
    NO_ID,
    NOT_ASKED,
    UNKNOWN_ID,
    create,
    deletion,
    metadata,
    metadata_of,
    wait_until_gone,
    wait_until_led,
)
from support.waiting import eventually

TOPIC_OPERATIONS = 0b1101_1111_1000
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""
CLUSTER_OPERATIONS = 0b1_1111_1010_0000
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""
EVERY_METADATA = range(14)
INTERNAL = ("__consumer_offsets", "__share_group_state", "__transaction_state")


def by_id(*topics: tuple[str | None, bytes]) -> MetadataRequest:
    wanted = [MetadataRequestTopic(name=name, topic_id=topic_id) for name, topic_id in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


def errors(response: MetadataResponse) -> dict[str | None, int]:
    codes = {topic.name: topic.error_code for topic in response.topics}
    assert len(codes) == len(response.topics)
    return codes


@pytest.mark.parametrize("version", EVERY_METADATA)
def test_every_version_of_metadata_has_the_leader_and_its_address(
    raw: RawClient, new_topic: NewTopic, bootstrap_servers: str, version: int
) -> None:
    topic = new_topic(partitions=3)
    answer: MetadataResponse = raw.call(metadata(topic, create=True), version)
    (broker,) = answer.brokers
    assert f"{broker.host}:{broker.port}" == bootstrap_servers
    assert broker.rack is None
    (described,) = answer.topics
    assert (described.error_code, described.name, described.is_internal) == (0, topic, False)
    assert [partition.partition_index for partition in described.partitions] == [0, 1, 2]
    for partition in described.partitions:
        assert (partition.error_code, partition.leader_id) == (0, broker.node_id)
        assert (partition.replica_nodes, partition.isr_nodes) == ([broker.node_id], [broker.node_id])
        assert partition.offline_replicas == []
        assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert (described.topic_id != NO_ID) == (version >= 10)
    assert answer.controller_id == (broker.node_id if version >= 1 else -1)
    assert (answer.cluster_id is not None) == (version >= 2)
    assert described.topic_authorized_operations == answer.cluster_authorized_operations == NOT_ASKED
    assert answer.error_code == error_codes.NONE


@pytest.mark.parametrize("version", EVERY_METADATA)
def test_all_topics_are_asked_for_by_none_at_first_and_by_null_later(raw: RawClient, topic: str, version: int) -> None:
    nothing, null = MetadataRequest(topics=[]), MetadataRequest(topics=None)
    if version == 0:
        assert topic in errors(raw.call(nothing, version))
    else:
        assert topic in errors(raw.call(null, version))
        assert raw.call(nothing, version).topics == []
        assert len(raw.call(nothing, version).brokers) == 1


@pytest.mark.parametrize("version", EVERY_METADATA)
def test_names_that_no_topic_can_have_are_refused(raw: RawClient, topic: str, version: int) -> None:
    answer = raw.call(metadata(*INVALID_NAMES, topic, create=True), version)
    assert errors(answer) == {**dict.fromkeys(INVALID_NAMES, error_codes.INVALID_TOPIC_EXCEPTION), topic: 0}
    assert all(not refused.partitions and refused.topic_id == NO_ID for refused in answer.topics if refused.error_code)


@pytest.mark.parametrize("version", [4, 8, 9, 12, 13])
def test_unknown_topics_are_reported_with_the_known_ones_and_not_created(
    raw: RawClient, topic: str, unused_topic: Callable[[], str], version: int
) -> None:
    unknown = unused_topic()
    for _ in range(2):
        answer = raw.call(metadata(unknown, topic), version)
        assert errors(answer) == {unknown: error_codes.UNKNOWN_TOPIC_OR_PARTITION, topic: 0}
    assert unknown not in errors(raw.call(MetadataRequest(topics=None), version))


@pytest.mark.parametrize("version", [0, 1, 3, 4, 9, 12, 13])
def test_a_topic_is_created_when_a_client_asks_for_it(
    raw: RawClient, unused_topic: Callable[[], str], version: int
) -> None:
    topic = unused_topic()
    assert errors(raw.call(metadata(topic, topic, create=True), version)) == {
        topic: error_codes.UNKNOWN_TOPIC_OR_PARTITION
    }
    eventually(lambda: metadata_of(raw, topic).error_code == error_codes.NONE, "the new topic")
    (partition,) = metadata_of(raw, topic).partitions
    assert partition.partition_index == 0
    wait_until_led(raw, topic)


def test_a_topic_whose_name_collides_is_not_created(raw: RawClient, unused_topic: Callable[[], str]) -> None:
    colliding = unused_topic().replace("-", "_")
    topic = colliding.replace("_", ".")
    create(raw, topic)
    for _ in range(3):
        assert errors(raw.call(metadata(colliding, create=True), 9)) == {
            colliding: error_codes.UNKNOWN_TOPIC_OR_PARTITION
        }
    raw.call(deletion(topic), 6)


@pytest.mark.parametrize("version", EVERY_METADATA)
def test_a_topic_named_twice_is_described_once(raw: RawClient, topic: str, version: int) -> None:
    assert errors(raw.call(metadata(topic, topic, create=True), version)) == {topic: 0}


@pytest.mark.parametrize("version", [8, 9, 10])
def test_authorized_operations_are_in_the_answer_when_requested(raw: RawClient, topic: str, version: int) -> None:
    asked = metadata(topic, "no-such-topic", include_topic_authorized_operations=True)
    asked.include_cluster_authorized_operations = True
    answer = raw.call(asked, version)
    assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS
    assert {found.topic_authorized_operations for found in answer.topics} == {TOPIC_OPERATIONS}


@pytest.mark.parametrize("version", [11, 12, 13])
def test_later_versions_tell_operations_on_topics_only(raw: RawClient, topic: str, version: int) -> None:
    answer = raw.call(metadata(topic, "a b", include_topic_authorized_operations=True), version)
    assert answer.cluster_authorized_operations == NOT_ASKED
    assert {found.topic_authorized_operations for found in answer.topics} == {TOPIC_OPERATIONS}


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_asked_for_by_id(raw: RawClient, new_topic: NewTopic, version: int) -> None:
    topic, other = new_topic(), new_topic()
    topic_id = metadata_of(raw, topic).topic_id
    asked = by_id((None, topic_id), (None, UNKNOWN_ID), (None, topic_id), (other, NO_ID))
    asked.include_topic_authorized_operations = True
    answer = raw.call(asked, version)
    found = {described.topic_id: described for described in answer.topics}
    assert len(answer.topics) == 2, "once each, and none by its name"
    assert (found[topic_id].name, len(found[topic_id].partitions)) == (topic, 1)
    assert found[topic_id].topic_authorized_operations == TOPIC_OPERATIONS
    unknown = found[UNKNOWN_ID]
    assert (unknown.error_code, unknown.name, unknown.partitions) == (error_codes.UNKNOWN_TOPIC_ID, None, [])
    assert unknown.topic_authorized_operations == NOT_ASKED
    assert errors(raw.call(by_id((other, topic_id)), version)) == {topic: 0}


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_by_the_versions_that_only_have_room_for_them(raw: RawClient, topic: str, version: int) -> None:
    topic_id = metadata_of(raw, topic).topic_id
    for name, wanted_id in ((None, topic_id), (topic, topic_id), (None, UNKNOWN_ID), (None, NO_ID)):
        answer = raw.call(by_id((name, wanted_id), (topic, NO_ID)), version)
        assert (answer.brokers, answer.cluster_id, answer.controller_id) == ([], None, -1)
        assert [(refused.error_code, refused.name, refused.topic_id) for refused in answer.topics] == [
            (error_codes.INVALID_REQUEST, name or "", wanted_id),
            (error_codes.INVALID_REQUEST, topic, NO_ID),
        ]


def test_a_topic_asked_for_by_neither_name_nor_id_fails_the_request(raw: RawClient, topic: str) -> None:
    answer = raw.call(by_id((None, NO_ID), (topic, NO_ID)), 13)
    assert answer.error_code == error_codes.UNKNOWN_SERVER_ERROR
    assert answer.brokers == []
    assert errors(answer) == {"": error_codes.UNKNOWN_SERVER_ERROR, topic: error_codes.UNKNOWN_SERVER_ERROR}


def test_an_id_belongs_to_one_life_of_a_name(raw: RawClient, unused_topic: Callable[[], str]) -> None:
    topic = unused_topic()
    first = create(raw, topic)
    assert raw.call(deletion(topic), 6).responses[0].error_code == error_codes.NONE
    wait_until_gone(raw, topic)
    assert raw.call(by_id((None, first)), 12).topics[0].error_code == error_codes.UNKNOWN_TOPIC_ID
    second = create(raw, topic)
    assert second != first
    assert metadata_of(raw, topic).partitions[0].leader_epoch == 0


# DescribeTopicPartitions


def page(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    start = None
    if cursor is not None:
        start = DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [TopicRequest(name=name) for name in names]
    return DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=start)


def shape(
    response: DescribeTopicPartitionsResponse,
) -> tuple[list[tuple[str | None, int, list[int]]], tuple[str, int] | None]:
    """(name, error, partitions) of each topic in order, and the cursor of the next page."""
    topics = [
        (topic.name, topic.error_code, [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]
    cursor = response.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


@pytest.fixture
def three_topics(raw: RawClient, unused_topic: Callable[[], str]) -> tuple[str, str, str]:
    """Topics of 3, 1 and 5 partitions, in the order of their names."""
    first, second, third = sorted(unused_topic() for _ in range(3))
    for name, partitions in ((first, 3), (second, 1), (third, 5)):
        create(raw, name, partitions)
    return first, second, third


def test_topics_are_described_in_the_order_of_their_names(raw: RawClient, three_topics: tuple[str, str, str]) -> None:
    first, second, third = three_topics
    whole = [(first, 0, [0, 1, 2]), (second, 0, [0]), (third, 0, [0, 1, 2, 3, 4])]
    assert shape(raw.call(page(third, first, second, first), 0)) == (whole, None)
    described = raw.call(page(first), 0).topics[0]
    node_id = raw.call(metadata(), 9).brokers[0].node_id
    for partition in described.partitions:
        assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, node_id, 0)
        assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([node_id], [node_id], [])
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
    assert described.topic_id == metadata_of(raw, first).topic_id
    assert described.topic_authorized_operations == TOPIC_OPERATIONS


def test_an_invalid_topic_name_gets_its_own_error_and_is_not_created(
    raw: RawClient, topic: str, unused_topic: Callable[[], str]
) -> None:
    unknown = unused_topic()
    answer = raw.call(page("a b", unknown, topic, "x" * 250, "."), 0)
    assert shape(answer)[0] == sorted(
        [
            ("a b", error_codes.INVALID_TOPIC_EXCEPTION, []),
            (unknown, error_codes.UNKNOWN_TOPIC_OR_PARTITION, []),
            (topic, error_codes.NONE, [0]),
            ("x" * 250, error_codes.INVALID_TOPIC_EXCEPTION, []),
            (".", error_codes.INVALID_TOPIC_EXCEPTION, []),
        ]
    )
    assert {described.topic_authorized_operations for described in answer.topics} == {TOPIC_OPERATIONS}
    assert unknown not in errors(raw.call(MetadataRequest(topics=None), 9))


def test_pages_end_at_the_limit_and_a_cursor_leads_to_the_next(
    raw: RawClient, three_topics: tuple[str, str, str]
) -> None:
    first, second, third = three_topics
    pages = {limit: shape(raw.call(page(*three_topics, limit=limit), 0)) for limit in (1, 2, 3, 4, 5, 8, 9, 10, 5000)}
    all_of_first, all_of_second = (first, 0, [0, 1, 2]), (second, 0, [0])
    whole = ([all_of_first, all_of_second, (third, 0, [0, 1, 2, 3, 4])], None)
    assert pages == {
        1: ([(first, 0, [0])], (first, 1)),
        2: ([(first, 0, [0, 1])], (first, 2)),
        3: ([all_of_first], (second, 0)),
        4: ([all_of_first, all_of_second], (third, 0)),
        5: ([all_of_first, all_of_second, (third, 0, [0])], (third, 1)),
        8: ([all_of_first, all_of_second, (third, 0, [0, 1, 2, 3])], (third, 4)),
        9: whole,
        10: whole,
        5000: whole,
    }
    for limit in (0, -1):
        assert shape(raw.call(page(first, limit=limit), 0)) == ([(first, 0, [0])], (first, 1))


def test_paging_through_everything_meets_every_partition_once(
    raw: RawClient, three_topics: tuple[str, str, str]
) -> None:
    met: list[tuple[str | None, int]] = []
    cursor = None
    for _ in range(20):
        topics, cursor = shape(raw.call(page(*three_topics, limit=2, cursor=cursor), 0))
        met += [(name, index) for name, _, partitions in topics for index in partitions]
        if cursor is None:
            break
    first, second, third = three_topics
    expected = {first: 3, second: 1, third: 5}
    assert met == [(name, index) for name, count in expected.items() for index in range(count)]


def test_a_cursor_stands_at_a_topic_that_is_asked_for(raw: RawClient, three_topics: tuple[str, str, str]) -> None:
    first, second, third = three_topics
    rest_of_first = ([(first, 0, [2]), (second, 0, [0]), (third, 0, [0, 1, 2, 3, 4])], None)
    assert shape(raw.call(page(*three_topics, cursor=(first, 2)), 0)) == rest_of_first
    beyond = shape(raw.call(page(*three_topics, cursor=(first, 100)), 0))
    assert beyond == ([(first, 0, []), (second, 0, [0]), (third, 0, [0, 1, 2, 3, 4])], None)
    refused = ([(name, error_codes.INVALID_REQUEST, []) for name in three_topics], None)
    for cursor in ((first, -1), (first + "-", 0), ("a", 0), ("zzz", 0), ("", 0)):
        assert shape(raw.call(page(*three_topics, cursor=cursor), 0)) == refused, cursor


def test_without_names_a_cursor_may_stand_anywhere(raw: RawClient, three_topics: tuple[str, str, str]) -> None:
    first, second, third = three_topics
    met = [name for name, _, _ in shape(raw.call(page(cursor=(first + "-", 7)), 0))[0]]
    assert first not in met
    assert met[met.index(second) :].count(third) == 1
    assert met == sorted(met)
    assert shape(raw.call(page(cursor=("zzzzzzzz", 0)), 0)) == ([], None)
