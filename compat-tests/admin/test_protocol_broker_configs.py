"""Configs of brokers, loggers, groups and client metrics on the wire, as Apache Kafka describes and changes them.

The broker is shared: what a test sets on it is taken away again, and nothing is set that others could notice.
"""

from collections.abc import Callable, Iterator

import pytest

from kpywire import error_codes
from support.raw_client import RawClient
from support.raw_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
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
    metadata,
    now_ms,
    produce,
)
from support.targets import EXTERNAL
from support.waiting import eventually

DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT, DYNAMIC_LOGGER = range(2, 7)
ALL_BROKERS = ""
UNTOUCHED = "min.insync.replicas"
"""Apache Kafka sets it on all brokers by itself, for eligible leader replicas."""
DONE = (error_codes.NONE, None)

Outcome = tuple[int, str | None]
Change = Callable[..., Outcome]


@pytest.fixture
def node(raw: RawClient) -> str:
    """The broker's id, as a resource name."""
    return str(raw.call(metadata(), 9).brokers[0].node_id)


def outcome(
    raw: RawClient,
    kind: int,
    name: str,
    *operations: tuple[str, int, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> Outcome:
    request = incremental_alteration((kind, name, operations), validate_only=validate_only)
    ((answer),) = changed(raw, request, version).values()
    return answer


def set_here(raw: RawClient, kind: int, name: str) -> dict[str, str | None]:
    return {key: value for key, value in configs_set(raw, kind, name).items() if key != UNTOUCHED}


@pytest.fixture(params=["one broker", "all brokers"])
def broker(request: pytest.FixtureRequest, raw: RawClient, node: str, target: str) -> Iterator[str]:
    """The resource name of this broker, then of all of them; bare at the beginning and in the end."""
    name = node if request.param == "one broker" else ALL_BROKERS
    found = set_here(raw, BROKER, name)
    if found and target == EXTERNAL:
        pytest.skip(f"somebody has configured the broker that --bootstrap-server names: {', '.join(found)}")
    assert not found, "left by another test"
    yield name
    left = [(key, DELETE, None) for key in set_here(raw, BROKER, name)]
    assert outcome(raw, BROKER, name, *left) == DONE
    eventually(lambda: not set_here(raw, BROKER, name), "the broker as it was")


def override_becomes(raw: RawClient, name: str, **expected: str) -> None:
    wanted = {key.replace("_", "."): value for key, value in expected.items()}
    eventually(lambda: set_here(raw, BROKER, name) == wanted, f"{wanted} on broker {name!r}", within_s=10)


# DescribeConfigs of brokers


@pytest.mark.parametrize("version", range(1, 5))
def test_a_broker_describes_what_it_runs_with(raw: RawClient, node: str, version: int) -> None:
    configs = described(raw, BROKER, node, version, synonyms=True)
    own_id = configs["node.id"]
    assert (own_id.value, own_id.read_only, own_id.config_source) == (node, True, STATIC)
    hours = configs["log.retention.hours"]
    assert (hours.value, hours.read_only, hours.config_source) == ("168", True, DEFAULT)
    limit = configs["message.max.bytes"]
    assert (limit.value, limit.read_only, limit.config_source) == ("1048588", False, DEFAULT)
    assert [(one.name, one.value, one.source) for one in limit.synonyms] == [("message.max.bytes", "1048588", DEFAULT)]
    unset = configs["log.retention.ms"]
    assert (unset.value, unset.config_source, unset.synonyms) == (None, DEFAULT, [])
    secret = configs["ssl.keystore.password"]
    assert (secret.value, secret.is_sensitive, secret.synonyms) == (None, True, [])
    assert limit.config_type == (3 if version >= 3 else 0)


def test_a_brokers_configs_are_documented_when_asked_for(raw: RawClient, node: str) -> None:
    text = described(raw, BROKER, node, documentation=True)["message.max.bytes"].documentation or ""
    assert text.startswith("The largest record batch size allowed by Kafka")
    assert described(raw, BROKER, node)["message.max.bytes"].documentation is None


@pytest.mark.parametrize("name", ["999", "-1", "x", " 1", "99999999999"])
def test_a_broker_describes_itself_only(raw: RawClient, node: str, name: str) -> None:
    number = name in ("999", "-1")
    messages = {
        BROKER: f"Unexpected broker id, expected {node} or empty string, but received {name}",
        BROKER_LOGGER: f"Unexpected broker id, expected {node} but received {name}",
    }
    for kind, message in messages.items():
        (result,) = raw.call(describe_configs(kind, name), 4).results
        assert (result.error_code, result.configs) == (error_codes.INVALID_REQUEST, [])
        assert result.error_message == (message if number else f"Broker id must be an integer, but it is: {name}")


def test_resources_that_need_a_name_say_so(raw: RawClient, in_zookeeper_mode: bool) -> None:
    messages = {
        BROKER_LOGGER: "Broker id must not be empty",
        GROUP: "Group name must not be empty",
        CLIENT_METRICS: "Client metrics subscription name must not be empty",
    }
    if in_zookeeper_mode:
        messages[GROUP] = error_codes.message(error_codes.INVALID_REQUEST)  # groups have no configs there
    for kind, message in messages.items():
        (result,) = raw.call(describe_configs(kind, ""), 4).results
        assert (result.error_code, result.error_message) == (error_codes.INVALID_REQUEST, message)


# Changes of brokers


def test_broker_configs_are_set_changed_and_deleted(raw: RawClient, broker: str) -> None:
    assert outcome(raw, BROKER, broker, ("log.retention.ms", SET, "123456789")) == DONE
    override_becomes(raw, broker, log_retention_ms="123456789")
    both = (("log.cleaner.threads", SET, "2"), ("log.retention.ms", SET, "5"))
    assert outcome(raw, BROKER, broker, *both, validate_only=True) == DONE
    assert outcome(raw, BROKER, broker, ("log.cleaner.threads", SET, "2")) == DONE
    override_becomes(raw, broker, log_retention_ms="123456789", log_cleaner_threads="2")
    assert outcome(raw, BROKER, broker, ("log.retention.ms", DELETE, None), ("no.such", DELETE, None)) == DONE
    override_becomes(raw, broker, log_cleaner_threads="2")


def test_lists_of_brokers_are_appended_to_and_subtracted_from(raw: RawClient, broker: str) -> None:
    policy = "log.cleanup.policy"
    assert outcome(raw, BROKER, broker, (policy, APPEND, "compact")) == DONE
    override_becomes(raw, broker, log_cleanup_policy="delete,compact")
    assert outcome(raw, BROKER, broker, (policy, SUBTRACT, "compact")) == DONE
    override_becomes(raw, broker, log_cleanup_policy="delete")


def test_the_older_request_replaces_what_is_set_on_a_broker(raw: RawClient, node: str) -> None:
    for configs in ({"log.retention.ms": "123456789", "log.cleaner.threads": "2"}, {"log.cleaner.threads": "1"}, {}):
        wanted: dict[str, str | None] = dict(configs)
        assert changed(raw, alteration((BROKER, node, wanted)), 2) == {(BROKER, node): DONE}
        configs_become(raw, BROKER, node, wanted)


CODECS = "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("log.retention.ms", "x", "Not a number of type LONG"),
        ("log.retention.ms", "", "Not a number of type LONG"),
        ("message.max.bytes", "-1", "Value must be at least 0"),
        ("log.segment.bytes", "5", "Value must be at least 1048576"),
        ("num.io.threads", "0", "Value must be at least 1"),
        ("log.preallocate", "maybe", "Expected value to be either true or false"),
        ("compression.type", "foo", CODECS),
    ],
)
def test_a_value_that_a_broker_cannot_run_with_is_an_invalid_request(
    raw: RawClient, broker: str, name: str, value: str, reason: str
) -> None:
    refused = (error_codes.INVALID_REQUEST, f"Invalid value {value} for configuration {name}: {reason}")
    for validate_only in (True, False):
        assert outcome(raw, BROKER, broker, (name, SET, value), validate_only=validate_only) == refused
    assert set_here(raw, BROKER, broker) == {}


