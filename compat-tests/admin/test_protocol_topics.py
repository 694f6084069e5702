"""CreateTopics, DeleteTopics and CreatePartitions on the wire, as Apache Kafka answers them."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from kpywire import error_codes
from kpywire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreatableTopicResult
from kpywire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.metadata import MetadataRequest
from support.raw_client import RawClient
from support.raw_requests import (
    INVALID_NAMES,
    NO_ID,
    TOPIC,
    UNKNOWN_ID,
    append,
    configs_become,
    create,
    creation,
    deletion,
    metadata,
    metadata_of,
    topic_named,
    wait_until_gone,
    wait_until_led,
)

UnusedTopic = Callable[[], str]
TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5
DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "errors.deadletterqueue.group.enable": "false",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.decompressed.message.bytes": "2147483639",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.copy.lag.bytes": "-1",
    "remote.copy.lag.ms": "0",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
EVERY_CREATE_TOPICS = range(2, 8)
NOT_HOSTED = "This server does not host this topic-partition."


def created(
    raw: RawClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> dict[str, CreatableTopicResult]:
    results = raw.call(creation(*topics, validate_only=validate_only), version).topics
    by_name = {result.name: result for result in results}
    assert len(by_name) == len(results)
    return by_name


def refusal(raw: RawClient, topic: CreatableTopic, *, version: int = 7) -> tuple[int, str | None]:
    """(code, message) of a topic that is validated only."""
    result = created(raw, topic, version=version, validate_only=True)[topic.name]
    if result.error_code:
        assert (result.topic_id, result.num_partitions, result.replication_factor) == (NO_ID, -1, -1)
        assert result.configs == []
        assert result.topic_config_error_code == error_codes.NONE
    return result.error_code, result.error_message


def names_of_all(raw: RawClient) -> set[str | None]:
    return {topic.name for topic in raw.call(MetadataRequest(topics=None), 9).topics}


# CreateTopics


@pytest.mark.parametrize("version", EVERY_CREATE_TOPICS)
def test_a_created_topic_is_described_as_far_as_the_version_goes(
    raw: RawClient, unused_topic: UnusedTopic, version: int
) -> None:
    topic = unused_topic()
    wanted = topic_named(topic, 2, configs={"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    result = created(raw, wanted, version=version)[topic]
    assert (result.error_code, result.error_message) == (error_codes.NONE, None)
    assert (result.num_partitions, result.replication_factor) == ((2, 1) if version >= 5 else (-1, -1))
    assert result.topic_id == (metadata_of(raw, topic).topic_id if version >= 7 else NO_ID)
    values = {config.name: config.value for config in result.configs}
    if version < 5:
        assert values == {}
    else:
        assert values == {**DEFAULTS, "retention.ms": "1000", "cleanup.policy": "compact,delete"}
        sources = {config.name: config.config_source for config in result.configs}
        assert {name for name, source in sources.items() if source == TOPIC_SOURCE} == {
            "retention.ms",
            "cleanup.policy",
        }
        assert sources["retention.bytes"] == DEFAULT_SOURCE
        assert not any(config.read_only or config.is_sensitive for config in result.configs)
    wait_until_led(raw, topic, 2)
    again = created(raw, wanted, version=version)[topic]
    assert again.error_code == error_codes.TOPIC_ALREADY_EXISTS
    assert again.error_message == f"Topic '{topic}' already exists."


@pytest.mark.parametrize("version", EVERY_CREATE_TOPICS)
def test_validation_alone_creates_nothing(raw: RawClient, unused_topic: UnusedTopic, version: int) -> None:
    topic = unused_topic()
    result = created(raw, topic_named(topic, 3), version=version, validate_only=True)[topic]
    assert (result.error_code, result.error_message) == (error_codes.NONE, None)
    assert result.num_partitions == (3 if version >= 5 else -1)
    assert topic not in names_of_all(raw)


def test_minus_one_asks_for_the_brokers_defaults(raw: RawClient, unused_topic: UnusedTopic) -> None:
    for version in EVERY_CREATE_TOPICS:
        topic = unused_topic()
        assert created(raw, topic_named(topic, -1, -1), version=version)[topic].error_code == error_codes.NONE
        wait_until_led(raw, topic)
        assert len(metadata_of(raw, topic).partitions) == 1


@pytest.mark.parametrize("name", INVALID_NAMES, ids=lambda name: name[:8])
def test_a_name_that_no_topic_can_have_is_explained(raw: RawClient, name: str) -> None:
    expected = (error_codes.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {INVALID_NAMES[name]}")
    assert refusal(raw, topic_named(name)) == expected


def test_the_longest_name_is_valid(raw: RawClient) -> None:
    assert refusal(raw, topic_named("y" * 249)) == (error_codes.NONE, None)


def test_a_name_must_not_look_like_anothers_in_metrics(raw: RawClient, unused_topic: UnusedTopic) -> None:
    dotted = unused_topic().replace("-", ".")
    create(raw, dotted)
    underscored = dotted.replace(".", "_")
    assert refusal(raw, topic_named(underscored)) == (
        error_codes.INVALID_TOPIC_EXCEPTION,
        f"Topic '{underscored}' collides with existing topic: {dotted}",
    )
    raw.call(deletion(dotted), 6)


def test_the_metadata_log_is_not_a_topic_to_create(raw: RawClient) -> None:
    expected = (error_codes.INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited.")
    assert refusal(raw, topic_named("__cluster_metadata")) == expected


def test_a_topic_named_twice_is_refused_and_others_are_not(raw: RawClient, unused_topic: UnusedTopic) -> None:
    twice, once = unused_topic(), unused_topic()
    results = created(raw, topic_named(twice), topic_named(once), topic_named(twice), validate_only=True)
    assert (results[twice].error_code, results[twice].error_message) == (
        error_codes.INVALID_REQUEST,
        "Duplicate topic name.",
    )
    assert results[once].error_code == error_codes.NONE


def test_each_topic_of_a_request_fares_by_itself(raw: RawClient, unused_topic: UnusedTopic) -> None:
    good, bad = unused_topic(), unused_topic()
    results = created(raw, topic_named(bad, 0), topic_named(good), topic_named("a b"))
    assert {name: result.error_code for name, result in results.items()} == {
        bad: error_codes.INVALID_PARTITIONS,
        good: error_codes.NONE,
        "a b": error_codes.INVALID_TOPIC_EXCEPTION,
    }
    wait_until_led(raw, good)
    assert bad not in names_of_all(raw)


NO_PARTITIONS = (error_codes.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
NO_REPLICAS = (
    error_codes.INVALID_REPLICATION_FACTOR,
    "Replication factor must be larger than 0, or -1 to use the default value.",
)
TOO_MANY_PARTITIONS = (error_codes.POLICY_VIOLATION, "Excessively large number of partitions per request.")


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "expected"),
    [
        (0, 1, NO_PARTITIONS),
        (-2, 1, NO_PARTITIONS),
        (-(2**31), 1, NO_PARTITIONS),
        (1, 0, NO_REPLICAS),
        (1, -2, NO_REPLICAS),
        (0, 0, NO_REPLICAS),
        (9_999, 1, (error_codes.NONE, None)),
        (10_000, 1, (error_codes.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")),
        (10_001, 1, TOO_MANY_PARTITIONS),
        (2**31 - 1, 1, TOO_MANY_PARTITIONS),
    ],
)
def test_counts_that_make_no_topic(
    raw: RawClient,
    partitions: int,
    replication_factor: int,
    expected: tuple[int, str | None],
    in_zookeeper_mode: bool,
) -> None:
    if in_zookeeper_mode and partitions <= 0:
        expected = error_codes.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
    elif in_zookeeper_mode and replication_factor <= 0:
        expected = error_codes.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
    assert refusal(raw, topic_named("counted", partitions, replication_factor)) == expected


@pytest.mark.parametrize("replication_factor", [2, 32767])
def test_there_are_not_more_replicas_than_brokers(
    raw: RawClient, replication_factor: int, in_zookeeper_mode: bool
) -> None:
    code, message = refusal(raw, topic_named("replicated", 1, replication_factor))
    assert code == error_codes.INVALID_REPLICATION_FACTOR
    if in_zookeeper_mode:
        assert message == f"Replication factor: {replication_factor} larger than available brokers: 1."
        return
    assert message == (
        f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
        f"{replication_factor} cannot be reached because only 1 broker(s) are registered or some brokers have all "
        "their log directories cordoned."
    )


def test_a_request_for_too_many_partitions_fails_as_a_whole(raw: RawClient) -> None:
    wanted = [topic_named("one", 6000), topic_named("a b"), topic_named("other", 6000)]
    results = created(raw, *wanted, validate_only=True)
    expected = dict.fromkeys(("one", "a b", "other"), TOO_MANY_PARTITIONS)
    assert {name: (result.error_code, result.error_message) for name, result in results.items()} == expected


@pytest.mark.parametrize("partitions", [1, 50_000])
def test_partitions_that_cannot_be_placed_count_and_no_sum_overflows(raw: RawClient, partitions: int) -> None:
    wanted = [topic_named("huge", 2**31 - 1, 32767), topic_named("other", partitions)]
    results = created(raw, *wanted, validate_only=True)
    expected = dict.fromkeys(("huge", "other"), TOO_MANY_PARTITIONS)
    assert {name: (result.error_code, result.error_message) for name, result in results.items()} == expected


Assignment = Sequence[tuple[int, Sequence[int]]]
INVALID_ASSIGNMENT = error_codes.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([(0, [])], "The manual partition assignment includes an empty replica list."),
        ([(0, [999])], "The manual partition assignment includes broker 999, but no such broker is registered."),
        ([(0, [-1])], "The manual partition assignment includes broker -1, but no such broker is registered."),
        ([(0, [1, 1])], "The manual partition assignment includes the broker 1 more than once."),
        ([(0, [1]), (2, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(-1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
    ],
)
def test_an_assignment_that_cannot_be_is_explained(raw: RawClient, assignments: Assignment, message: str) -> None:
    node_id = raw.call(metadata(), 9).brokers[0].node_id
    mine = [(index, [node_id if broker == 1 else broker for broker in brokers]) for index, brokers in assignments]
    expected = (INVALID_ASSIGNMENT, message.replace("broker 1 ", f"broker {node_id} "))
    assert refusal(raw, topic_named("assigned", -1, -1, mine)) == expected


def test_an_assignment_leaves_no_counts_to_set(
    raw: RawClient, unused_topic: UnusedTopic, in_zookeeper_mode: bool
) -> None:
    node_id = raw.call(metadata(), 9).brokers[0].node_id
    mine = [(1, [node_id]), (0, [node_id])]
    prefix = "A manual partition assignment was specified, but "
    messages = [f"{prefix}{count} was not set to -1." for count in ("numPartitions", "replication factor")]
    if in_zookeeper_mode:
        both = "Both numPartitions or replicationFactor and replicasAssignments were set."
        messages = [f"{both} Both cannot be used at the same time."] * 2
    refused = refusal(raw, topic_named("assigned", 2, -1, mine))
    assert refused == (error_codes.INVALID_REQUEST, messages[0])
    for partitions in (-1, 2):
        refused = refusal(raw, topic_named("assigned", partitions, 1, mine))
        assert refused == (error_codes.INVALID_REQUEST, messages[1])
    topic = unused_topic()
    result = created(raw, topic_named(topic, -1, -1, mine))[topic]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (error_codes.NONE, 2, 1)
    wait_until_led(raw, topic, 2)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("retention.ms", "x", "Not a number of type LONG"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "99999999999999999999", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("segment.bytes", "1048575", "Value must be at least 1048576"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("cleanup.policy", "foo", "String must be one of: compact, delete"),
        ("message.timestamp.type", "foo", "String must be one of: CreateTime, LogAppendTime"),
        ("unclean.leader.election.enable", "maybe", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "2.0", "Value must be no more than 1"),
        ("compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
        ("compression.zstd.level", "-131073", "Value must be at least -131072"),
    ],
)
def test_a_value_that_a_config_cannot_have_is_explained(raw: RawClient, name: str, value: str, reason: str) -> None:
    message = f"Invalid value {value} for configuration {name}: {reason}"
    assert refusal(raw, topic_named("configured", configs={name: value})) == (error_codes.INVALID_CONFIG, message)


LAGS = "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"
NOT_TIERED = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"nosuch": "1"}, "Unknown topic config name: nosuch"),
        ({"": "1"}, "Unknown topic config name: "),
        ({"retention.ms": "1", "nosuch": "2"}, "Unknown topic config name: nosuch"),
        ({"message.format.version": "2.0"}, "Unknown topic config name: message.format.version"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"flush.ms": None, "segment.ms": None}, "Null value not supported for topic configs: flush.ms,segment.ms"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, LAGS),
        ({"remote.storage.enable": "true"}, NOT_TIERED),
    ],
)
def test_configs_that_a_topic_cannot_have_are_explained(
    raw: RawClient, configs: Mapping[str, str | None], message: str
) -> None:
    assert refusal(raw, topic_named("configured", configs=configs)) == (error_codes.INVALID_CONFIG, message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", " compact , delete "),
        ("cleanup.policy", "compact,compact"),
        ("retention.ms", " 5 "),
        ("preallocate", "TRUE"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("follower.replication.throttled.replicas", "*"),
    ],
)
def test_configs_are_kept_as_they_were_written(raw: RawClient, name: str, value: str) -> None:
    result = created(raw, topic_named("configured", configs={name: value}), validate_only=True)["configured"]
    assert result.error_code == error_codes.NONE
    assert {config.name: config.value for config in result.configs}[name] == value


def test_the_last_value_of_a_config_given_twice_is_used(raw: RawClient, unused_topic: UnusedTopic) -> None:
    topic = topic_named(unused_topic())
    topic.configs = [CreatableTopicConfig(name="retention.ms", value=value) for value in ("1000", "2000")]
    assert created(raw, topic)[topic.name].error_code == error_codes.NONE
    wait_until_led(raw, topic.name)
    configs_become(raw, TOPIC, topic.name, {"retention.ms": "2000"})


def test_names_are_checked_before_configs_and_configs_before_counts(raw: RawClient) -> None:
    wrong = {"nosuch": "1"}
    assert refusal(raw, topic_named("a b", 0, 0, configs=wrong))[0] == error_codes.INVALID_TOPIC_EXCEPTION
    assert refusal(raw, topic_named("wrong", 0, 0, configs=wrong))[0] == error_codes.INVALID_CONFIG
    assert refusal(raw, topic_named("wrong", 0, 0, [(5, [1])], wrong))[0] == error_codes.INVALID_CONFIG


# DeleteTopics


def deleted(raw: RawClient, request: DeleteTopicsRequest, version: int = 6) -> list[DeletableTopicResult]:
    """Results by name; Kafka shuffles them."""
    return sorted(raw.call(request, version).responses, key=lambda result: (result.name or "", result.error_code))


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(raw: RawClient, unused_topic: UnusedTopic, version: int) -> None:
    topic = unused_topic()
    topic_id = create(raw, topic)
    request = deletion(topic, "no-such-topic", "a b", version=version)
    notified = {
        result.name: (result.error_code, result.topic_id, result.error_message)
        for result in deleted(raw, request, version)
    }
    unknown = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, NO_ID, NOT_HOSTED if version >= 5 else None)
    assert notified == {
        topic: (error_codes.NONE, topic_id if version >= 6 else NO_ID, None),
        "no-such-topic": unknown,
        "a b": unknown,
    }
    wait_until_gone(raw, topic)
    assert deleted(raw, deletion(version=version), version) == []


@pytest.mark.parametrize("version", range(1, 7))
def test_a_name_given_twice_is_not_deleted(raw: RawClient, unused_topic: UnusedTopic, version: int) -> None:
    topic = unused_topic()
    create(raw, topic)
    (result,) = deleted(raw, deletion(topic, topic, version=version), version)
    assert (result.name, result.error_code) == (topic, error_codes.INVALID_REQUEST)
    assert result.error_message == ("Duplicate topic name." if version >= 5 else None)
    assert metadata_of(raw, topic).error_code == error_codes.NONE


def test_topics_are_deleted_by_id(raw: RawClient, unused_topic: UnusedTopic) -> None:
    topic, other = unused_topic(), unused_topic()
    topic_id = create(raw, topic)
    create(raw, other)
    results = deleted(raw, deletion(other, ids=[topic_id, UNKNOWN_ID]))
    assert {(result.name, result.error_code, result.error_message) for result in results} == {
        (topic, error_codes.NONE, None),
        (other, error_codes.NONE, None),
        (None, error_codes.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
    }
    for name in (topic, other):
        wait_until_gone(raw, name)
    (again,) = deleted(raw, deletion(ids=[topic_id]))
    assert (again.name, again.topic_id, again.error_code) == (None, topic_id, error_codes.UNKNOWN_TOPIC_ID)


def test_a_topic_to_delete_is_named_in_one_way(raw: RawClient, unused_topic: UnusedTopic) -> None:
    topic = unused_topic()
    topic_id = create(raw, topic)
    both = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic, topic_id=topic_id)], timeout_ms=1000)
    messages = {
        "You may not specify both topic name and topic id.": both,
        "Neither topic name nor id were specified.": deletion(ids=[NO_ID]),
        "Duplicate topic id.": deletion(ids=[topic_id, topic_id]),
        "The provided topic name maps to an ID that was already supplied.": deletion(topic, ids=[topic_id]),
    }
    for message, request in messages.items():
        (result,) = deleted(raw, request)
        assert (result.error_code, result.error_message) == (error_codes.INVALID_REQUEST, message)
    assert metadata_of(raw, topic).error_code == error_codes.NONE
    first, second = deleted(raw, deletion(topic, topic, ids=[topic_id]))
    assert (first.error_code, second.error_code) == (error_codes.NONE, error_codes.INVALID_REQUEST)
    assert (first.topic_id, second.topic_id) == (topic_id, NO_ID)


# CreatePartitions


def growth(
    *topics: tuple[str, int], assignments: Sequence[Sequence[int]] | None = None, validate_only: bool = False
) -> CreatePartitionsRequest:
    assigned = None
    if assignments is not None:
        assigned = [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignments]
    wanted = [CreatePartitionsTopic(name=name, count=count, assignments=assigned) for name, count in topics]
    return CreatePartitionsRequest(topics=wanted, timeout_ms=30_000, validate_only=validate_only)


def outcomes(response: CreatePartitionsResponse) -> dict[str, tuple[int, str | None]]:
    codes = {result.name: (result.error_code, result.error_message) for result in response.results}
    assert len(codes) == len(response.results)
    return codes


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_and_never_taken(
    raw: RawClient, unused_topic: UnusedTopic, version: int, in_zookeeper_mode: bool
) -> None:
    topic = unused_topic()
    create(raw, topic)
    append(raw, topic, 1000)
    done = (error_codes.NONE, None)
    assert outcomes(raw.call(growth((topic, 3), validate_only=True), version)) == {topic: done}
    assert len(metadata_of(raw, topic).partitions) == 1
    assert outcomes(raw.call(growth((topic, 3)), version)) == {topic: done}
    wait_until_led(raw, topic, 3)
    assert [partition.partition_index for partition in metadata_of(raw, topic).partitions] == [0, 1, 2]
    append(raw, topic, 1000, partition=2)
    assert outcomes(raw.call(growth((topic, 3)), version)) == {
        topic: (
            error_codes.INVALID_PARTITIONS,
            "Topic already has 3 partitions." if in_zookeeper_mode else "Topic already has 3 partition(s).",
        )
    }
    for count in (2, 0, -1):
        message = f"The topic {topic} currently has 3 partition(s); {count} would not be an increase."
        if in_zookeeper_mode:
            message = f"Topic currently has 3 partitions, which is higher than the requested {count}."
        assert outcomes(raw.call(growth((topic, count)), version)) == {topic: (error_codes.INVALID_PARTITIONS, message)}


def test_partitions_of_nothing_and_of_a_topic_named_twice(
    raw: RawClient, unused_topic: UnusedTopic, in_zookeeper_mode: bool
) -> None:
    topic = unused_topic()
    create(raw, topic)
    asked = growth((topic, 5), ("no-such-topic", 2), ("a b", 2), ("", 2), ("__cluster_metadata", 2), (topic, 6))
    assert outcomes(raw.call(asked, 3)) == {
        topic: (error_codes.INVALID_REQUEST, "Duplicate topic name."),
        **{
            name: (
                error_codes.UNKNOWN_TOPIC_OR_PARTITION,
                f"The topic '{name}' does not exist." if in_zookeeper_mode else None,
            )
            for name in ("no-such-topic", "a b", "", "__cluster_metadata")
        },
    }
    assert len(metadata_of(raw, topic).partitions) == 1
    assert raw.call(growth(), 3).results == []


def test_assignments_of_new_partitions_are_checked(raw: RawClient, unused_topic: UnusedTopic) -> None:
    topic = unused_topic()
    create(raw, topic)
    node_id = raw.call(metadata(), 9).brokers[0].node_id
    prefix = "The manual partition assignment includes "
    messages = {
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.": (3, [[node_id]]),
        "Attempted to add 2 additional partition(s), but only 0 assignment(s) were specified.": (3, []),
        "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.": (2, [[node_id]] * 2),
        prefix + "an empty replica list.": (2, [[]]),
        prefix + "broker 999, but no such broker is registered.": (2, [[999]]),
        prefix + f"the broker {node_id} more than once.": (2, [[node_id, node_id]]),
    }
    for message, (count, assignments) in messages.items():
        answer = raw.call(growth((topic, count), assignments=assignments, validate_only=True), 3)
        assert outcomes(answer) == {topic: (error_codes.INVALID_REPLICA_ASSIGNMENT, message)}
    assert outcomes(raw.call(growth((topic, 3), assignments=[[node_id]] * 2), 3)) == {topic: (error_codes.NONE, None)}
    wait_until_led(raw, topic, 3)


@pytest.mark.parametrize("count", [10_002, 2**31 - 1])
def test_too_many_new_partitions_are_refused_at_once(raw: RawClient, unused_topic: UnusedTopic, count: int) -> None:
    topic = unused_topic()
    create(raw, topic)
    message = "Excessively large number of additional partitions per request."
    refused = {topic: (error_codes.POLICY_VIOLATION, message)}
    assert outcomes(raw.call(growth((topic, count), validate_only=True), 3)) == refused
    assert outcomes(raw.call(growth((topic, 10_001), validate_only=True), 3)) == {topic: (error_codes.NONE, None)}


# All three


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_without_time_is_not_begun(raw: RawClient, unused_topic: UnusedTopic, timeout_ms: int) -> None:
    topic, other = unused_topic(), unused_topic()
    create(raw, topic)
    more, less = growth((topic, 2)), deletion(topic)
    more.timeout_ms = less.timeout_ms = timeout_ms
    results = [
        *raw.call(creation(topic_named(other), timeout_ms=timeout_ms), 7).topics,
        *raw.call(more, 3).results,
        *raw.call(less, 6).responses,
    ]
    assert [(result.name, result.error_code, result.error_message) for result in results] == [
        (name, error_codes.REQUEST_TIMED_OUT, None) for name in (other, topic, topic)
    ]
    assert len(metadata_of(raw, topic).partitions) == 1
    assert other not in names_of_all(raw)
