"""Topics that clients create, grow and delete through a controller in ZooKeeper: whose znodes they are, and answers.

An operation may be done twice, since its answer may be lost. So a znode that exists may be the controller's own.
"""

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from reigning import Cluster

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls
from kpybroker.hosts.zookeeper.client.client import ZooKeeperError
from kpybroker.hosts.zookeeper.controller.topics import NoKRaft, TopicWrites, WaitingAnswers
from kpybroker.machines.controller.state import ControllerState, StaticSettings
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.client.operations import Create, Delete, Get, Operation, OperationFailed, Set
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.topics import TopicAssignment
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import api, error_codes
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.uuid import ZERO_UUID

T, OTHER_ID = "t", b"o" * 16
LEVEL_OF_3_9 = 21
EXISTS = (error_codes.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
RULES = BrokerConfigRules(BrokerConfig.load())
Meddle = Callable[[Operation], None]


class Answering:
    """A client whose operations are done at once, or twice where the first answer is lost."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.before: list[Meddle] = []
        self.loses_answers = False
        self.done: list[Operation] = []

    async def ask_all_until_answered(self, operations: Sequence[Operation]) -> list[Any]:
        return [self._ask(each) for each in operations]

    async def ask_until_answered(self, operation: Operation) -> Any:
        result = self._ask(operation)
        if isinstance(result, OperationFailed):
            raise ZooKeeperError(result, getattr(operation, "path", ""))
        return result

    def _ask(self, operation: Operation) -> Any:
        for meddle in self.before:
            meddle(operation)
        self.done.append(operation)
        if self.loses_answers:
            self._cluster.admin.ask(operation)
        return self._cluster.admin.ask(operation)


class Writer:
    """The controller's side: a tree, the metadata that it knows, and answers."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = Cluster(())
        self.client = Answering(self.cluster)
        self.image = MetadataImage("c")
        self.scheduler = ManualScheduler()
        self.waiting = WaitingAnswers(self.scheduler)
        self.answers: list[Any] = []
        self._settings = StaticSettings(1, **settings)
        self._rng = Random(1)
        for broker_id in (1, 2):
            self._apply(
                RegisterBrokerRecord(
                    broker_id=broker_id,
                    is_migrating_zk_broker=False,
                    incarnation_id=bytes([broker_id]) * 16,
                    broker_epoch=broker_id,
                    end_points=[BrokerEndpoint(name="PLAINTEXT", host="here", port=9092, security_protocol=0)],
                    features=[],
                    rack=None,
                    fenced=False,
                    in_controlled_shutdown=False,
                    log_dirs=[],
                    cordoned_log_dirs=None,
                )
            )
        client: Any = self.client
        self.writes = TopicWrites(
            client, DefaultAcls(is_secure=False), self.image, self._new_state, self.waiting, self.scheduler.monotonic_ms
        )

    def _apply(self, *records: Any) -> None:
        for record in records:
            self.image.apply(record, self.image.next_offset, MetadataDelta())

    def _new_state(self) -> ControllerState:
        seen = copy(self.image)
        seen.metadata_version = LEVEL_OF_3_9
        return ControllerState(seen, self._settings, RULES, self._rng, lambda: 0, NoKRaft(), 0)

    def learn(self, name: str, leader: int = 1) -> None:
        """The metadata now hold the topic as its znode says, with one leader for all partitions."""
        found = self.cluster.assignment(name)
        assert found.topic_id is not None
        if found.topic_id not in self.image.topics_by_id:
            self._apply(TopicRecord(name=name, topic_id=found.topic_id))
        for number, replicas in found.replicas.items():
            self._apply(
                PartitionRecord(
                    partition_id=number, topic_id=found.topic_id, replicas=list(replicas), isr=list(replicas),
                    removing_replicas=[], adding_replicas=[], leader=leader, leader_epoch=0, partition_epoch=0,
                    leader_recovery_state=0, directories=[], eligible_leader_replicas=None,
                    last_known_elr=None,
                )
            )  # fmt: skip
        self.waiting.look()

    def ask(self, key: int, request: Any, version: int) -> None:
        peer: Any = SimpleNamespace(answered_ns=0)
        call = Call(key, version, None, ConnectedClient("127.0.0.1", 1, "PLAINTEXT"), peer, {})
        asyncio.run(self.writes.take(request, call, self.answers.append))

    def create(self, *names: str, timeout_ms: int = 1_000, **config: str) -> None:
        given = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
        topics = [
            CreatableTopic(name=each, num_partitions=2, replication_factor=2, assignments=[], configs=given)
            for each in names
        ]
        self.ask(api.CREATE_TOPICS, CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=False), 7)

    def created(self) -> list[tuple[str, int, str | None]]:
        (answer,) = self.answers
        return [(each.name, each.error_code, each.error_message) for each in answer.topics]

    def write_topic(self, topic_id: bytes = OTHER_ID, name: str = T) -> None:
        content = TopicAssignment(name, {0: (1,)}, topic_id).encode()
        self.cluster.write(paths.topic(name), content)

    def config_of(self, name: str) -> dict[str, str]:
        path = configs.ConfigEntity(configs.TOPICS, name).path
        return dict(configs.decode_configs(path, self.cluster.admin.ask(Get(path)).data))