@pytest.mark.parametrize("name", ["num.partitions", "broker.id", "advertised.listeners", "log.retention.minutes"])
def test_configs_fixed_at_the_start_cannot_be_changed(
    raw: RawClient, broker: str, name: str, in_zookeeper_mode: bool
) -> None:
    names = f"Set({name})" if in_zookeeper_mode else f"[{name}]"
    refused = (error_codes.INVALID_REQUEST, f"Cannot update these configs dynamically: {names}")
    assert outcome(raw, BROKER, broker, (name, SET, "3")) == refused
    assert outcome(raw, BROKER, broker, (name, DELETE, None)) == DONE


def test_operations_on_a_broker_that_make_no_sense(raw: RawClient, broker: str) -> None:
    invalid = error_codes.INVALID_CONFIG
    key = "not allowed for config key: log.retention.ms"
    for operation, expected in [
        (("log.retention.ms", APPEND, "1"), (invalid, f"Config value append is {key}")),
        (("log.retention.ms", SUBTRACT, "1"), (invalid, f"Config value subtract is {key}")),
        (("no.such", APPEND, "1"), (invalid, "Unknown config name: no.such")),
        (("log.retention.ms", 4, "1"), (error_codes.INVALID_REQUEST, "Unknown operations type 4")),
        (
            ("log.retention.ms", SET, None),
            (error_codes.INVALID_REQUEST, "Null value not supported for : log.retention.ms"),
        ),
    ]:
        assert outcome(raw, BROKER, broker, operation) == expected
    twice = (("log.retention.ms", SET, "1"), ("log.retention.ms", SET, "2"))
    assert outcome(raw, BROKER, broker, *twice) == (
        error_codes.INVALID_REQUEST,
        "Error due to duplicate config keys",
    )


