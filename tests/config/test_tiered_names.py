"""The names of the configs of tiered storage, in a broker's file."""

from kpybroker.config.broker import BrokerConfig

TIERED = {"remote.log.storage.system.enable": "true", "kpybroker.remote.store": "memory:"}


def warnings_of(**names: str) -> list[str]:
    return BrokerConfig({**TIERED, **{name.replace("_", "."): value for name, value in names.items()}}).warnings


def test_a_known_config_of_the_metadata_topic_is_no_warning() -> None:
    known = {
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
        "rlmm.config.remote.log.metadata.admin.x": "y",
    }
    assert BrokerConfig({**TIERED, **known}).warnings == BrokerConfig(TIERED).warnings


def test_a_mistyped_config_of_the_metadata_topic_is_a_warning_with_the_name_that_was_meant() -> None:
    (found,) = [each for each in warnings_of(rlmm_config_remote_log_metadata_topic_num_partition="5") if "rlmm" in each]
    assert "did you mean rlmm.config.remote.log.metadata.topic.num.partitions" in found