def before_the_creation_of(path: str, meddle: Callable[[], object]) -> Meddle:
    left = [meddle]

    def before(operation: Operation) -> None:
        if left and isinstance(operation, Create) and operation.path == path:
            left.pop()()

    return before


# CreateTopics.


def test_a_topic_is_written_and_answered_when_it_has_leaders() -> None:
    writer = Writer()
    writer.create(T, retention_ms="7")
    assert writer.answers == []
    written = writer.cluster.assignment(T)
    assert sorted(written.replicas) == [0, 1]
    assert writer.config_of(T) == {"retention.ms": "7"}
    writer.learn(T, leader=-1)
    assert writer.answers == [], "no partition has a leader yet"
    writer.learn(T)
    assert writer.created() == [(T, 0, None)]
    assert writer.answers[0].topics[0].topic_id == written.topic_id
    writer.scheduler.advance(5_000)
    assert len(writer.answers) == 1


def test_a_topic_whose_leaders_take_too_long_is_answered_without_words() -> None:
    writer = Writer()
    writer.create(T)
    writer.scheduler.advance(999)
    assert writer.answers == []
    writer.scheduler.advance(1)
    assert writer.created() == [(T, error_codes.REQUEST_TIMED_OUT, None)]
    writer.learn(T)
    assert len(writer.answers) == 1
    writer = Writer()
    writer.create(T, timeout_ms=0)
    assert writer.created() == [(T, error_codes.REQUEST_TIMED_OUT, None)], "it waits for nothing"
    assert writer.cluster.is_there(paths.topic(T)), "and creates it all the same"


def test_a_topic_whose_creation_was_answered_too_late_is_created() -> None:
    writer = Writer()
    writer.client.loses_answers = True
    writer.create(T, retention_ms="7")
    writer.learn(T)
    assert writer.created() == [(T, 0, None)]
    assert writer.config_of(T) == {"retention.ms": "7"}


@pytest.mark.parametrize("topic_id", [OTHER_ID, None], ids=["another id", "no id, as old tools write"])
def test_a_topic_that_another_creates_meanwhile_is_not_ones_own(topic_id: bytes | None) -> None:
    writer = Writer()
    content = TopicAssignment(T, {0: (1,)}, topic_id).encode()
    path = paths.topic(T)
    writer.client.before = [before_the_creation_of(path, lambda: writer.cluster.write(path, content))]
    writer.create(T, "u")
    writer.learn("u")
    assert writer.created() == [(T, *EXISTS), ("u", 0, None)]
    refused = writer.answers[0].topics[0]
    assert (refused.topic_id, refused.num_partitions, refused.replication_factor) == (ZERO_UUID, -1, -1)
    assert refused.configs == []
    assert writer.cluster.admin.ask(Get(path)).data == content, "the other's topic stays as it is"


