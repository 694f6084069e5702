"""CreateTopics and DeleteTopics: what is written, what is answered, and Kafka's words for what is refused."""

from collections import Counter

import pytest
from controller_world import ControllerWorld, directory_of, topic_request

from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpywire import error_codes, uuid
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.uuid import ZERO_UUID


@pytest.fixture
def world() -> ControllerWorld:
    return ControllerWorld().start_brokers(1)


def request(*names: str, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [topic_request(name) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=1_000, validate_only=validate_only)


def deletion(*names: str, topics: list[DeleteTopicState] | None = None) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=topics or [], topic_names=list(names), timeout_ms=1_000)


def test_a_topic_is_its_record_then_its_configs_then_its_partitions(world: ControllerWorld) -> None:
    before = len(world.log)
    topic_id = world.created("orders", {0: [1], 1: [1]}, retention_ms="7")
    records = world.log[before:]
    assert [type(record) for record in records] == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    assert (records[0].name, records[0].topic_id) == ("orders", topic_id)
    assert (records[1].resource_type, records[1].resource_name) == (TOPIC_RESOURCE, "orders")
    assert [record.partition_id for record in records[2:]] == [0, 1]
    first = world.partition("orders")
    assert (first.replicas, first.isr, first.leader) == ((1,), (1,), 1)
    assert (first.leader_epoch, first.partition_epoch, first.directories) == (0, 0, (directory_of(1),))


def test_defaults_stand_for_minus_one() -> None:
    world = ControllerWorld(default_partitions=3, default_replication_factor=2).start_brokers(1, 2)
    (result,) = world.create(topic_request("orders"))
    assert (result.num_partitions, result.replication_factor) == (3, 2)
    assert len(world.image.topics["orders"].partitions) == 3
    assert len(world.partition("orders").replicas) == 2


def test_topics_that_cannot_be_placed_count_towards_the_most_partitions_of_a_request(world: ControllerWorld) -> None:
    results = world.create(
        topic_request("one", 2**31 - 1, 2), topic_request("other", 2**31 - 1, 2), topic_request("small", 1)
    )
    assert {(each.error_code, each.error_message) for each in results} == {
        (error_codes.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    }
    assert not world.image.topics


def test_the_answer_has_the_id_and_all_configs_with_their_sources(world: ControllerWorld) -> None:
    (result,) = world.create(topic_request("orders", configs={"cleanup.policy": "compact"}))
    assert result.topic_id == world.image.topics["orders"].id
    assert uuid.usable(result.topic_id)
    assert result.error_message is None
    sources = {config.name: (config.value, config.config_source) for config in result.configs or []}
    assert sources["cleanup.policy"] == ("compact", 1)
    assert sources["retention.ms"] == ("604800000", 5)
    assert list(sources) == sorted(sources)


def test_each_topic_of_a_request_is_answered_with_its_own_configs(world: ControllerWorld) -> None:
    asked: list[dict[str, str | None]] = [{"retention.ms": "1"}, {"retention.ms": "1"}, {"retention.ms": "2"}, {}]
    results = world.create(*(topic_request(f"t{number}", configs=configs) for number, configs in enumerate(asked)))
    notified = [
        (config.value, config.config_source)
        for result in results
        for config in result.configs or []
        if config.name == "retention.ms"
    ]
    assert notified == [("1", 1), ("1", 1), ("2", 1), ("604800000", 5)]


def test_the_answer_follows_what_is_set_for_brokers(world: ControllerWorld) -> None:
    def retention() -> tuple[str | None, int]:
        (result,) = world.create(topic_request(f"t{len(world.log)}"))
        (config,) = [config for config in result.configs or [] if config.name == "retention.ms"]
        return config.value, config.config_source

    def set_retention(resource: str, hours: str | None) -> None:
        record = ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name=resource, name="log.retention.hours", value=hours
        )
        world.write([record])

    assert retention() == ("604800000", 5)
    set_retention("", "2")
    assert retention() == ("7200000", 3)
    set_retention("1", "1")
    assert retention() == ("3600000", 2)
    set_retention("1", None)
    set_retention("", None)
    assert retention() == ("604800000", 5)


