"""DescribeConfigs and IncrementalAlterConfigs of a broker in ZooKeeper mode."""

from collections.abc import Mapping

from kpybroker.config import alter, describe
from kpybroker.config.broker import BrokerConfig
from kpybroker.runtime.calls.steps import at_once
from kpywire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER, STATIC, DEFAULT = 4, 4, 5
STRING, LIST = 2, 7
IN_ZOOKEEPER_MODE = {"broker.id": "1", "zookeeper.connect": "localhost:2181/kafka"}


class OnlyAFile:
    """The configs of a broker that has no others than its file."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.config = BrokerConfig.load(None, properties, defaults={})

    def has_topic(self, _name: str) -> bool:
        return False

    def configs_of(self, _resource_type: int, _name: str) -> Mapping[str, str]:
        return {}

    def logger_levels(self) -> Mapping[str, str]:
        return {}

    def set_logger_level(self, name: str, level: str | None) -> None:
        raise AssertionError(f"nobody sets {name} to {level}")


def described(properties: Mapping[str, str]) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
    (result,) = at_once(describe.respond(request, OnlyAFile(properties))).results
    return {each.name: each for each in result.configs}


def test_configs_of_zookeeper_are_known_in_that_mode_only() -> None:
    entries = described({**IN_ZOOKEEPER_MODE, "password.encoder.secret": "hidden"})
    found = {name: (each.value, each.config_source, each.is_sensitive) for name, each in entries.items()}
    assert found["zookeeper.connect"] == ("localhost:2181/kafka", STATIC, False)
    assert found["zookeeper.session.timeout.ms"] == ("18000", DEFAULT, False)
    assert found["password.encoder.secret"] == (None, STATIC, True)
    assert "zookeeper.session.timeout.ms" not in described({"node.id": "1"})


def test_log_dir_is_no_list_in_that_mode_as_in_kafka_3_9() -> None:
    assert described(IN_ZOOKEEPER_MODE)["log.dir"].config_type == STRING
    assert described({"node.id": "1"})["log.dir"].config_type == LIST
    appended = AlterableConfig(name="log.dir", config_operation=alter.APPEND, value="/elsewhere")
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[appended])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    refusals = [
        str(at_once(alter.settle_incremental(request, OnlyAFile(properties)))[0])
        for properties in (IN_ZOOKEEPER_MODE, {"node.id": "1"})
    ]
    assert refusals[0] == "Config value append is not allowed for config key: log.dir"
    assert refusals[1].startswith("Cannot update these configs dynamically: [log.dir")