def test_a_topic_that_this_broker_has_not_heard_of_exists() -> None:
    writer = Writer()
    writer.write_topic()
    writer.create(T, "u", retention_ms="7")
    writer.learn("u")
    assert writer.created() == [(T, *EXISTS), ("u", 0, None)]
    assert not writer.cluster.is_there(configs.ConfigEntity(configs.TOPICS, T).path), "its configs are not touched"


def test_a_topic_that_is_being_deleted_is_not_created_again() -> None:
    marked = (error_codes.TOPIC_ALREADY_EXISTS, "Topic 't' is marked for deletion.")
    for is_there in (True, False):
        writer = Writer()
        if is_there:
            writer.write_topic()
        writer.cluster.delete_topic(T)
        writer.create(T)
        assert writer.created() == [(T, *marked)]


def test_configs_of_an_earlier_life_of_a_name_are_replaced() -> None:
    writer = Writer()
    path = configs.ConfigEntity(configs.TOPICS, T).path
    writer.cluster.write(path, configs.encode_configs({"segment.ms": "1"}))
    writer.create(T, retention_ms="7")
    assert writer.config_of(T) == {"retention.ms": "7"}


def test_all_configs_are_there_before_a_topic_is() -> None:
    writer = Writer()
    writer.create(T, "u", retention_ms="7")
    created = [each.path for each in writer.client.done if isinstance(each, Create)]
    assert created == [
        *[configs.ConfigEntity(configs.TOPICS, each).path for each in (T, "u")],
        *[paths.topic(each) for each in (T, "u")],
    ]


@pytest.mark.parametrize("parent", ["/config/topics", paths.TOPICS])
def test_a_refusal_of_zookeeper_fails_the_request(parent: str) -> None:
    writer = Writer()
    writer.client.before = [
        before_the_creation_of(f"{parent}/{T}", lambda: writer.cluster.remove(parent)),
    ]
    writer.create(T)
    assert writer.created() == [(T, error_codes.UNKNOWN_SERVER_ERROR, None)]


def test_impossible_counts_are_refused_in_the_words_of_zookeepers_time() -> None:
    writer = Writer()
    topics = [CreatableTopic(name="few", num_partitions=1, replication_factor=5, assignments=[], configs=[])]
    request = CreateTopicsRequest(topics=topics, timeout_ms=1_000, validate_only=False)
    writer.ask(api.CREATE_TOPICS, request, 7)
    words = "Replication factor: 5 larger than available brokers: 2."
    assert writer.created() == [("few", error_codes.INVALID_REPLICATION_FACTOR, words)]
    assert not writer.cluster.is_there(paths.topic("few"))


# CreatePartitions.


def grown_to(writer: Writer, count: int, timeout_ms: int = 1_000) -> None:
    topics = [CreatePartitionsTopic(name=T, count=count, assignments=None)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=False)
    writer.ask(api.CREATE_PARTITIONS, request, 3)


def existing() -> Writer:
    writer = Writer()
    writer.create(T)
    writer.learn(T)
    writer.answers.clear()
    return writer


def test_a_topic_grows_and_is_answered_when_its_partitions_have_leaders() -> None:
    writer = existing()
    topic_id = writer.cluster.assignment(T).topic_id
    grown_to(writer, 4)
    assert writer.answers == []
    found = writer.cluster.assignment(T)
    assert (sorted(found.replicas), found.topic_id) == ([0, 1, 2, 3], topic_id)
    writer.learn(T)
    assert [(each.name, each.error_code) for each in writer.answers[0].results] == [(T, 0)]


def test_growth_without_leaders_times_out() -> None:
    writer = existing()
    grown_to(writer, 3)
    writer.scheduler.advance(1_000)
    (result,) = writer.answers[0].results
    assert (result.error_code, result.error_message) == (error_codes.REQUEST_TIMED_OUT, None)


