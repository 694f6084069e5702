"""Changing configs of a running broker: what is settled on the spot, what is stored, what is never fatal."""

import logging
from collections.abc import Mapping

import pytest

from kpybroker.config import alter, describe, dynamic
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.documentation import documentation_of
from kpybroker.config.loggers import Loggers
from kpybroker.machines.config_def import ConfigError
from kpybroker.runtime.calls.steps import at_once
from kpywire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)

SET, DELETE, APPEND, SUBTRACT = range(4)


class Node:
    """A broker with nothing but a configuration."""

    def __init__(self, stored: Mapping[str, str] | None = None) -> None:
        self.config = BrokerConfig.load()
        self.stored = stored or {}
        self.levels = {"root": "INFO", "kpybroker.server": "INFO"}

    def configs_of(self, _resource_type: int, _name: str) -> Mapping[str, str]:
        return self.stored

    def has_topic(self, _name: str) -> bool:
        return False

    def logger_levels(self) -> Mapping[str, str]:
        return self.levels

    def set_logger_level(self, name: str, level: str | None) -> None:
        self.levels[name] = level or self.levels["root"]


def resource(kind: int, name: str, *operations: tuple[int, str, str | None]) -> AlterConfigsResource:
    configs = [AlterableConfig(name=config, config_operation=operation, value=v) for operation, config, v in operations]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def request(*resources: AlterConfigsResource, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)


def test_answers_are_merged_in_the_order_of_the_request():
    topic, wrong, broker = (
        resource(2, "t", (SET, "retention.ms", "1")),
        resource(4, "9", (SET, "message.max.bytes", "1")),
        resource(4, "1", (SET, "message.max.bytes", "1")),
    )
    settled = at_once(alter.settle_incremental(request(topic, wrong, broker), Node()))
    assert at_once(alter.without([topic, wrong, broker], settled)) == [topic, broker]
    answered = [
        AlterConfigsResourceResponse(error_code=0, error_message=None, resource_type=4, resource_name="1"),
        AlterConfigsResourceResponse(error_code=3, error_message="no", resource_type=2, resource_name="t"),
    ]
    merged = at_once(alter.merge([topic, wrong, broker], settled, answered, AlterConfigsResourceResponse))
    assert [(answer.resource_name, answer.error_code) for answer in merged] == [("t", 3), ("9", 42), ("1", 0)]


def test_a_controller_that_answers_too_little_is_an_error():
    lonely = resource(2, "t", (SET, "retention.ms", "1"))
    (answer,) = at_once(alter.merge([lonely], {}, [], AlterConfigsResourceResponse))
    assert answer.error_code == -1


def test_a_resource_that_comes_twice_is_refused_both_times():
    twice = [resource(2, "t", (SET, "retention.ms", "1")), resource(2, "t", (SET, "retention.ms", "2"))]
    settled = at_once(alter.settle_incremental(request(*twice), Node()))
    assert [error.message for error in settled.values() if error] == ["Each resource must appear at most once."] * 2


def test_loggers_are_set_at_once_and_need_no_controller():
    node = Node()
    change = resource(8, "1", (SET, "kpybroker.server", "TRACE"))
    assert at_once(alter.settle_incremental(request(change, validate_only=True), node)) == {0: None}
    assert node.levels["kpybroker.server"] == "INFO"
    assert at_once(alter.settle_incremental(request(change), node)) == {0: None}
    assert node.levels["kpybroker.server"] == "TRACE"
    unset = resource(8, "1", (DELETE, "kpybroker.server", None))
    assert at_once(alter.settle_incremental(request(unset), node)) == {0: None}
    assert node.levels["kpybroker.server"] == "INFO"


@pytest.mark.parametrize(
    ("stored", "operations", "refused"),
    [
        ({}, [(APPEND, "log.cleanup.policy", "compact")], False),
        ({"log.cleanup.policy": "compact"}, [(APPEND, "log.cleanup.policy", "nonsense")], True),
        ({"log.cleanup.policy": "nonsense"}, [(APPEND, "log.cleanup.policy", "compact")], False),
        ({"log.cleanup.policy": "compact,delete"}, [(SUBTRACT, "log.cleanup.policy", "compact")], False),
        ({"log.retention.ms": "5"}, [(DELETE, "log.retention.ms", None)], False),
    ],
)
def test_operations_apply_to_what_is_stored_and_usable(stored, operations, refused):
    settled = at_once(alter.settle_incremental(request(resource(4, "1", *operations)), Node(stored)))
    assert bool(settled) == refused


