"""The hand-written frames over many topics, and the reading of their answers, held against kpywire."""

from framing import answer, body

from benchmarks.raw import frames, many
from benchmarks.rows import topics
from kpywire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kpywire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kpywire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kpywire.messages.fetch import FetchRequest, FetchResponse
from kpywire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kpywire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kpywire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

NOW_MS = 1_700_000_000_000


def test_topics_are_created_with_their_partitions_and_configs() -> None:
    request = body(many.create_topics({"a": 1, "bb": 7}, {"retention.ms": "5"}), CreateTopicsRequest)
    assert [(topic.name, topic.num_partitions, topic.replication_factor) for topic in request.topics] == [
        ("a", 1, 1),
        ("bb", 7, 1),
    ]
    assert [(config.name, config.value) for config in request.topics[1].configs] == [("retention.ms", "5")]
    assert not request.validate_only


def test_the_errors_of_created_and_deleted_topics_are_read() -> None:
    created = CreateTopicsResponse(
        throttle_time_ms=0,
        topics=[
            CreatableTopicResult(name="a", error_code=0, error_message=None),
            CreatableTopicResult(name="bb", error_code=36, error_message="it exists"),
        ],
    )
    assert many.created_errors(answer(created, 19, many.CREATE_TOPICS_VERSION)) == {"a": 0, "bb": 36}
    deleted = DeleteTopicsResponse(
        throttle_time_ms=0,
        responses=[DeletableTopicResult(name="a", error_code=0), DeletableTopicResult(name="bb", error_code=3)],
    )
    assert many.deleted_errors(answer(deleted, 20, many.DELETE_TOPICS_VERSION)) == {"a": 0, "bb": 3}
    assert body(many.delete_topics(["a", "bb"]), DeleteTopicsRequest).topic_names == ["a", "bb"]


def test_metadata_are_asked_for_by_name_or_for_all() -> None:
    assert [topic.name for topic in body(many.metadata(["a", "bb"]), MetadataRequest).topics] == ["a", "bb"]
    assert body(many.metadata(), MetadataRequest).topics is None
    assert body(many.client_metadata(), MetadataRequest).topics is None


def test_only_partitions_with_a_leader_count_as_visible() -> None:
    def partition(index: int, leader: int, code: int) -> MetadataResponsePartition:
        return MetadataResponsePartition(
            error_code=code, partition_index=index, leader_id=leader, replica_nodes=[1, 2], isr_nodes=[1]
        )

    response = MetadataResponse(
        throttle_time_ms=0,
        brokers=[MetadataResponseBroker(node_id=1, host="here", port=9092, rack=None)],
        controller_id=1,
        topics=[
            MetadataResponseTopic(error_code=0, name="a", partitions=[partition(0, 1, 0), partition(1, -1, 5)]),
            MetadataResponseTopic(error_code=3, name="bb", partitions=[]),
        ],
    )
    assert many.led_partitions(answer(response, 3, many.METADATA_VERSION)) == {"a": 1, "bb": 0}


def test_a_batch_goes_to_every_partition_of_every_topic() -> None:
    batch = frames.batch_of_bytes(213, NOW_MS)
    request = body(many.produce({"a": range(2), "bb": [5]}, batch), ProduceRequest)
    assert [(topic.name, [each.index for each in topic.partition_data]) for topic in request.topic_data] == [
        ("a", [0, 1]),
        ("bb", [5]),
    ]
    assert {bytes(each.records) for topic in request.topic_data for each in topic.partition_data} == {batch}


def test_the_errors_of_a_produce_are_read() -> None:
    response = ProduceResponse(
        throttle_time_ms=0,
        responses=[
            TopicProduceResponse(
                name="a",
                partition_responses=[
                    PartitionProduceResponse(index=0, error_code=0, base_offset=1),
                    PartitionProduceResponse(index=1, error_code=6, base_offset=-1),
                ],
            ),
            TopicProduceResponse(
                name="bb", partition_responses=[PartitionProduceResponse(index=5, error_code=0, base_offset=1)]
            ),
        ],
    )
    read = list(many.produced_errors(answer(response, 0, many.PRODUCE_VERSION)))
    assert read == [("a", 0, 0), ("a", 1, 6), ("bb", 5, 0)]


def test_a_fetch_asks_for_every_partition_in_its_session() -> None:
    framed = many.fetch({"a": range(3)}, offset=9, session=(77, 4), partition_bytes=100, max_wait_ms=0)
    request = body(framed, FetchRequest)
    assert (request.session_id, request.session_epoch, request.min_bytes) == (77, 4, 0)
    assert [(each.partition, each.fetch_offset, each.partition_max_bytes) for each in request.topics[0].partitions] == [
        (index, 9, 100) for index in range(3)
    ]
    response = FetchResponse(throttle_time_ms=0, error_code=70, session_id=77, responses=[])
    assert many.fetched_session(answer(response, 1, many.FETCH_VERSION)) == (70, 77)


def test_the_ends_of_many_topics_are_asked_for_and_read() -> None:
    request = body(many.latest_offsets({"a": 2, "bb": 1}), ListOffsetsRequest)
    asked = [
        (topic.name, each.partition_index, each.timestamp) for topic in request.topics for each in topic.partitions
    ]
    assert asked == [("a", 0, -1), ("a", 1, -1), ("bb", 0, -1)]
    answered = [
        ListOffsetsTopicResponse(
            name=name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=0, error_code=code, timestamp=-1, offset=9 + code)
            ],
        )
        for name, code in (("a", 0), ("bb", 6))
    ]
    response = ListOffsetsResponse(topics=answered)
    assert list(many.listed_offsets(answer(response, 2, frames.LIST_OFFSETS_VERSION))) == [(0, 9), (6, 15)]


def test_one_topic_and_a_page_of_all_are_described() -> None:
    assert [topic.name for topic in body(many.client_metadata(["a"]), MetadataRequest).topics] == ["a"]
    request = body(many.describe_topic_partitions(), DescribeTopicPartitionsRequest)
    assert (request.topics, request.response_partition_limit, request.cursor) == ([], 2000, None)


def test_a_nonzero_throttle_time_in_topic_answers_is_refused() -> None:
    """Elsewhere there may be anything, such as the number of brokers."""
    throttle_ms = 0x0201_0000
    metadata = MetadataResponse(throttle_time_ms=throttle_ms, brokers=[], topics=[])
    described = DescribeTopicPartitionsResponse(throttle_time_ms=throttle_ms, topics=[])
    for response, api_key, version, place in (
        (metadata, 3, many.CLIENT_METADATA_VERSION, topics.METADATA_THROTTLE),
        (described, 75, many.DESCRIBE_TOPICS_VERSION, topics.DESCRIBE_THROTTLE),
    ):
        assert answer(response, api_key, version)[place : place + 2] == b"\x02\x01"
