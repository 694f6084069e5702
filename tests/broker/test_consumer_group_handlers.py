"""ConsumerGroupHeartbeat and ConsumerGroupDescribe from the handler to the coordinator, with the feature finalised."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.metadata.topic_view import TopicView
from kpybroker.requests.handlers import consumer_group_describe, consumer_group_heartbeat
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.steps import at_once
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kpywire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

TOPIC_ID = bytes(range(16))


class Groups:
    """A coordinator that applies what it decides."""

    def __init__(self, topics: TopicView) -> None:
        self.machine = GroupCoordinator(GroupSettings, lambda: topics, Random(1))
        self.offset = 0

    def answer_again(self, _key: str, message: Any) -> Any:
        return self.machine.answer_again(message, 0)

    def submit(self, _key: str, event: Any, _refuse: Any, *, answer: Any = None, **_options: Any) -> Any:
        effects = self.machine.decide(event(None), 0)
        for record in effects.records:
            self.machine.apply(record, self.offset, None)
            self.offset += 1
        ((_, message),) = effects.replies
        return message if answer is None else answer(message)


class Asking:
    """A broker with one topic, at a level of ``group.version``."""

    def __init__(self, level: int = 1, **configs: str) -> None:
        topic = Topic("t", TOPIC_ID)
        topic.partitions = {index: Partition([1], [1], 1) for index in range(3)}
        topics = TopicView({"t": topic}, {TOPIC_ID: topic}, {}, 1, 1, {}, {})
        self.broker = SimpleNamespace(
            config=BrokerConfig.load(None, configs),
            scheduler=ManualScheduler(),
            image=SimpleNamespace(features={"group.version": level}),
            groups=Groups(topics),
            authorizer=None,
        )

    def heartbeat(self, version: int = 1, **fields: Any) -> Any:
        message = {"group_id": "g", "member_id": "m", "member_epoch": 0, **fields}
        return self._answer(consumer_group_heartbeat, ConsumerGroupHeartbeatRequest(**message), version)

    def join(self, **fields: Any) -> Any:
        first = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        return self.heartbeat(**{**first, **fields})

    def describe(self, *group_ids: str, version: int = 1) -> Any:
        request = ConsumerGroupDescribeRequest(group_ids=list(group_ids), include_authorized_operations=True)
        return self._answer(consumer_group_describe, request, version).groups

    def _answer(self, module: Any, request: Any, version: int) -> Any:
        call = SimpleNamespace(api_version=version, client_id="c", client=ConnectedClient("127.0.0.1", 1, "L"))
        answer = module.handle(self.broker, request, call)
        if hasattr(answer, "send"):
            answer = at_once(answer)
        encode(answer, version)
        return answer


def test_a_member_joins_is_described_and_leaves() -> None:
    asking = Asking()
    joined = asking.join()
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 2)
    assert joined.heartbeat_interval_ms == 5_000
    (given,) = joined.assignment.topic_partitions
    assert (given.topic_id, given.partitions) == (TOPIC_ID, [0, 1, 2])
    (group,) = asking.describe("g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.assignor_name == "uniform"
    assert group.authorized_operations > 0
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host, member.member_type) == ("m", "c", "/127.0.0.1", 1)
    assert member.assignment == member.target_assignment
    assert member.assignment.topic_partitions[0].topic_name == "t"
    left = asking.heartbeat(member_epoch=-1)
    assert (left.error_code, left.member_epoch, left.heartbeat_interval_ms) == (0, -1, 0)
    assert asking.describe("g")[0].group_state == "Empty"


def test_a_client_of_version_0_gets_a_member_id() -> None:
    made = Asking().join(version=0, member_id="")
    assert (made.error_code, len(made.member_id)) == (0, 22)


OWNED = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=TOPIC_ID, partitions=[0])]
INVALID = (
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"group_id": ""}, "GroupId can't be empty."),
    ({"group_id": " \t"}, "GroupId can't be empty."),
    ({"instance_id": ""}, "InstanceId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
    ({"topic_partitions": OWNED}, "TopicPartitions must be empty when (re-)joining."),
    (
        {"subscribed_topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": -3}, "MemberEpoch is invalid."),
)


@pytest.mark.parametrize(("fields", "text"), INVALID)
def test_a_request_that_cannot_be_right_is_refused_in_kafkas_words(fields: dict[str, Any], text: str) -> None:
    asking = Asking()
    answer = asking.join(**fields)
    assert (answer.error_code, answer.error_message) == (error_codes.INVALID_REQUEST, text)
    assert asking.broker.groups.offset == 0


def test_an_assignor_that_the_broker_does_not_have_is_refused() -> None:
    answer = Asking().join(server_assignor="custom")
    assert answer.error_code == error_codes.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == "ServerAssignor custom is not supported. Supported assignors: uniform, range."


def test_assignors_may_be_configured_by_the_names_of_kafkas_classes() -> None:
    classes = "org.apache.kafka.coordinator.group.assignor."
    asking = Asking(**{"group.consumer.assignors": f"{classes}RangeAssignor,{classes}UniformAssignor"})
    assert asking.join(server_assignor="uniform").error_code == error_codes.NONE
    answer = asking.join(server_assignor="custom")
    assert answer.error_message == "ServerAssignor custom is not supported. Supported assignors: range, uniform."


def test_groups_that_are_not_there_are_named() -> None:
    empty, missing = Asking().describe("", "x")
    assert empty.error_code == error_codes.INVALID_GROUP_ID
    assert (missing.error_code, missing.error_message) == (error_codes.GROUP_ID_NOT_FOUND, "Group x not found.")


@pytest.mark.parametrize("asking", [Asking(0), Asking(**{"group.coordinator.rebalance.protocols": "classic"})])
def test_without_the_feature_nothing_is_served(asking: Asking) -> None:
    assert asking.join().error_code == error_codes.UNSUPPORTED_VERSION
    assert asking.describe("g")[0].error_code == error_codes.UNSUPPORTED_VERSION