def test_stored_configs_that_cannot_be_used_are_left_out_and_named():
    config = BrokerConfig.load().with_dynamic(
        {"message.max.bytes": "x", "listeners": "PLAINTEXT://:1", "log.retention.ms": "5"},
        {"node.id": "7", "no.such": "kept", "message.max.bytes": "70"},
    )
    assert config.dynamic_default == {"log.retention.ms": "5"}
    assert config.dynamic_broker == {"no.such": "kept", "message.max.bytes": "70"}
    named = " ".join(config.warnings)
    assert all(name in named for name in ("message.max.bytes", "listeners", "node.id"))


def test_stored_configs_that_do_not_fit_together_do_not_stop_a_broker():
    config = BrokerConfig.load().with_dynamic({"log.retention.ms": "5"}, {"log.roll.ms": "0", "message.max.bytes": "6"})
    assert (config.log_retention_ms, config.log_roll_ms, config.message_max_bytes) == (5, 604_800_000, 1_048_588)
    assert [text for text in config.warnings if "log.roll.ms must be greater" in text]
    neither = BrokerConfig.load().with_dynamic({"log.roll.ms": "0"}, {"log.retention.ms": "0"})
    assert (neither.dynamic_default, neither.dynamic_broker) == ({}, {})


@pytest.mark.parametrize(
    "configs",
    [
        {"listeners": "PLAINTEXT://127.0.0.1:9999"},
        {"listener.name.plaintext.ssl.keystore.location": "/x"},
        {"sasl.jaas.config": "x"},
        {"principal.builder.class": "org.example.Builder"},
    ],
)
def test_updates_that_a_running_broker_cannot_apply_are_refused(configs):
    with pytest.raises(ConfigError) as error:
        dynamic.validate(configs, BrokerConfig.load(), of_one_broker=True)
    assert error.value.code == 42


@pytest.mark.parametrize(
    "configs",
    [
        {"sasl.kerberos.min.time.before.relogin": "58000"},
        {"sasl.kerberos.kinit.cmd": "/bin/kinit"},
        {"ssl.protocol": "TLSv1.2"},
    ],
)
def test_configs_without_effect_may_change_as_on_kafka(configs):
    dynamic.validate(configs, BrokerConfig.load(), of_one_broker=True)


def test_a_sender_without_permission_learns_nothing_of_files_and_present_configs():
    named = request(
        resource(4, "1", (SET, "listener.name.plaintext.ssl.keystore.location", "/no/such")),
        resource(4, "", (SET, "num.io.threads", "1000")),
    )
    assert set(at_once(alter.settle_incremental(named, Node()))) == {0, 1}
    malformed = request(resource(4, "1", (SET, "num.io.threads", "x")), resource(4, "2", (SET, "log.dirs", "x")))
    for refused in (named, malformed):
        settled = at_once(alter.settle_incremental(refused, Node(), is_allowed=False))
        assert [(each.code, each.message) for each in settled.values()] == [(31, "")] * 2
    doubled = request(resource(4, "1", (SET, "num.io.threads", "1"), (SET, "num.io.threads", "2")))
    (error,) = at_once(alter.settle_incremental(doubled, Node(), is_allowed=False)).values()
    assert error.code == 42


def test_loggers_of_this_program_are_shown_and_set():
    loggers, ours, other = Loggers(), logging.getLogger("kpybroker.a_test"), logging.getLogger("somebody.else")
    before = ours.level
    try:
        loggers.set_level("kpybroker.a_test", "FATAL")
        assert (ours.level, loggers.levels()["kpybroker.a_test"]) == (logging.CRITICAL, "FATAL")
        loggers.set_level("kpybroker.a_test", "TRACE")
        assert loggers.levels()["kpybroker.a_test"] == "TRACE"
        loggers.set_level("kpybroker.a_test", None)
        assert loggers.levels()["kpybroker.a_test"] == loggers.levels()["root"]
    finally:
        ours.setLevel(before)
    assert other.name not in loggers.levels()


def test_texts_are_found():
    assert "retention" in (documentation_of("topic", "retention.ms") or "")
    assert documentation_of("broker", "no.such") is None


def test_configs_of_our_own_are_described_only_where_they_are_set():
    listener = "kpybroker.http.listener"
    assert listener not in {entry.name for entry in _described(BrokerConfig.load())}
    (entry,) = [one for one in _described(BrokerConfig.load(None, {listener: "127.0.0.1:0"})) if one.name == listener]
    assert (entry.value, entry.read_only, entry.is_sensitive) == ("127.0.0.1:0", True, False)
    assert "/metrics" in (entry.documentation or "")


def _described(config: BrokerConfig) -> list[DescribeConfigsResourceResult]:
    node = Node()
    node.config = config
    question = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[question], include_synonyms=False, include_documentation=True)
    (result,) = at_once(describe.respond(request, node)).results
    assert all(entry.synonyms == [] for entry in result.configs)
    return list(result.configs)
