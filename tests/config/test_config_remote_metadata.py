"""The configs of ``__remote_log_metadata``, under the prefix that Kafka gives them."""

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.remote_metadata import RemoteMetadataSettings, remote_metadata_settings, unknown_names
from kpybroker.machines.config_def import ConfigError

PREFIX = "rlmm.config."


def config(**overrides: str) -> BrokerConfig:
    return BrokerConfig.load(None, {"node.id": "1", **overrides})


def test_the_defaults_are_those_of_kafka() -> None:
    assert remote_metadata_settings(config()) == RemoteMetadataSettings(50, 3, False, -1, 2)


def test_values_are_read_under_the_configured_prefix() -> None:
    settings = remote_metadata_settings(
        config(
            **{
                "remote.log.metadata.manager.impl.prefix": "mine.",
                "mine.remote.log.metadata.topic.num.partitions": "7",
                "mine.remote.log.metadata.topic.replication.factor": "2",
                "mine.remote.log.metadata.topic.retention.ms": "5000",
                "mine.remote.log.metadata.topic.min.isr": "1",
                f"{PREFIX}remote.log.metadata.topic.num.partitions": "9",
            }
        )
    )
    assert settings == RemoteMetadataSettings(7, 2, True, 5000, 1)


@pytest.mark.parametrize("value", ["0", "many"])
def test_a_value_that_kafka_refuses_is_refused_by_its_full_name(value: str) -> None:
    name = f"{PREFIX}remote.log.metadata.topic.num.partitions"
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        remote_metadata_settings(config(**{name: value}))


def test_an_unknown_name_gets_a_question_and_configs_of_clients_none() -> None:
    (line,) = unknown_names(
        config(
            **{
                f"{PREFIX}remote.log.metadata.topic.num.partition": "7",
                f"{PREFIX}remote.log.metadata.producer.acks": "all",
                f"{PREFIX}remote.log.metadata.topic.min.isr": "1",
            }
        )
    )
    name = f"{PREFIX}remote.log.metadata.topic.num.partition"
    assert line == f"{name} is not a config that is known here, it is ignored; did you mean {name}s?"


def test_a_start_warns_of_the_unknown_name_alone() -> None:
    names = ("num.partitions", "nun.partitions")
    tiered = {"remote.log.storage.system.enable": "true", "kpybroker.remote.store": "memory:"}
    started = config(**tiered, **{f"{PREFIX}remote.log.metadata.topic.{name}": "7" for name in names})
    (line,) = [each for each in started.warnings if "remote.log.metadata" in each]
    assert line.startswith(f"{PREFIX}remote.log.metadata.topic.nun.partitions is not a config")