def test_threads_are_not_more_than_doubled(raw: RawClient, node: str, broker: str) -> None:
    now = int(described(raw, BROKER, node)["num.io.threads"].value or 0)
    wanted = 2 * now + 1
    message = (
        "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed "
        f"for num.io.threads={wanted}, value should not be greater than double the current value {now} for "
        "configuration Invalid dynamic configuration"
    )
    refused = (error_codes.INVALID_REQUEST, message)
    assert outcome(raw, BROKER, broker, ("num.io.threads", SET, str(wanted))) == refused


def test_a_request_changes_the_broker_it_goes_to(raw: RawClient, node: str) -> None:
    refused = error_codes.INVALID_REQUEST
    for name in ("999", "-1"):
        message = f"Unexpected broker id, expected {node}, but received {name}"
        assert outcome(raw, BROKER, name, ("log.retention.ms", SET, "1")) == (refused, message)
    for name in ("x", " 1"):
        message = f"Node id must be an integer, but it is: {name}"
        assert outcome(raw, BROKER, name) == (refused, message)


def test_a_brokers_config_overrides_the_cluster_default_and_both_override_the_file(
    raw: RawClient, node: str, topic: str
) -> None:
    try:
        request = incremental_alteration(
            (BROKER, node, [("log.segment.delete.delay.ms", SET, "11111")]),
            (BROKER, ALL_BROKERS, [("log.segment.delete.delay.ms", SET, "22222")]),
        )
        assert set(changed(raw, request, 1).values()) == {DONE}
        eventually(
            lambda: described(raw, TOPIC, topic)["file.delete.delay.ms"].value == "11111", "the value of the one broker"
        )
        expected = [("11111", DYNAMIC_BROKER), ("22222", DYNAMIC_DEFAULT), ("60000", DEFAULT)]
        for kind, name, key in (
            (BROKER, node, "log.segment.delete.delay.ms"),
            (TOPIC, topic, "file.delete.delay.ms"),
        ):
            config = described(raw, kind, name, synonyms=True)[key]
            assert (config.value, config.config_source) == expected[0]
            assert [(one.value, one.source) for one in config.synonyms] == expected
            assert {one.name for one in config.synonyms} == {"log.segment.delete.delay.ms"}
    finally:
        for name in (node, ALL_BROKERS):
            assert outcome(raw, BROKER, name, ("log.segment.delete.delay.ms", DELETE, None)) == DONE
    eventually(lambda: described(raw, TOPIC, topic)["file.delete.delay.ms"].value == "60000", "the default")


def test_a_limit_of_all_brokers_counts_for_topics_in_use(raw: RawClient, unused_topic: Callable[[], str]) -> None:
    topic, own = unused_topic(), unused_topic()
    create(raw, topic)
    create(raw, own, max_message_bytes="1000")
    small, large = batch_of(now_ms(), size=500), batch_of(now_ms(), size=2000)
    try:
        assert outcome(raw, BROKER, ALL_BROKERS, ("message.max.bytes", SET, "1500")) == DONE
        eventually(lambda: produce(raw, topic, large).error_code == error_codes.MESSAGE_TOO_LARGE, "the limit")
        for name in (topic, own):
            assert produce(raw, name, small).error_code == error_codes.NONE
    finally:
        assert outcome(raw, BROKER, ALL_BROKERS, ("message.max.bytes", DELETE, None)) == DONE
    eventually(lambda: produce(raw, topic, large).error_code == error_codes.NONE, "no limit")
    assert produce(raw, own, large).error_code == error_codes.MESSAGE_TOO_LARGE


# Loggers


@pytest.fixture
def root_level(raw: RawClient, node: str) -> Iterator[Callable[[], str | None]]:
    """Reads the root logger's level, which is what it was afterwards."""

    def level() -> str | None:
        root = described(raw, BROKER_LOGGER, node)["root"]
        assert (root.config_source, root.read_only, root.is_sensitive) == (DYNAMIC_LOGGER, False, False)
        assert root.synonyms == []
        return root.value

    before = level()
    yield level
    assert outcome(raw, BROKER_LOGGER, node, ("root", SET, before)) == DONE


