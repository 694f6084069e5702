"""The hand-written frames of the groups of Kafka 4, and the reading of their answers, held against kpywire."""

from framing import answer, body

from benchmarks.raw import heartbeats, sharing
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from kpywire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kpywire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

TOPIC_ID = bytes(range(16))


def test_a_member_says_that_it_is_a_java_client() -> None:
    assert body(heartbeats.java_client(), ApiVersionsRequest).client_software_name == "apache-kafka-java"


def test_a_consumer_joins_and_stays_and_says_what_it_owns() -> None:
    joins = body(heartbeats.consumer_heartbeat("g", "m", 0, ["t"], {}), ConsumerGroupHeartbeatRequest)
    assert (joins.group_id, joins.member_id, joins.member_epoch) == ("g", "m", 0)
    assert (joins.subscribed_topic_names, joins.topic_partitions) == (["t"], [])
    assert joins.rebalance_timeout_ms > 0
    stays = body(heartbeats.consumer_heartbeat("g", "m", 5), ConsumerGroupHeartbeatRequest)
    assert (stays.subscribed_topic_names, stays.topic_partitions, stays.rebalance_timeout_ms) == (None, None, -1)
    owns = body(heartbeats.consumer_heartbeat("g", "m", 5, None, {TOPIC_ID: [1, 2]}), ConsumerGroupHeartbeatRequest)
    assert [(bytes(each.topic_id), each.partitions) for each in owns.topic_partitions] == [(TOPIC_ID, [1, 2])]


def test_answers_to_heartbeats_are_read() -> None:
    given = ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC_ID, partitions=[3, 4])
    response = ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=0,
        member_id="m",
        member_epoch=7,
        heartbeat_interval_ms=250,
        assignment=Assignment(topic_partitions=[given]),
    )
    assert heartbeats.beaten(answer(response, 68, 0)) == heartbeats.Beaten(0, 7, 250, {TOPIC_ID: [3, 4]})
    refused = ShareGroupHeartbeatResponse(error_code=25, error_message="no", member_epoch=0, heartbeat_interval_ms=0)
    assert heartbeats.beaten(answer(refused, 76, 1)) == heartbeats.Beaten(25, 0, 0, None)


def test_a_share_consumer_joins() -> None:
    joins = body(heartbeats.share_heartbeat("g", "m", 0, ["t"]), ShareGroupHeartbeatRequest)
    assert (joins.group_id, joins.member_id, joins.member_epoch, joins.subscribed_topic_names) == ("g", "m", 0, ["t"])


def test_records_are_accepted_with_the_next_fetch() -> None:
    framed = sharing.share_fetch("g", "m", 3, TOPIC_ID, {1: [(5, 9)], 2: []}, max_records=500, max_wait_ms=100)
    request = body(framed, ShareFetchRequest)
    assert (request.group_id, request.member_id, request.share_session_epoch) == ("g", "m", 3)
    assert (request.max_wait_ms, request.max_records) == (100, 500)
    (topic,) = request.topics
    assert bytes(topic.topic_id) == TOPIC_ID
    first, second = topic.partitions
    (batch,) = first.acknowledgement_batches
    assert (first.partition_index, batch.first_offset, batch.last_offset, batch.acknowledge_types) == (1, 5, 9, [1])
    assert (second.partition_index, second.acknowledgement_batches) == (2, [])


def test_acquired_records_are_counted() -> None:
    def part(index: int, code: int, *acquired: tuple[int, int]) -> PartitionData:
        return PartitionData(
            partition_index=index,
            error_code=0,
            acknowledge_error_code=code,
            current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
            records=b"x" * 300,
            acquired_records=[AcquiredRecords(first_offset=a, last_offset=b, delivery_count=1) for a, b in acquired],
        )

    topic = ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part(0, 0, (5, 9), (12, 12)), part(1, 121)])
    response = ShareFetchResponse(
        throttle_time_ms=0, error_code=0, acquisition_lock_timeout_ms=30_000, responses=[topic], node_endpoints=[]
    )
    seen = sharing.shared(answer(response, 78, sharing.SHARE_FETCH_VERSION))
    assert seen == sharing.Shared(0, {0: [(5, 9), (12, 12)], 1: []}, [121])
    assert seen.records == 6


def test_the_configs_of_a_group_are_set() -> None:
    framed = sharing.group_configs("g", {"share.auto.offset.reset": "earliest"})
    (resource,) = body(framed, IncrementalAlterConfigsRequest).resources
    assert (resource.resource_type, resource.resource_name) == (32, "g")
    assert [(each.name, each.value) for each in resource.configs] == [("share.auto.offset.reset", "earliest")]
    refused = AlterConfigsResourceResponse(error_code=40, error_message="no", resource_type=32, resource_name="g")
    response = IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=[refused])
    assert sharing.configs_error(answer(response, 44, 1)) == 40
