"""Configs of topics on the wire: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, and what they do at once."""

from collections.abc import Callable, Sequence

import pytest

from conftest import NewTopic
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages import alter_configs as legacy
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from support.raw_client import RawClient
from support.raw_requests import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    alteration,
    batch_of,
    changed,
    configs_become,
    configs_set,
    create,
    describe_configs,
    described,
    incremental_alteration,
    now_ms,
    produce,
)
from support.waiting import eventually

UnusedTopic = Callable[[], str]
TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = range(1, 8)
NO_SUCH_TOPIC = "The topic 'no-such-topic' does not exist."
INVALID_NAME = (
    "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
)


# DescribeConfigs


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_configs_say_where_they_come_from(raw: RawClient, unused_topic: UnusedTopic, version: int) -> None:
    topic = unused_topic()
    create(raw, topic, retention_ms="1000")
    configs = described(raw, TOPIC, topic, version, synonyms=True)
    retention, size = configs["retention.ms"], configs["max.message.bytes"]
    assert (retention.value, retention.config_source) == ("1000", TOPIC_SOURCE)
    assert [(one.name, one.value, one.source) for one in retention.synonyms] == [("retention.ms", "1000", TOPIC_SOURCE)]
    assert (size.value, size.config_source) == ("1048588", DEFAULT_SOURCE)
    assert [(one.name, one.value, one.source) for one in size.synonyms] == [
        ("message.max.bytes", "1048588", DEFAULT_SOURCE)
    ]
    assert not any(config.read_only or config.is_sensitive for config in configs.values())
    without = described(raw, TOPIC, topic, version)
    assert {name: config.value for name, config in without.items()} == {
        name: config.value for name, config in configs.items()
    }
    assert not any(config.synonyms for config in without.values())


def test_types_and_documentation_come_with_version_three(raw: RawClient, topic: str) -> None:
    expected = {
        "cleanup.policy": LIST,
        "compression.type": STRING,
        "max.message.bytes": INT,
        "min.cleanable.dirty.ratio": DOUBLE,
        "preallocate": BOOLEAN,
        "retention.ms": LONG,
    }
    for version in (3, 4):
        configs = described(raw, TOPIC, topic, version, documentation=True)
        assert {name: configs[name].config_type for name in expected} == expected
        assert (configs["cleanup.policy"].documentation or "").startswith("This config designates the retention policy")
        assert not any(config.documentation for config in described(raw, TOPIC, topic, version).values())
    for config in described(raw, TOPIC, topic, 2).values():
        assert config.config_type == 0


@pytest.mark.parametrize("version", range(1, 5))
def test_only_the_configs_asked_for_are_described(raw: RawClient, topic: str, version: int) -> None:
    asked = {
        ("retention.ms", "nosuch", "segment.bytes", "retention.ms"): {"retention.ms", "segment.bytes"},
        ("nosuch",): set(),
    }
    for keys, expected in asked.items():
        (result,) = raw.call(describe_configs(TOPIC, topic, keys), version).results
        names = [config.name for config in result.configs]
        assert (result.error_code, set(names), len(names)) == (0, expected, len(expected))
    (every,) = raw.call(describe_configs(TOPIC, topic, []), version).results
    assert len(every.configs) == len(described(raw, TOPIC, topic, version))


