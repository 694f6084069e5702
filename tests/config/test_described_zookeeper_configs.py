"""DescribeConfigs of a broker in ZooKeeper mode."""

from collections.abc import Mapping

from kpybroker.calls.steps import at_once
from kpybroker.config import describe
from kpybroker.config.broker import BrokerConfig
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

BROKER, STATIC, DEFAULT = 4, 4, 5


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


def described(properties: Mapping[str, str]) -> dict[str, tuple[str | None, int, bool]]:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
    (result,) = at_once(describe.respond(request, OnlyAFile(properties))).results
    return {each.name: (each.value, each.config_source, each.is_sensitive) for each in result.configs}


def test_configs_of_zookeeper_are_known_in_that_mode_only() -> None:
    found = described(
        {"broker.id": "1", "zookeeper.connect": "localhost:2181/kafka", "password.encoder.secret": "hidden"}
    )
    assert found["zookeeper.connect"] == ("localhost:2181/kafka", STATIC, False)
    assert found["zookeeper.session.timeout.ms"] == ("18000", DEFAULT, False)
    assert found["password.encoder.secret"] == (None, STATIC, True)
    assert "zookeeper.session.timeout.ms" not in described({"node.id": "1"})
