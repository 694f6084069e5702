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


TIERING = {"remote.log.storage.system.enable": "true", "kpybroker.remote.store": "memory:"}
TIERED = {"remote.storage.enable": "true"}
READ_ONLY = {**TIERED, "remote.log.copy.disable": "true"}
DISABLED = {"remote.storage.enable": "false"}
TIERED_CASES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, TIERED),
    ({}, {"remote.storage.enable": "TRUE"}),
    ({}, {**TIERED, "cleanup.policy": "compact"}),
    ({}, {**TIERED, "cleanup.policy": "compact,delete"}),
    ({}, {**TIERED, "cleanup.policy": ""}),
    (TIERED, {**TIERED, "cleanup.policy": "compact"}),
    ({}, {"cleanup.policy": "compact", "local.retention.ms": "9999999999"}),
    ({}, {**TIERED, "retention.ms": "100", "local.retention.ms": "100"}),
    ({}, {**TIERED, "retention.ms": "100", "local.retention.ms": "101"}),
    ({}, {**TIERED, "retention.ms": "100", "local.retention.ms": "-1"}),
    ({}, {**TIERED, "retention.ms": "-1", "local.retention.ms": "-1"}),
    ({}, {**TIERED, "retention.ms": "-1", "local.retention.ms": "5"}),
    ({}, {**TIERED, "local.retention.ms": "604800001"}),
    ({}, {**TIERED, "local.retention.ms": "-3"}),
    ({}, {**TIERED, "retention.bytes": "100", "local.retention.bytes": "101"}),
    ({}, {**TIERED, "retention.bytes": "100", "local.retention.bytes": "-1"}),
    (
        {},
        {
            **TIERED,
            "retention.bytes": "1",
            "local.retention.bytes": "2",
            "retention.ms": "1",
            "local.retention.ms": "2",
        },
    ),
    ({}, {"retention.ms": "100", "local.retention.ms": "101"}),
    ({}, {**TIERED, "remote.copy.lag.ms": "604800000"}),
    ({}, {**TIERED, "remote.copy.lag.ms": "604800001"}),
    ({}, {**TIERED, "remote.copy.lag.ms": "11", "local.retention.ms": "10"}),
    ({}, {**TIERED, "remote.copy.lag.ms": "11", "retention.ms": "-1"}),
    ({}, {**TIERED, "remote.copy.lag.ms": "-1", "local.retention.ms": "10"}),
    ({}, {**TIERED, "remote.copy.lag.ms": "-2"}),
    ({}, {**TIERED, "remote.copy.lag.bytes": "11", "local.retention.bytes": "10"}),
    ({}, {**TIERED, "remote.copy.lag.bytes": "11", "retention.bytes": "10"}),
    ({}, {**TIERED, "remote.copy.lag.bytes": "11"}),
    ({}, {**TIERED, "remote.copy.lag.bytes": "11", "remote.copy.lag.ms": "604800001", "retention.bytes": "10"}),
    ({}, {"remote.copy.lag.ms": "604800001"}),
    ({}, READ_ONLY),
    (TIERED, READ_ONLY),
    ({}, {**READ_ONLY, "local.retention.ms": "604800000"}),
    ({}, {**READ_ONLY, "local.retention.ms": "1"}),
    ({}, {**READ_ONLY, "retention.bytes": "5", "local.retention.bytes": "5"}),
    ({}, {**READ_ONLY, "retention.bytes": "5", "local.retention.bytes": "4"}),
    ({}, {**READ_ONLY, "retention.bytes": "5", "local.retention.bytes": "4", "local.retention.ms": "1"}),
    ({}, {**READ_ONLY, "local.retention.bytes": "4", "local.retention.ms": "604800001"}),
    (TIERED, {}),
    (TIERED, DISABLED),
    (TIERED, {**DISABLED, "remote.log.delete.on.disable": "true"}),
    (TIERED, {"remote.log.delete.on.disable": "true"}),
    (TIERED, {**DISABLED, "remote.log.copy.disable": "true"}),
    (TIERED, {**TIERED, "remote.log.delete.on.disable": "true"}),
    (DISABLED, {}),
    ({}, {"remote.log.copy.disable": "true"}),
    ({}, {"remote.log.delete.on.disable": "true"}),
]


@pytest.mark.java
@pytest.mark.parametrize("is_on", [True, False], ids=["tiering", "no tiering"])
def test_tiered_topics_are_validated_in_kafkas_words(is_on: bool):
    static = {**STANDALONE, **(TIERING if is_on else {})}
    config = BrokerConfig.load(None, static, defaults={})
    commands = [{"do": "topic", "static": static, "existing": old, "props": new} for old, new in TIERED_CASES]
    for (existing, overrides), answer in zip(TIERED_CASES, ask(commands), strict=True):
        try:
            topic.validate(overrides, config, existing)
            ours = None
        except ConfigError as error:
            ours = error.message
        assert ours == answer.get("error"), (existing, overrides)