@pytest.mark.parametrize("version", range(1, 5))
def test_a_resource_that_cannot_be_described_gets_its_own_error(raw: RawClient, topic: str, version: int) -> None:
    names = (topic, "no-such-topic", "a b", "", "__cluster_metadata")
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=[]) for name in names
    ]
    response = raw.call(DescribeConfigsRequest(resources=resources, include_synonyms=False), version)
    assert {result.resource_name: (result.error_code, result.error_message) for result in response.results} == {
        topic: (error_codes.NONE, ""),
        "no-such-topic": (error_codes.UNKNOWN_TOPIC_OR_PARTITION, ""),
        "a b": (error_codes.INVALID_TOPIC_EXCEPTION, INVALID_NAME),
        "": (error_codes.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        "__cluster_metadata": (error_codes.UNKNOWN_TOPIC_OR_PARTITION, ""),
    }
    assert all(not result.configs for result in response.results if result.error_code)


@pytest.mark.parametrize("kind", [0, 1, 3, -1, 64])
def test_a_resource_of_no_known_type_fails_all_of_the_request(raw: RawClient, topic: str, kind: int) -> None:
    resources = [
        DescribeConfigsResource(resource_type=number, resource_name=topic, configuration_keys=None)
        for number in (TOPIC, kind)
    ]
    results = raw.call(DescribeConfigsRequest(resources=resources), 4).results
    expected = (error_codes.INVALID_REQUEST, error_codes.message(error_codes.INVALID_REQUEST), [])
    assert [(result.error_code, result.error_message, result.configs) for result in results] == [expected] * 2


# IncrementalAlterConfigs


def incrementally(
    raw: RawClient, topic: str, *operations: tuple[str, int, str | None], version: int = 1, validate_only: bool = False
) -> tuple[int, str | None]:
    """(code, message) of operations on one topic."""
    request = incremental_alteration((TOPIC, topic, operations), validate_only=validate_only)
    ((answer),) = changed(raw, request, version).values()
    return answer


DONE = (error_codes.NONE, None)


@pytest.mark.parametrize("version", [0, 1])
def test_configs_are_set_and_deleted_one_by_one(raw: RawClient, unused_topic: UnusedTopic, version: int) -> None:
    topic = unused_topic()
    create(raw, topic)

    def change(*operations: tuple[str, int, str | None], leaves: dict[str, str | None]) -> None:
        assert incrementally(raw, topic, *operations, version=version) == DONE
        configs_become(raw, TOPIC, topic, leaves)

    both, one = {"retention.ms": "2000", "segment.bytes": "2000000"}, {"segment.bytes": "2000000"}
    change(("retention.ms", SET, "1000"), leaves={"retention.ms": "1000"})
    change(("retention.ms", SET, " 2000 "), ("segment.bytes", SET, "2000000"), leaves=both)
    assert incrementally(raw, topic, ("retention.ms", SET, "3"), version=version, validate_only=True) == DONE
    change(leaves=both)
    change(("retention.ms", DELETE, None), ("nosuch", DELETE, "x"), leaves=one)
    change(("retention.ms", DELETE, None), leaves=one)


@pytest.mark.parametrize("version", [0, 1])
def test_lists_are_appended_to_and_subtracted_from(raw: RawClient, unused_topic: UnusedTopic, version: int) -> None:
    topic = unused_topic()
    create(raw, topic)
    policy, throttled = "cleanup.policy", "leader.replication.throttled.replicas"
    now: dict[str, str | None] = {}
    for name, operation, value, expected in [
        (policy, APPEND, "compact", "delete,compact"),
        (policy, APPEND, "compact,delete", "delete,compact"),
        (policy, SUBTRACT, "delete", "compact"),
        (policy, SUBTRACT, "compact", ""),
        (policy, SUBTRACT, "compact", ""),
        (policy, APPEND, "", ""),
        (throttled, APPEND, "0:1", "0:1"),
        (throttled, APPEND, "1:1,0:1", "0:1,1:1"),
        (throttled, SUBTRACT, "0:1", "1:1"),
    ]:
        assert incrementally(raw, topic, (name, operation, value), version=version) == DONE
        now[name] = expected
        configs_become(raw, TOPIC, topic, now)


NO_LIST = "because its type is not LIST."


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ([("nosuch", SET, "1")], error_codes.INVALID_CONFIG, "Unknown topic config name: nosuch"),
        (
            [("flush.ms", SET, "5"), ("retention.ms", SET, "x")],
            error_codes.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            [("cleanup.policy", APPEND, "foo")],
            error_codes.INVALID_CONFIG,
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ([("flush.ms", APPEND, "1")], error_codes.INVALID_CONFIG, f"Can't APPEND to key flush.ms {NO_LIST}"),
        ([("flush.ms", SUBTRACT, "1")], error_codes.INVALID_CONFIG, f"Can't SUBTRACT to key flush.ms {NO_LIST}"),
        ([("nosuch", APPEND, "1")], error_codes.INVALID_CONFIG, f"Can't APPEND to key nosuch {NO_LIST}"),
        (
            [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "9")],
            error_codes.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
        ),
        (
            [("retention.ms", SET, None), ("flush.ms", APPEND, None)],
            error_codes.INVALID_REQUEST,
            "Null value not supported for : retention.ms, flush.ms",
        ),
        (
            [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
            error_codes.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
    ],
)
def test_operations_that_cannot_be_change_nothing(
    raw: RawClient,
    unused_topic: UnusedTopic,
    operations: Sequence[tuple[str, int, str | None]],
    code: int,
    message: str,
    in_zookeeper_mode: bool,
) -> None:
    topic = unused_topic()
    if in_zookeeper_mode:
        message = worded_with_resource(topic, message)
    create(raw, topic, retention_bytes="5")
    for validate_only in (True, False):
        assert incrementally(raw, topic, *operations, validate_only=validate_only) == (code, message)
    assert configs_set(raw, TOPIC, topic) == {"retention.bytes": "5"}


def worded_with_resource(topic: str, message: str) -> str:
    """The message of a broker in ZooKeeper mode: values that a config cannot have are refused with their resource."""
    resource = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): "
    return f"{resource}{message}" if message.startswith("Invalid value ") else message


