"""The configuration of a topic: its own configs, those of the broker it is on, Kafka's defaults."""

import pytest

from kpybroker.config import topic
from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.config_def import ConfigError
from oracle.configs import ask

STANDALONE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig.load(None, {"log.retention.hours": "2", "message.max.bytes": "5000"})


def test_a_topic_wins_over_its_broker_and_that_over_the_default(config):
    effective = topic.effective({"retention.ms": "9"}, config)
    assert (effective.retention_ms, effective.max_message_bytes, effective.segment_bytes) == (9, 5000, 1 << 30)
    assert topic.effective({}, config).retention_ms == 7_200_000


def test_dynamic_broker_configs_reach_topics(config):
    updated = config.with_dynamic({"message.max.bytes": "6000", "log.retention.ms": "1"}, {"message.max.bytes": "7000"})
    effective = topic.effective({}, updated)
    assert (effective.max_message_bytes, effective.retention_ms) == (7000, 1)


def test_topics_that_set_nothing_share_one_config(config):
    assert topic.effective({}, config) is topic.effective({}, config)
    assert topic.effective({}, config) is not topic.effective({}, config.with_dynamic({}, {}))


@pytest.mark.parametrize(
    ("policy", "compact", "delete"),
    [("compact", True, False), ("delete", False, True), ("compact,delete", True, True), ("", False, False)],
)
def test_cleanup_policies(config, policy, compact, delete):
    effective = topic.effective({"cleanup.policy": policy}, config)
    assert (effective.compact, effective.delete) == (compact, delete)


def test_a_compacted_segment_is_closed_in_time_for_its_records_to_be_compacted(config):
    overrides = {"max.compaction.lag.ms": "1000", "segment.ms": "5000"}
    assert topic.effective(overrides, config).max_segment_ms == 5000
    assert topic.effective({**overrides, "cleanup.policy": "compact"}, config).max_segment_ms == 1000


def test_timestamp_type_and_internal_segment_size(config):
    effective = topic.effective({"message.timestamp.type": "LogAppendTime", "internal.segment.bytes": "100"}, config)
    assert effective.log_append_time
    assert effective.segment_bytes == 100


def test_a_config_from_a_newer_broker_is_left_out(config):
    assert topic.effective({"not.yet.invented": "1", "retention.ms": "8"}, config).retention_ms == 8


def test_logs_get_numbers(config):
    log = topic.effective({"segment.bytes": "2000000", "cleanup.policy": "compact"}, config).log()
    assert (log.segment_bytes, log.cleanup_compact, log.cleanup_delete) == (2_000_000, True, False)
    assert log.producer_id_expiration_ms == 86_400_000


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", 9), ("zstd", 3), ("lz4", 9), ("snappy", None), ("producer", None), ("uncompressed", None)],
)
def test_produced_records_are_held_against_the_topic(config, codec, level):
    overrides = {"compression.type": codec, "compression.gzip.level": "9", "cleanup.policy": "compact"}
    validation = topic.effective({**overrides, "message.timestamp.before.max.ms": "7"}, config).validation()
    assert (validation.max_message_bytes, validation.before_max_ms, validation.level) == (5000, 7, level)
    assert validation.compacted


@pytest.mark.java
def test_topics_are_validated_in_kafkas_words():
    config = BrokerConfig.load(None, STANDALONE, defaults={})
    cases = [
        ({}, {"remote.storage.enable": "true"}),
        ({"remote.storage.enable": "true"}, {"retention.ms": "5"}),
        ({"remote.storage.enable": "true"}, {"remote.log.delete.on.disable": "true"}),
        ({}, {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "3"}),
        ({}, {"max.compaction.lag.ms": "3"}),
        ({}, {"no.such": "3"}),
        ({}, {"segment.bytes": "1048576", "retention.ms": "-1", "cleanup.policy": "compact,delete"}),
    ]
    commands = [{"do": "topic", "static": STANDALONE, "existing": old, "props": new} for old, new in cases]
    for (existing, overrides), answer in zip(cases, ask(commands), strict=True):
        try:
            topic.validate(overrides, config, existing)
            ours = None
        except ConfigError as error:
            ours = error.message
        assert ours == answer.get("error")
