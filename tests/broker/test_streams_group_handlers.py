"""StreamsGroupHeartbeat and StreamsGroupDescribe from the handler to the coordinator and to the controller."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.metadata.topic_view import TopicView
from kpybroker.requests.handlers import streams_group_describe, streams_group_heartbeat
from kpybroker.requests.serving.streams_topics import StreamsTopics
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpybroker.runtime.calls.steps import at_once
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kpywire.messages.streams_group_heartbeat import TopicInfo, Topology
from support.streams_requests import source_of, streaming

TOPIC_ID = bytes(range(16))
CHANGELOG = TopicInfo(name="g-counts-changelog", partitions=0, replication_factor=0, topic_configs=[])
COUNTING = Topology(epoch=0, subtopologies=[source_of("0", "t", changelogs=[CHANGELOG])])
READING = Topology(epoch=0, subtopologies=[source_of("0", "t")])


class Groups:
    """A coordinator that applies what it decides."""

    def __init__(self, topics: TopicView) -> None:
        settings = GroupSettings(streams_initial_rebalance_delay_ms=0)
        self.machine = GroupCoordinator(lambda: settings, lambda: topics, Random(1))
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


class Denying:
    """An authorizer that denies some operations, each with some names."""

    def __init__(self, denied: dict[AclOperation, set[str]]) -> None:
        self.denied = denied

    def decide(self, _principal: Any, _host: str, operation: AclOperation, _kind: Any, name: str) -> Any:
        return SimpleNamespace(allows=name not in self.denied.get(operation, ()), logged=False)


class Asking:
    """A broker with one topic, at a level of ``streams.version``; the controller's requests are kept."""

    def __init__(self, level: int = 1, denied: dict[AclOperation, set[str]] | None = None, **configs: str) -> None:
        topic = Topic("t", TOPIC_ID)
        topic.partitions = {index: Partition([1], [1], 1) for index in range(3)}
        topics = TopicView({"t": topic}, {TOPIC_ID: topic}, {}, 1, 1, {}, {})
        self.created: list[tuple[Any, Any]] = []
        self.scheduler = ManualScheduler()
        controller = SimpleNamespace(
            send=lambda request, then: self.created.append((request, then)),
            forward=lambda request, _call, then: self.created.append((request, then)),
        )
        self.broker = SimpleNamespace(
            config=BrokerConfig.load(None, configs),
            scheduler=self.scheduler,
            image=SimpleNamespace(features={"streams.version": level}),
            groups=Groups(topics),
            streams_topics=StreamsTopics(),
            controller=controller,
            authorizer=None if denied is None else Denying(denied),
        )

    def heartbeat(self, epoch: int, member_id: str = "m", **fields: Any) -> Any:
        return self._answer(streams_group_heartbeat, streaming("g", member_id, epoch, **fields))

    def describe(self, *group_ids: str) -> Any:
        request = StreamsGroupDescribeRequest(group_ids=list(group_ids), include_authorized_operations=True)
        return self._answer(streams_group_describe, request).groups

    def _answer(self, module: Any, request: Any) -> Any:
        call = SimpleNamespace(
            api_version=0,
            api_key=88,
            client_id="c",
            client=ConnectedClient("127.0.0.1", 1, "L"),
            principal=ANONYMOUS,
            host="127.0.0.1",
            peer=None,
            versions=None,
        )
        answer = module.handle(self.broker, request, call)
        if hasattr(answer, "send"):
            answer = at_once(answer)
        encode(answer, 0)
        return answer


def test_a_member_joins_is_described_and_leaves() -> None:
    asking = Asking()
    joined = asking.heartbeat(0, topology=READING)
    assert (joined.error_code, joined.member_id, joined.member_epoch, joined.status) == (0, "m", 2, [])
    (tasks,) = joined.active_tasks
    assert (tasks.subtopology_id, tasks.partitions) == ("0", [0, 1, 2])
    (group,) = asking.describe("g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.authorized_operations > 0
    (member,) = group.members
    assert (member.member_id, member.process_id, member.client_host) == ("m", "m", "/127.0.0.1")
    assert member.assignment == member.target_assignment
    assert asking.heartbeat(-1).error_code == 0
    assert asking.describe("g")[0].group_state == "Empty"


@pytest.mark.parametrize(
    ("level", "configs"), [(0, {}), (1, {"group.coordinator.rebalance.protocols": "classic,consumer"})]
)
def test_without_the_feature_or_the_protocol_both_are_unsupported(level: int, configs: dict[str, str]) -> None:
    asking = Asking(level, **configs)
    assert asking.heartbeat(0, topology=READING).error_code == error_codes.UNSUPPORTED_VERSION
    assert asking.describe("g")[0].error_code == error_codes.UNSUPPORTED_VERSION


def test_missing_topics_are_asked_for_once_and_a_refusal_shows_for_two_heartbeats() -> None:
    asking = Asking()
    joined = asking.heartbeat(0, topology=COUNTING)
    missing = "Internal topics are missing: g-counts-changelog"
    assert [(each.status_code, each.status_detail) for each in joined.status] == [(3, missing)]
    ((request, then),) = asking.created
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("g-counts-changelog", 3, -1)
    asking.heartbeat(2)
    assert len(asking.created) == 1
    refused = CreatableTopicResult(name=topic.name, error_code=error_codes.POLICY_VIOLATION, error_message="too many")
    then(CreateTopicsResponse(topics=[refused]))
    notified = asking.heartbeat(2)
    assert notified.status[0].status_detail == f"{missing}; Creation failed: g-counts-changelog (too many)."
    assert len(asking.created) == 1
    asking.scheduler.advance(2 * notified.heartbeat_interval_ms)
    assert asking.heartbeat(2).status[0].status_detail == missing
    assert len(asking.created) == 2


def test_a_member_without_permission_to_create_topics_gets_a_status_and_no_topics() -> None:
    denied = {AclOperation.CREATE: {"kafka-cluster", "g-counts-changelog"}}
    asking = Asking(denied=denied)
    status = asking.heartbeat(0, topology=COUNTING).status
    assert status[0].status_detail.endswith("; Unauthorized to CREATE on topics g-counts-changelog.")
    assert not asking.created


def test_topics_that_may_not_be_described_are_refused_and_hidden() -> None:
    asking = Asking(denied={AclOperation.DESCRIBE: set()})
    assert asking.heartbeat(0, topology=READING).error_code == error_codes.NONE
    asking.broker.authorizer.denied[AclOperation.DESCRIBE].add("t")
    assert asking.heartbeat(0, topology=READING).error_code == error_codes.TOPIC_AUTHORIZATION_FAILED
    (group,) = asking.describe("g")
    assert (group.error_code, group.members) == (error_codes.TOPIC_AUTHORIZATION_FAILED, [])
    assert group.error_message == streams_group_describe.DENIED


def test_a_topic_without_an_answer_is_asked_for_again() -> None:
    topics = StreamsTopics()
    assert topics.begin(["a", "b"], 0, 100) == ["a", "b"]
    assert topics.begin(["a", "c"], 99, 100) == ["c"]
    assert topics.begin(["a"], 100, 100) == ["a"]


def test_refusals_are_bounded() -> None:
    topics = StreamsTopics()
    for number in range(3_000):
        refused = CreatableTopicResult(name=str(number), error_code=error_codes.INVALID_CONFIG, error_message=None)
        topics.end([], CreateTopicsResponse(topics=[refused]), 0, 1_000)
    assert topics.refusal("0", 0) is None
    assert topics.refusal("2999", 0) == error_codes.message(error_codes.INVALID_CONFIG)