def test_only_topics_that_exist_are_configured(raw: RawClient) -> None:
    unknown = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_TOPIC)
    assert incrementally(raw, "no-such-topic", ("retention.ms", SET, "1")) == unknown
    assert incrementally(raw, "no-such-topic", ("retention.ms", DELETE, None)) == unknown
    assert incrementally(raw, "no-such-topic") == unknown
    assert incrementally(raw, "no-such-topic", ("retention.ms", SET, "x"))[0] == error_codes.INVALID_CONFIG
    assert incrementally(raw, "a b", ("retention.ms", SET, "1")) == (error_codes.INVALID_TOPIC_EXCEPTION, INVALID_NAME)
    no_default = (error_codes.INVALID_REQUEST, "Default topic resources are not allowed.")
    assert incrementally(raw, "", ("retention.ms", SET, "1")) == no_default


def test_each_resource_of_a_request_fares_by_itself(raw: RawClient, unused_topic: UnusedTopic) -> None:
    topic, twice = unused_topic(), unused_topic()
    create(raw, topic)
    create(raw, twice)
    change = [("retention.ms", SET, "55")]
    request = incremental_alteration(
        (TOPIC, twice, change),
        (TOPIC, topic, change),
        (TOPIC, "no-such-topic", change),
        (1, "x", change),
        (TOPIC, twice, []),
    )
    responses = raw.call(request, 1).responses
    repeated = (error_codes.INVALID_REQUEST, "Each resource must appear at most once.")
    assert [(answer.resource_name, answer.error_code, answer.error_message) for answer in responses] == [
        (twice, *repeated),
        (topic, *DONE),
        ("no-such-topic", error_codes.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_TOPIC),
        ("x", error_codes.INVALID_REQUEST, "Unknown resource type 1"),
        (twice, *repeated),
    ]
    configs_become(raw, TOPIC, topic, {"retention.ms": "55"})
    configs_become(raw, TOPIC, twice, {})
    assert raw.call(incremental_alteration(), 1).responses == []


# AlterConfigs


@pytest.mark.parametrize("version", range(3))
def test_the_older_request_replaces_all_configs(raw: RawClient, unused_topic: UnusedTopic, version: int) -> None:
    topic = unused_topic()
    create(raw, topic, retention_ms="1000")

    def replace(configs: dict[str, str | None], *, validate_only: bool = False) -> None:
        request = alteration((TOPIC, topic, configs), validate_only=validate_only)
        assert changed(raw, request, version) == {(TOPIC, topic): DONE}

    for configs in ({"retention.bytes": "5", "segment.ms": "99"}, {"retention.bytes": "6"}):
        replace(dict(configs))
        configs_become(raw, TOPIC, topic, configs)
    replace({"retention.bytes": "7"}, validate_only=True)
    configs_become(raw, TOPIC, topic, {"retention.bytes": "6"})
    replace({})
    configs_become(raw, TOPIC, topic, {})


