"""The members of all groups of a node count for the interval at which members at rest send heartbeats."""

from typing import Any

from kpybroker.hosts.coordinators.groups import COUNTS_FOR_MS
from kpybroker.machines.groups.beats import AT_REST_MS, MOST_AT_REST
from kpybroker.machines.groups.consumer.target import SETTLING_MS
from kpybroker.testing import Broker
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from support.raw_client import RawClient
from support.waiting import eventually

MORE_THAN_A_SECOND_ALLOWS = MOST_AT_REST + 40


def beat(raw: RawClient, group: str, epoch: int) -> Any:
    joins = epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"member-{group}",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=["letters"] if joins else None,
        topic_partitions=[] if joins else None,
    )
    answer = raw.call(request, 1)
    assert answer.error_code == 0, answer
    return answer


def test_small_groups_in_different_partitions_of_their_topic_share_one_bound() -> None:
    with Broker({"offsets.topic.num.partitions": 5}) as broker, RawClient(broker.port) as raw:
        broker.create_topic("letters")
        raw.call(ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.3.1"), 3)
        asked = FindCoordinatorRequest(key="0", key_type=0)
        eventually(lambda: raw.call(asked, 3).error_code == 0, "a coordinator")
        epoch = beat(raw, "0", 0).member_epoch
        broker.clock.advance(milliseconds=SETTLING_MS + COUNTS_FOR_MS)
        assert beat(raw, "0", epoch).heartbeat_interval_ms == AT_REST_MS
        for number in range(1, MORE_THAN_A_SECOND_ALLOWS):
            beat(raw, str(number), 0)
        broker.clock.advance(milliseconds=COUNTS_FOR_MS)
        expected_ms = MORE_THAN_A_SECOND_ALLOWS * 1_000 // MOST_AT_REST
        assert beat(raw, "0", epoch).heartbeat_interval_ms == expected_ms > AT_REST_MS