def test_levels_of_loggers_change_at_once(raw: RawClient, node: str, root_level: Callable[[], str | None]) -> None:
    for level in ("FATAL", "ERROR", "WARN"):
        assert outcome(raw, BROKER_LOGGER, node, ("root", SET, level)) == DONE
        assert root_level() == level
    assert outcome(raw, BROKER_LOGGER, node, ("root", SET, "INFO"), validate_only=True) == DONE
    assert outcome(raw, BROKER_LOGGER, node, ("root", SET, "ERROR"), ("no.such", SET, "WARN")) == (
        error_codes.INVALID_CONFIG,
        "Logger no.such does not exist!",
    )
    assert root_level() == "WARN"


@pytest.mark.parametrize("level", ["foo", "warn", "", "OFF", "ALL"])
def test_a_level_that_is_none_is_refused(
    raw: RawClient, node: str, root_level: Callable[[], str | None], level: str
) -> None:
    before = root_level()
    message = (
        f"Cannot set the log level of root to {level} as it is not a supported log level. Valid log levels are DEBUG, "
        "ERROR, FATAL, INFO, TRACE, WARN"
    )
    assert outcome(raw, BROKER_LOGGER, node, ("root", SET, level)) == (error_codes.INVALID_CONFIG, message)
    assert root_level() == before


def test_loggers_are_set_one_by_one_on_their_own_broker(raw: RawClient, node: str) -> None:
    invalid = error_codes.INVALID_REQUEST
    for operation, message in {
        ("root", DELETE, None): "Removing the log level of the root logger is not allowed",
        ("root", APPEND, "INFO"): "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ("root", SUBTRACT, "INFO"): "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ("root", SET, None): "Null value not supported for : root",
    }.items():
        assert outcome(raw, BROKER_LOGGER, node, operation) == (invalid, message)
    assert outcome(raw, BROKER_LOGGER, "999") == (invalid, f"Unexpected node id. Expected {node}, but received 999")
    for name in ("x", ""):
        assert outcome(raw, BROKER_LOGGER, name) == (invalid, f"Node id must be an integer, but it is: {name}")
    legacy = alteration((BROKER_LOGGER, node, {"root": "INFO"}))
    assert changed(raw, legacy, 2) == {(BROKER_LOGGER, node): (invalid, f"Unknown resource type {BROKER_LOGGER}")}


# Groups and client metrics


def test_groups_are_configured_before_they_exist(raw: RawClient) -> None:
    timeout, group = "consumer.session.timeout.ms", "a-group-with-configs"
    assert outcome(raw, GROUP, group, (timeout, SET, "50000")) == DONE
    configs_become(raw, GROUP, group, {timeout: "50000"})
    too_short = f"{timeout} must be in the range 45000 to 60000 inclusive."
    for operation, expected in [
        ((timeout, SET, "1"), (error_codes.INVALID_CONFIG, too_short)),
        (("nosuch", SET, "1"), (error_codes.INVALID_CONFIG, "Unknown group config name: nosuch")),
        (
            (timeout, APPEND, "1"),
            (error_codes.INVALID_CONFIG, f"Can't APPEND to key {timeout} because its type is not LIST."),
        ),
    ]:
        assert outcome(raw, GROUP, group, operation) == expected
    no_default = (error_codes.INVALID_REQUEST, "Default group resources are not allowed.")
    assert outcome(raw, GROUP, "", (timeout, SET, "50000")) == no_default
    assert changed(raw, alteration((GROUP, group, {})), 2) == {(GROUP, group): DONE}
    configs_become(raw, GROUP, group, {})


def test_client_metrics_subscriptions_are_configured(raw: RawClient) -> None:
    name = "a-subscription"
    wanted: dict[str, str | None] = {"interval.ms": "50000", "match": "client_id=foo", "metrics": "a.b,c"}
    assert outcome(raw, CLIENT_METRICS, name, *[(key, SET, value) for key, value in wanted.items()]) == DONE
    configs_become(raw, CLIENT_METRICS, name, wanted)
    too_short = "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)"
    for operation, expected in [
        (("interval.ms", SET, "1"), (error_codes.INVALID_REQUEST, too_short)),
        (("nosuch", SET, "1"), (error_codes.INVALID_REQUEST, "Unknown client metrics configuration: nosuch")),
        (("match", SET, "foo=bar"), (error_codes.INVALID_CONFIG, "Illegal client matching pattern: foo=bar")),
        (
            ("metrics", APPEND, "z"),
            (error_codes.INVALID_CONFIG, "Can't APPEND to key metrics because its type is not LIST."),
        ),
    ]:
        assert outcome(raw, CLIENT_METRICS, name, operation) == expected
    empty = (error_codes.INVALID_REQUEST, "Subscription name can't be empty")
    assert outcome(raw, CLIENT_METRICS, "", ("interval.ms", SET, "50000")) == empty
    assert changed(raw, alteration((CLIENT_METRICS, name, {})), 2) == {(CLIENT_METRICS, name): DONE}
    configs_become(raw, CLIENT_METRICS, name, {})