@pytest.mark.parametrize("version", range(3))
def test_the_older_request_refuses_in_the_same_words(
    raw: RawClient, topic: str, version: int, in_zookeeper_mode: bool
) -> None:
    not_a_long = "Invalid value x for configuration retention.ms: Not a number of type LONG"
    if in_zookeeper_mode:
        not_a_long = worded_with_resource(topic, not_a_long)
    before = configs_set(raw, TOPIC, topic)
    refusals = {
        (TOPIC, topic, ("retention.ms", None)): (
            error_codes.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (TOPIC, topic, ("retention.ms", "x")): (
            error_codes.INVALID_CONFIG,
            not_a_long,
        ),
        (TOPIC, topic, ("nosuch", "1")): (error_codes.INVALID_CONFIG, "Unknown topic config name: nosuch"),
        (TOPIC, "no-such-topic", ("retention.ms", "1")): (error_codes.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_TOPIC),
        (TOPIC, "a b", ("retention.ms", "1")): (error_codes.INVALID_TOPIC_EXCEPTION, INVALID_NAME),
        (TOPIC, "", ("retention.ms", "1")): (
            error_codes.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        **{
            (kind, "x", ("a", "b")): (error_codes.INVALID_REQUEST, f"Unknown resource type {kind}")
            for kind in (0, 1, 3, 8, 64, -1)
        },
    }
    for (kind, name, (key, value)), expected in refusals.items():
        assert changed(raw, alteration((kind, name, {key: value})), version) == {(kind, name): expected}
    twice = alteration((TOPIC, topic, {}))
    twice.resources[0].configs = [legacy.AlterableConfig(name="flush.ms", value=value) for value in ("1", "2")]
    assert changed(raw, twice, version) == {
        (TOPIC, topic): (error_codes.INVALID_REQUEST, "Error due to duplicate config keys")
    }
    assert configs_set(raw, TOPIC, topic) == before


# What a change does to a topic in use


def test_the_size_of_a_batch_is_limited_anew(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    large = batch_of(now_ms(), size=500)
    assert produce(raw, topic, large).error_code == error_codes.NONE
    assert incrementally(raw, topic, ("max.message.bytes", SET, "100")) == DONE
    eventually(lambda: produce(raw, topic, large).error_code == error_codes.MESSAGE_TOO_LARGE, "the lower limit")
    assert produce(raw, topic, batch_of(now_ms())).error_code == error_codes.NONE
    assert incrementally(raw, topic, ("max.message.bytes", DELETE, None)) == DONE
    eventually(lambda: produce(raw, topic, large).error_code == error_codes.NONE, "the old limit")


def test_timestamps_are_taken_and_limited_anew(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    old = batch_of(now_ms() - 1_000_000)
    assert produce(raw, topic, old).log_append_time_ms == -1
    assert incrementally(raw, topic, ("message.timestamp.type", SET, "LogAppendTime")) == DONE
    eventually(lambda: produce(raw, topic, old).log_append_time_ms > 0, "the broker's time")
    assert incrementally(raw, topic, ("message.timestamp.type", DELETE, None)) == DONE
    eventually(lambda: produce(raw, topic, old).log_append_time_ms == -1, "the producer's time")
    assert incrementally(raw, topic, ("message.timestamp.before.max.ms", SET, "60000")) == DONE
    eventually(lambda: produce(raw, topic, old).error_code == error_codes.INVALID_TIMESTAMP, "the limit")
    refused = produce(raw, topic, old)
    assert refused.error_message == "One or more records have been rejected due to invalid timestamp"
    assert [error.batch_index for error in refused.record_errors] == [0]
    assert produce(raw, topic, batch_of(now_ms())).error_code == error_codes.NONE


def test_keys_are_demanded_when_a_topic_becomes_compacted(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    without, keyed = batch_of(now_ms()), batch_of(now_ms(), key=b"k")
    assert incrementally(raw, topic, ("cleanup.policy", SET, "compact")) == DONE
    eventually(lambda: produce(raw, topic, without).error_code == error_codes.INVALID_RECORD, "the demand for keys")
    assert produce(raw, topic, keyed).error_code == error_codes.NONE
    assert incrementally(raw, topic, ("cleanup.policy", SET, "delete")) == DONE
    eventually(lambda: produce(raw, topic, without).error_code == error_codes.NONE, "records without keys")


def test_batches_are_compressed_anew(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    gzip = 1
    assert incrementally(raw, topic, ("compression.type", SET, "gzip")) == DONE

    def last_codec() -> int:
        offset = produce(raw, topic, batch_of(now_ms(), size=100)).base_offset
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])
        records = raw.call(request, 12).responses[0].partitions[0].records
        return [header.codec for _, header in batch_headers(records)][-1]

    eventually(lambda: last_codec() == gzip, "a compressed batch")