def test_a_change_by_another_meanwhile_is_kept() -> None:
    writer = existing()
    before = writer.cluster.assignment(T)
    changed = TopicAssignment(T, before.replicas, before.topic_id, adding={0: (2,)})
    left = [changed]

    def meddle(operation: Operation) -> None:
        if left and isinstance(operation, Set):
            writer.cluster.assign(left.pop())

    writer.client.before = [meddle]
    grown_to(writer, 3)
    found = writer.cluster.assignment(T)
    assert sorted(found.replicas) == [0, 1, 2]
    assert found.adding == {0: (2,)}
    assert [type(each) for each in writer.client.done[-4:]] == [Get, Set, Get, Set]


def test_a_topic_that_is_gone_cannot_grow() -> None:
    writer = existing()
    writer.cluster.remove(paths.topic(T))
    grown_to(writer, 3)
    assert writer.answers[0].results[0].error_code == error_codes.UNKNOWN_SERVER_ERROR
    writer = existing()
    left = [paths.topic(T)]

    def meddle(operation: Operation) -> None:
        if left and isinstance(operation, Set):
            writer.cluster.admin.ask(Delete(left.pop()))

    writer.client.before = [meddle]
    grown_to(writer, 3)
    assert writer.answers[0].results[0].error_code == error_codes.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (2, "Topic already has 2 partitions."),
        (1, "Topic currently has 2 partitions, which is higher than the requested 1."),
    ],
)
def test_a_topic_does_not_shrink(count: int, words: str) -> None:
    writer = existing()
    grown_to(writer, count)
    (result,) = writer.answers[0].results
    assert (result.error_code, result.error_message) == (error_codes.INVALID_PARTITIONS, words)


# DeleteTopics.


def deleted(writer: Writer, *names: str, timeout_ms: int = 1_000) -> None:
    topics = [DeleteTopicState(name=each, topic_id=ZERO_UUID) for each in names]
    writer.ask(api.DELETE_TOPICS, DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms, topic_names=[]), 6)


def test_a_topic_is_marked_and_answered_when_it_is_gone() -> None:
    writer = existing()
    deleted(writer, T, "nothing")
    assert writer.answers == []
    assert writer.cluster.children(paths.DELETE_TOPICS) == [T]
    topic = writer.image.topics.pop(T)
    del writer.image.topics_by_id[topic.id]
    writer.waiting.look()
    assert {each.name: each.error_code for each in writer.answers[0].responses} == {
        T: 0,
        "nothing": error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_deletion_that_takes_too_long_times_out() -> None:
    writer = existing()
    writer.cluster.delete_topic(T)  # a marker that is there is as good as one's own
    deleted(writer, T)
    writer.scheduler.advance(1_000)
    assert [each.error_code for each in writer.answers[0].responses] == [error_codes.REQUEST_TIMED_OUT]


def test_a_marker_that_cannot_be_written_fails_the_request() -> None:
    writer = existing()
    writer.cluster.remove(paths.DELETE_TOPICS)
    deleted(writer, T)
    assert [each.error_code for each in writer.answers[0].responses] == [error_codes.UNKNOWN_SERVER_ERROR]


def test_a_waiting_answer_ends_once_when_it_is_done() -> None:
    scheduler = ManualScheduler()
    waiting, ended, done = WaitingAnswers(scheduler), list[str](), set[str]()
    for name, timeout_ms in (("now", 100), ("soon", 100), ("late", 50)):
        if name == "now":
            done.add(name)
        waiting.wait(lambda name=name: name in done, timeout_ms, lambda name=name: ended.append(name))  # type: ignore[misc]
    assert ended == ["now"]
    done.add("soon")
    waiting.look()
    waiting.look()
    assert ended == ["now", "soon"]
    scheduler.advance(49)
    assert ended == ["now", "soon"]
    scheduler.advance(100)
    assert ended == ["now", "soon", "late"]
    waiting.wait(lambda: False, -1, lambda: ended.append("none"))
    assert ended[-1] == "none"
