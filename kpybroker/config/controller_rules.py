"""``kpybroker.config`` as the controller sees it (``ControllerConfigurationValidator``, ``KafkaConfigSchema``)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kpybroker.config import client_metrics, group
from kpybroker.config import topic as topic_rules
from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS
from kpybroker.machines.config_def import LIST, ConfigKey, java_int, to_text
from kpybroker.machines.controller.config_rules import EffectiveConfig
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.machines.metadata.topic_name import reason_invalid
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.config.broker import BrokerConfig

CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
TOPIC_SOURCE, BROKER_SOURCE, CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = range(1, 6)

# Lists of other resources are set, never appended to: Kafka's schema knows these two only.
_DEFINITIONS: Mapping[int, Mapping[str, ConfigKey]] = {TOPIC_RESOURCE: TOPIC_CONFIGS, BROKER_RESOURCE: BROKER_CONFIGS}
_RESOURCE_NAMES = {0: "UNKNOWN", 8: "BROKER_LOGGER"}


class BrokerConfigRules:
    """The rules of this node's configuration."""

    def __init__(self, config: "BrokerConfig") -> None:
        self._config = config
        self._last_effective: tuple[tuple[Mapping[str, str], ...], Sequence[EffectiveConfig]] | None = None
        """The last question about a topic's configs and its answer: many topics that are created together have the same
        configs."""

    def check(
        self, resource_type: int, name: str, configs: Mapping[str, str | None], existing: Mapping[str, str]
    ) -> None:
        """Raise KafkaError unless a resource may have these configs."""
        values = {key: value for key, value in configs.items() if value is not None}
        if resource_type == TOPIC_RESOURCE:
            _check_topic_name(name)
            topic_rules.validate(values, self._config, existing)
        elif resource_type == BROKER_RESOURCE:
            _check_broker_name(name)
        elif resource_type == GROUP_RESOURCE:
            _require(bool(name), "Default group resources are not allowed.")
            group.validate(values, self._config)
        elif resource_type == CLIENT_METRICS_RESOURCE:
            client_metrics.validate(name, values)
        else:
            named = _RESOURCE_NAMES.get(resource_type, resource_type)
            raise KafkaError(error_codes.INVALID_REQUEST, f"Unknown resource type {named}")

    def is_list(self, resource_type: int, name: str) -> bool:
        """Whether a config is a list."""
        key = _DEFINITIONS.get(resource_type, {}).get(name)
        return key is not None and key.type == LIST

    def default(self, resource_type: int, name: str) -> str | None:
        """The built-in default of a config."""
        key = _DEFINITIONS.get(resource_type, {}).get(name)
        return None if key is None else to_text(key.default)

    def effective_topic_configs(
        self, topic: Mapping[str, str], node: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[EffectiveConfig]:
        """All configs of a topic, sorted by name. Topics in a row with the same settings share one list."""
        asked = (topic, node, cluster)
        if self._last_effective is None or self._last_effective[0] != asked:
            copied = (dict(topic), dict(node), dict(cluster))
            self._last_effective = (copied, self._all_effective(topic, node, cluster))
        return self._last_effective[1]

    def _all_effective(
        self, topic: Mapping[str, str], node: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[EffectiveConfig]:
        return [
            self._effective(key, topic, node, cluster)
            for name, key in sorted(TOPIC_CONFIGS.items())
            if name in topic or not key.internal
        ]

    def effective_topic_config(
        self, name: str, topic: Mapping[str, str], node: Mapping[str, str], cluster: Mapping[str, str]
    ) -> str:
        """One config of a topic."""
        return self._effective(TOPIC_CONFIGS[name], topic, node, cluster).value or ""

    def _effective(
        self, key: ConfigKey, topic: Mapping[str, str], node: Mapping[str, str], cluster: Mapping[str, str]
    ) -> EffectiveConfig:
        value: str | None = topic.get(key.name)
        source = TOPIC_SOURCE
        if value is None:
            layers = ((node, BROKER_SOURCE), (cluster, CLUSTER_SOURCE), (self._config.static, STATIC_SOURCE))
            value, source = _first_set(TOPIC_SYNONYMS.get(key.name, ()), layers)
        if value is None:
            value = to_text(key.default)
        return EffectiveConfig(key.name, value, source, key.sensitive)


def _first_set(
    synonyms: Sequence[tuple[str, int]], layers: Sequence[tuple[Mapping[str, str], int]]
) -> tuple[str | None, int]:
    """Look through the layers for the first one that sets any of the synonyms. Return the value of the first synonym
    that it sets, in the topic config's unit, with its source."""
    for layer, source in layers:
        for name, unit in synonyms:
            if name in layer:
                return layer[name] if unit == 1 else str(int(layer[name]) * unit), source
    return None, DEFAULT_SOURCE


def _require(condition: bool, message: str) -> None:  # noqa: FBT001
    if not condition:
        raise KafkaError(error_codes.INVALID_REQUEST, message)


def _check_topic_name(name: str) -> None:
    _require(bool(name), "Default topic resources are not allowed.")
    invalid = reason_invalid(name)
    if invalid is not None:
        raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION, invalid)


def _check_broker_name(name: str) -> None:
    if name:
        try:
            broker_id = java_int(name)
        except ValueError:
            message = "Unable to parse broker name as a base 10 number."
            raise KafkaError(error_codes.INVALID_REQUEST, message) from None
        _require(broker_id >= 0, "Invalid negative broker ID.")