def test_validate_only_answers_and_writes_nothing(world: ControllerWorld) -> None:
    before = len(world.log)
    (result,) = world.create(topic_request("orders", 3, 1), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert len(world.log) == before


def test_topics_of_one_request_succeed_and_fail_by_themselves(world: ControllerWorld) -> None:
    results = world.create(topic_request("bad", 0), topic_request("good"), topic_request("none", 1, 5))
    assert [result.error_code for result in results] == [
        error_codes.INVALID_PARTITIONS,
        error_codes.NONE,
        error_codes.INVALID_REPLICATION_FACTOR,
    ]
    assert list(world.image.topics) == ["good"]


def test_a_name_that_comes_twice_is_created_not_once(world: ControllerWorld) -> None:
    results = world.send(request("twice", "once", "twice", "__cluster_metadata")).topics
    assert [(result.name, result.error_code, result.error_message) for result in results] == [
        ("once", error_codes.NONE, None),
        ("twice", error_codes.INVALID_REQUEST, "Duplicate topic name."),
        (
            "__cluster_metadata",
            error_codes.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    ]


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (topic_request("orders"), error_codes.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."),
        (
            topic_request("a_b"),
            error_codes.INVALID_TOPIC_EXCEPTION,
            "Topic 'a_b' collides with existing topic: a.b",
        ),
        (
            topic_request(""),
            error_codes.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            topic_request("n", replication_factor=0),
            error_codes.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic_request("n", -2),
            error_codes.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            topic_request("n", 1, 3),
            error_codes.INVALID_REPLICATION_FACTOR,
            (
                "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
                "because only 1 broker(s) are registered or some brokers have all their log directories cordoned."
            ),
        ),
        (
            topic_request("n", configs={"retention.ms": None}),
            error_codes.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (topic_request("n", configs={"nope": "1"}), error_codes.INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            topic_request("n", configs={"cleanup.policy": "x" * 32768}),
            error_codes.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        (
            topic_request("n", 1, assignments={0: [1]}),
            error_codes.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            topic_request("n", -1, 1, assignments={0: [1]}),
            error_codes.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            topic_request("n", assignments={0: [1], 2: [1]}),
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic_request("n", assignments={0: []}),
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            topic_request("n", assignments={0: [9]}),
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            topic_request("n", assignments={0: [1, 1]}),
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            topic_request("n", assignments={0: [1], 1: [1, 2]}),
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            (
                "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent "
                "with previous partitions, which have 1 replica(s)."
            ),
        ),
        (
            topic_request("n", assignments={0: [2]}),
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            (
                "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
                "shutdown."
            ),
        ),
    ],
    ids=lambda value: value.name if hasattr(value, "configs") else None,
)
def test_refusals_are_worded_as_kafka_words_them(
    world: ControllerWorld, topic: object, code: int, message: str
) -> None:
    world.created("orders")
    world.created("a.b")
    if ("assignment" in message and "2 replica" in message) or "[2]" in repr(topic):
        world.register(2)
    before = len(world.log)
    (result,) = world.create(topic)  # type: ignore[arg-type]
    assert (result.error_code, result.error_message) == (code, message)
    assert (result.num_partitions, result.topic_id) == (-1, ZERO_UUID)
    assert len(world.log) == before


def test_a_partition_named_twice_in_an_assignment_is_refused(world: ControllerWorld) -> None:
    topic = topic_request("n", assignments={0: [1]})
    topic.assignments *= 2
    (result,) = world.create(topic)
    assert result.error_message == "Found multiple manual partition assignments for partition 0"


def test_no_topic_is_created_while_all_brokers_are_fenced() -> None:
    world = ControllerWorld()
    world.register(1)
    (result,) = world.create(topic_request("orders", 1, 1))
    assert result.error_message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned."
    )


def test_too_many_partitions_fail_the_request_as_a_whole(world: ControllerWorld) -> None:
    results = world.create(topic_request("a", 6_000), topic_request("b", 4_001))
    assert {result.error_code for result in results} == {error_codes.POLICY_VIOLATION}
    assert not world.image.topics


def test_fenced_replicas_are_not_in_sync_and_do_not_lead() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.register(3)
    world.created("orders", {0: [3, 2, 1]})
    partition = world.partition("orders")
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 2, 1), (2, 1), 2)