BROKER_CASES = [
    {},
    {"log.retention.ms": "100", "log.local.retention.ms": "101"},
    {"log.retention.ms": "100", "log.local.retention.ms": "-1"},
    {"log.retention.bytes": "100", "log.local.retention.bytes": "101"},
    {"log.remote.copy.lag.ms": "604800001"},
    {"log.remote.copy.lag.bytes": "5", "log.local.retention.bytes": "4"},
    {"log.cleanup.policy": "compact"},
]


@pytest.mark.parametrize("given", BROKER_CASES, ids=str)
def test_a_tiered_topic_takes_what_it_does_not_set_from_the_broker(given):
    """A broker whose own configs do not fit together does not start; a topic that would inherit them is refused in the
    same words."""
    plain = BrokerConfig.load(None, {**STANDALONE, **given}, defaults={})
    assert plain.topic_defaults.tier is None
    if given in ({}, {"log.cleanup.policy": "compact"}):
        assert BrokerConfig.load(None, {**STANDALONE, **TIERING, **given}, defaults={})
        return
    with pytest.raises(ConfigError, match=r"^Invalid value -?\d+ for configuration (local\.ret|remote\.copy)"):
        BrokerConfig.load(None, {**STANDALONE, **TIERING, **given}, defaults={})


def test_the_settings_of_a_tiered_topic_reach_its_log(config):
    tiered = topic.effective({**TIERED, "local.retention.ms": "5", "remote.copy.lag.bytes": "7"}, config)
    assert tiered.tier is not None
    assert (tiered.tier.local_retention_ms, tiered.tier.copy_lag_bytes, tiered.tier.is_copy_disabled) == (5, 7, False)
    assert tiered.log().is_tiered
    compacted = topic.effective({**TIERED, "cleanup.policy": "compact"}, config)
    assert compacted.tier is None
    assert not compacted.log().is_tiered


COMPACTED = {**TIERED, "cleanup.policy": "compact", "retention.ms": "9", "local.retention.ms": "5"}


def test_a_compacted_topic_may_be_tiered_where_that_is_configured(config):
    with pytest.raises(ConfigError, match=r"only supports topics with cleanup\.policy=delete"):
        topic.validate(COMPACTED, BrokerConfig.load(None, {**STANDALONE, **TIERING}, defaults={}))
    allowed = BrokerConfig.load(
        None, {**STANDALONE, **TIERING, "kpybroker.remote.compacted.enable": "true"}, defaults={}
    )
    topic.validate(COMPACTED, allowed)
    tier = topic.effective(COMPACTED, allowed).tier
    assert tier is not None
    assert (tier.retention_ms, tier.retention_bytes, tier.local_ms) == (-1, -1, 5)
    both = topic.effective({**COMPACTED, "cleanup.policy": "compact,delete"}, allowed).tier
    assert both is not None
    assert (both.retention_ms, both.local_ms) == (9, 5)
    assert topic.effective(COMPACTED, config).tier is None


ZOOKEEPER = {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092"}


@pytest.mark.parametrize(
    ("existing", "overrides", "refusal"),
    [
        ({}, TIERED, ""),
        ({}, READ_ONLY, "under Zookeeper's mode."),
        (TIERED, {**DISABLED, "remote.log.delete.on.disable": "true"}, "under Zookeeper's mode."),
        (TIERED, DISABLED, "It is invalid to disable remote storage without deleting remote data."),
        ({}, {**TIERED, "cleanup.policy": "compact"}, "Remote log storage is unsupported for the compacted topics"),
    ],
    ids=str,
)
def test_in_zookeeper_mode_a_topic_stays_tiered(existing, overrides, refusal):
    config = BrokerConfig.load(None, {**ZOOKEEPER, **TIERING}, defaults={})
    assert config.is_in_zookeeper_mode
    try:
        topic.validate(overrides, config, existing)
        shown = ""
    except ConfigError as error:
        shown = error.message
    assert refusal in shown
    assert bool(refusal) == bool(shown)


def test_metadata_that_should_be_elsewhere_refuse_the_start():
    elsewhere = {"remote.log.metadata.manager.class.name": "org.example.Metadata"}
    with pytest.raises(ConfigError, match=r"remote\.log\.metadata\.manager\.class\.name: classes written in Java"):
        BrokerConfig.load(None, {**STANDALONE, **TIERING, **elsewhere}, defaults={})


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
