"""The controller's questions about configs: its narrow view of ``kpybroker.config``."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

MAX_VALUE_LENGTH: Final = 0x7FFF


class EffectiveConfig(NamedTuple):
    """One config of a topic as CreateTopics reports it."""

    name: str
    value: str | None
    source: int
    """A ``DescribeConfigsResponse.ConfigSource`` id: 1 topic, 2 broker, 3 cluster default, 4 static, 5 default."""
    is_sensitive: bool


class ConfigRules(Protocol):
    """Definitions, defaults and validation of configs."""

    def check(
        self, resource_type: int, name: str, configs: Mapping[str, str | None], existing: Mapping[str, str]
    ) -> None:
        """Raise KafkaError unless ``configs`` may become the whole set of a resource's configs; ``existing`` are its
        present ones."""

    def is_list(self, resource_type: int, name: str) -> bool:
        """Whether a config is a list, so that values can be appended to it."""

    def default(self, resource_type: int, name: str) -> str | None:
        """The built-in default of a config, as text."""

    def effective_topic_configs(
        self, topic: Mapping[str, str], node: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[EffectiveConfig]:
        """All configs of a topic, sorted by name, given what is set on it, on this node and on all nodes."""

    def effective_topic_config(
        self, name: str, topic: Mapping[str, str], node: Mapping[str, str], cluster: Mapping[str, str]
    ) -> str:
        """One config of a topic."""
