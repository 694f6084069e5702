"""The throttles of moves (KIP-73), by Kafka's own configs: set, changed, removed, and the removal proven by a read.

A rate is a config of each broker; the replicas that it holds for are entries ``partition:broker`` of topics' configs.
Entries are appended and subtracted one by one, so those that others have set stay. ``*`` and rates of all brokers
together are somebody's decision for good, and stay too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.client import config_requests
from kpybroker.client.client import Client
from kpybroker.client.config_requests import ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
BROKER_SOURCE: Final = 2
"""Kafka's DYNAMIC_BROKER_CONFIG."""
TOPIC_SOURCE: Final = 1
"""Kafka's DYNAMIC_TOPIC_CONFIG."""


class ThrottledMove(NamedTuple):
    """The throttle of one partition's move: the replicas that send, and those that come."""

    topic: str
    partition: int
    sending: tuple[int, ...]
    coming: tuple[int, ...]

    def entries(self) -> dict[str, list[str]]:
        """The entries of its topic's configs."""
        return {
            LEADERS: [f"{self.partition}:{each}" for each in self.sending],
            FOLLOWERS: [f"{self.partition}:{each}" for each in self.coming],
        }


class FoundThrottles(NamedTuple):
    """The throttles of single brokers and replicas that are set now."""

    brokers: dict[int, dict[str, str]]
    """The rates of brokers, by config."""
    topics: dict[str, dict[str, list[str]]]
    """The entries ``partition:broker`` of topics, by config; no entry where an empty list is left."""

    @property
    def is_empty(self) -> bool:
        return not self.brokers and not self.topics

    def only(self, places: Collection[tuple[str, int]] | None, *, rates: bool) -> "FoundThrottles":
        """The throttles of some partitions, None for all; with the rates of brokers or without."""
        topics: dict[str, dict[str, list[str]]] = {}
        ours = None if places is None else {topic for topic, _ in places}
        for topic, lists in self.topics.items():
            for name, entries in lists.items():
                kept = [each for each in entries if places is None or (topic, _partition_of(each)) in places]
                if kept or (not entries and (ours is None or topic in ours)):
                    topics.setdefault(topic, {})[name] = kept
        return FoundThrottles(self.brokers if rates else {}, topics)

    def lines(self) -> list[str]:
        """A line for each."""
        found = [f"broker {each}: {_shown(configs)}" for each, configs in sorted(self.brokers.items())]
        for topic, configs in sorted(self.topics.items()):
            found += [f"topic {topic}: {name}={','.join(entries)}" for name, entries in sorted(configs.items())]
        return found


def _partition_of(entry: str) -> int:
    """The partition of ``partition:broker``; -1 if it is no number."""
    number = entry.partition(":")[0]
    return int(number) if number.isdecimal() else -1


def _shown(configs: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(configs.items()))


def set_rate(client: Client, brokers: Iterable[int], rate: int) -> None:
    """Set the rate of brokers that live, in bytes a second. Raises KafkaError, Unreachable."""
    for each in brokers:
        changes = [ConfigChange(ConfigOperation.SET, name, str(rate)) for name in RATES]
        config_requests.alter(client, _broker(each), changes)


def set_entries(client: Client, moves: Iterable[ThrottledMove]) -> None:
    """Let the rates hold for these moves. Raises KafkaError, Unreachable."""
    _alter_entries(client, ConfigOperation.APPEND, moves)


def remove_entries(client: Client, moves: Iterable[ThrottledMove]) -> None:
    """Let the rates no longer hold for these moves. A topic that has gone has none. Raises KafkaError, Unreachable."""
    _alter_entries(client, ConfigOperation.SUBTRACT, moves)


def _alter_entries(client: Client, operation: ConfigOperation, moves: Iterable[ThrottledMove]) -> None:
    topics: dict[str, dict[str, list[str]]] = {}
    for move in moves:
        lists = topics.setdefault(move.topic, {LEADERS: [], FOLLOWERS: []})
        for name, entries in move.entries().items():
            lists[name] += entries
    for topic, lists in topics.items():
        changes = [ConfigChange(operation, name, ",".join(entries)) for name, entries in lists.items() if entries]
        try:
            config_requests.alter(client, ConfigResource(ConfigResourceType.TOPIC, topic), changes)
        except KafkaError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise


def found(client: Client) -> FoundThrottles:
    """All throttles of single brokers that live and of single replicas. Raises KafkaError, Unreachable."""
    brokers: dict[int, dict[str, str]] = {}
    for node in client.nodes():
        configs = config_requests.describe(client, _broker(node.node_id), RATES)
        rates = {each.name: each.value or "" for each in configs if each.config_source == BROKER_SOURCE}
        if rates:
            brokers[node.node_id] = rates
    topics: dict[str, dict[str, list[str]]] = {}
    names = [each.name or "" for each in client.topics()]
    for topic, configs in config_requests.describe_topics(client, names, (LEADERS, FOLLOWERS)):
        values = {each.name: each.value or "" for each in configs if each.config_source == TOPIC_SOURCE}
        lists = {name: list(_entries(value)) for name, value in values.items()}
        kept = {name: entries for name, entries in lists.items() if entries or not values[name]}
        if kept:
            topics[topic] = kept
    return FoundThrottles(brokers, topics)


def _entries(value: str) -> Iterator[str]:
    return (each.strip() for each in value.split(",") if ":" in each)


def remove(client: Client, throttles: FoundThrottles) -> None:
    """Remove these throttles. Raises KafkaError, Unreachable."""
    for topic, lists in throttles.topics.items():
        changes = [ConfigChange(ConfigOperation.SUBTRACT, name, ",".join(each)) for name, each in lists.items() if each]
        if changes:
            config_requests.alter(client, ConfigResource(ConfigResourceType.TOPIC, topic), changes)
        _drop_empty(client, topic, lists)
    for broker, rates in throttles.brokers.items():
        remove_rates(client, [broker], rates)


def remove_rates(client: Client, brokers: Iterable[int], names: Iterable[str] = RATES) -> None:
    """Remove the rates of brokers; of one that is away where it answers again. Raises KafkaError, Unreachable."""
    changes = [ConfigChange(ConfigOperation.DELETE, name, None) for name in names]
    for each in brokers:
        config_requests.alter(client, _broker(each), changes)


def _drop_empty(client: Client, topic: str, names: Iterable[str]) -> None:
    """Delete configs of a topic that have become empty lists."""
    for _, configs in config_requests.describe_topics(client, [topic], names):
        empty = [each.name for each in configs if each.config_source == TOPIC_SOURCE and not each.value]
        if empty:
            changes = [ConfigChange(ConfigOperation.DELETE, name, None) for name in empty]
            config_requests.alter(client, ConfigResource(ConfigResourceType.TOPIC, topic), changes)


def _broker(broker: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker))