def test_ids_are_new_and_usable(world: ControllerWorld) -> None:
    ids = Counter(world.created(f"t{number}") for number in range(200))
    assert set(ids.values()) == {1}
    assert all(map(uuid.usable, ids))


def test_topics_are_deleted_by_name_and_by_id(world: ControllerWorld) -> None:
    by_name, by_id = world.created("a"), world.created("b", retention_ms="1")
    topics = [DeleteTopicState(name="a", topic_id=ZERO_UUID), DeleteTopicState(name=None, topic_id=by_id)]
    records = world.records_of(deletion(topics=topics))
    assert Counter((type(record), record.topic_id) for record in records) == Counter(
        [(RemoveTopicRecord, by_name), (RemoveTopicRecord, by_id)]
    )
    assert not world.image.topics
    assert not world.image.configs


def test_a_deleted_topic_comes_back_with_another_id(world: ControllerWorld) -> None:
    first = world.created("a.b")
    world.send(deletion("a.b"), 5)
    assert world.created("a_b") != first


def test_deletions_are_refused_as_kafka_refuses_them(world: ControllerWorld) -> None:
    topic_id = world.created("a")
    unknown = b"u" * 16
    topics = [
        DeleteTopicState(name="missing", topic_id=ZERO_UUID),
        DeleteTopicState(name=None, topic_id=ZERO_UUID),
        DeleteTopicState(name="a", topic_id=unknown),
        DeleteTopicState(name=None, topic_id=unknown),
        *[DeleteTopicState(name="twice", topic_id=ZERO_UUID)] * 2,
        *[DeleteTopicState(name=None, topic_id=b"2" * 16)] * 2,
        DeleteTopicState(name="a", topic_id=ZERO_UUID),
        DeleteTopicState(name=None, topic_id=topic_id),
    ]
    results = world.send(deletion(topics=topics)).responses
    answers = {(result.name, result.topic_id): (result.error_code, result.error_message) for result in results}
    invalid, message = error_codes.INVALID_REQUEST, error_codes.message
    assert answers == {
        (None, ZERO_UUID): (invalid, "Neither topic name nor id were specified."),
        ("a", unknown): (invalid, "You may not specify both topic name and topic id."),
        ("twice", ZERO_UUID): (invalid, "Duplicate topic name."),
        (None, b"2" * 16): (invalid, "Duplicate topic id."),
        (None, unknown): (error_codes.UNKNOWN_TOPIC_ID, message(error_codes.UNKNOWN_TOPIC_ID)),
        ("missing", ZERO_UUID): (
            error_codes.UNKNOWN_TOPIC_OR_PARTITION,
            message(error_codes.UNKNOWN_TOPIC_OR_PARTITION),
        ),
        ("a", topic_id): (invalid, "The provided topic name maps to an ID that was already supplied."),
    }
    assert "a" in world.image.topics


@pytest.mark.parametrize(
    ("version", "code"), [(1, error_codes.INVALID_REQUEST), (3, error_codes.TOPIC_DELETION_DISABLED)]
)
def test_deletion_can_be_switched_off(version: int, code: int) -> None:
    world = ControllerWorld(delete_topics=False).start_brokers(1)
    world.created("a")
    (result,) = world.send(deletion("a"), version).responses
    assert (result.name, result.error_code) == ("a", code)
    assert "a" in world.image.topics
