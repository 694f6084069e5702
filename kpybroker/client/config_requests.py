"""The requests of ``kpybroker configs``: the configs of one resource, and changes of them. Raises KafkaError."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from kpybroker.client.client import Client, raise_for
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
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
from kpywire.messages.list_config_resources import ListConfigResourcesRequest


class ConfigResourceType(IntEnum):
    """Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "server.properties",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
"""Kafka's DescribeConfigsResponse.ConfigSource, in words."""
DEFAULT_SOURCE = 5
TYPES = ("unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
TOPICS_AT_ONCE = 500
BROKER_KINDS = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


class ConfigResource(NamedTuple):
    """A resource that has configs. A broker's name is its id; an empty name stands for all brokers."""

    kind: ConfigResourceType
    name: str

    def __str__(self) -> str:
        if self.kind is ConfigResourceType.BROKER and not self.name:
            return "all brokers"
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name}"


class ConfigChange(NamedTuple):
    """An operation on one config. ``value`` is None for DELETE."""

    operation: ConfigOperation
    name: str
    value: str | None


def describe(
    client: Client,
    resource: ConfigResource,
    names: Iterable[str] = (),
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[DescribeConfigsResourceResult]:
    """The configs of a resource by name: all, or those with the given names. Raises KafkaError."""

    def attempt() -> list[DescribeConfigsResourceResult]:
        answerer = _answerer(client, resource)
        return described_by(answerer, resource, names, synonyms=synonyms, documentation=documentation)

    _look_for_topic(client, resource)
    return client.retrying(attempt)


def described_by(
    call: Callable[[Any], Any],
    resource: ConfigResource,
    names: Iterable[str] = (),
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[DescribeConfigsResourceResult]:
    """The configs of a resource by name, as the node answers that ``call`` asks. Raises KafkaError."""
    wanted = DescribeConfigsResource(
        resource_type=resource.kind, resource_name=resource.name, configuration_keys=sorted(names) or None
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=synonyms, include_documentation=documentation)
    (answer,) = call(request).results
    raise_for(answer.error_code, str(resource), answer.error_message)
    return sorted(answer.configs, key=lambda each: str(each.name))


def describe_topics(
    client: Client, topics: Iterable[str], names: Iterable[str]
) -> Iterator[tuple[str, list[DescribeConfigsResourceResult]]]:
    """The configs with the given names, or all, of many topics; topics that have gone are left out. Raises
    KafkaError."""
    for name, found in describe_shown_topics(client, topics, names):
        if isinstance(found, KafkaError):
            raise found
        yield name, found


def describe_shown_topics(
    client: Client, topics: Iterable[str], names: Iterable[str]
) -> Iterator[tuple[str, list[DescribeConfigsResourceResult] | KafkaError]]:
    """The same, with the error of each topic whose configs are not shown."""
    keys, every = sorted(names) or None, list(topics)  # an empty list is none to old brokers
    for start in range(0, len(every), TOPICS_AT_ONCE):
        resources = [
            DescribeConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=each, configuration_keys=keys)
            for each in every[start : start + TOPICS_AT_ONCE]
        ]
        for answer in client.call(DescribeConfigsRequest(resources=resources)).results:
            if answer.error_code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                is_shown = answer.error_code == error_codes.NONE
                reason = answer.error_message or error_codes.message(answer.error_code)
                error = KafkaError(answer.error_code, f"topic {answer.resource_name}: {reason}")
                yield answer.resource_name, answer.configs if is_shown else error


def alter(
    client: Client, resource: ConfigResource, changes: Iterable[ConfigChange], *, validate_only: bool = False
) -> None:
    """Change configs of a resource, all or none. Raises KafkaError."""
    request = IncrementalAlterConfigsRequest(resources=[_altered(resource, changes)], validate_only=validate_only)

    def attempt() -> None:
        for answer in _answerer(client, resource)(request).responses:
            raise_for(answer.error_code, str(resource), answer.error_message)

    _look_for_topic(client, resource)
    client.retrying(attempt)


def alter_topics(client: Client, names: Iterable[str], changes: Iterable[ConfigChange]) -> None:
    """Change the same configs of several topics by one request. Raises KafkaError."""
    wanted = list(changes)
    alter_each_topic(client, dict.fromkeys(names, wanted))


def alter_each_topic(client: Client, wanted: Mapping[str, Iterable[ConfigChange]]) -> None:
    """Change configs of several topics by one request, all or none of each topic. Raises KafkaError."""
    altered = [_altered(ConfigResource(ConfigResourceType.TOPIC, name), each) for name, each in wanted.items()]
    request = IncrementalAlterConfigsRequest(resources=altered, validate_only=False)

    def attempt() -> None:
        for answer in client.call(request).responses:
            raise_for(answer.error_code, f"topic {answer.resource_name}", answer.error_message)

    if altered:
        client.retrying(attempt)


def set_or_deleted(name: str, value: str | None) -> ConfigChange:
    """The change to a value; with None the config is deleted."""
    return ConfigChange(ConfigOperation.DELETE if value is None else ConfigOperation.SET, name, value)


def _altered(resource: ConfigResource, changes: Iterable[ConfigChange]) -> AlterConfigsResource:
    configs = [AlterableConfig(name=each.name, config_operation=each.operation, value=each.value) for each in changes]
    return AlterConfigsResource(resource_type=resource.kind, resource_name=resource.name, configs=configs)


def resources(client: Client, kind: ConfigResourceType) -> list[str]:
    """The names of the resources of a kind that have configs or may have them (KIP-1142). Raises KafkaError."""
    answer = client.call(ListConfigResourcesRequest(resource_types=[kind]))
    raise_for(answer.error_code, "config resources")
    return sorted(each.resource_name for each in answer.config_resources)


def _look_for_topic(client: Client, resource: ConfigResource) -> None:
    """Raise KafkaError at once for a topic that does not exist, since clients retry requests with that error."""
    if resource.kind == ConfigResourceType.TOPIC:
        client.topic(resource.name)


def _answerer(client: Client, resource: ConfigResource) -> Callable[[Any], Any]:
    """The node that answers for the resource: a broker for itself, any broker for all others."""
    if resource.kind not in BROKER_KINDS or not resource.name:
        return client.call
    if not resource.name.isdecimal():
        raise KafkaError(error_codes.INVALID_REQUEST, f"a broker has a number, not {resource.name!r}")
    node_id = client.live_node(int(resource.name))
    return lambda request: client.call_node(node_id, request)
