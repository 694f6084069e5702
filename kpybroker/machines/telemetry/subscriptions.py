"""The subscriptions to clients' metrics, and what they ask of one client: Kafka's ``ClientMetricsManager``, first half.

Not here: the configs of a subscription and their validation (`kpybroker.config.client_metrics`).

Invariant: `version` grows with every change of a subscription, so that a client's instance knows when it is outdated.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import CLIENT_METRICS_RESOURCE
from kpywire.crc import crc32c

log = logging.getLogger("kpybroker.config")

ALL: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000

Configs = Mapping[tuple[int, str], Mapping[str, str]]
"""The configs that are set, by the type and name of their resource."""
ValuesOf = Callable[[Mapping[str, str]], Mapping[str, Any]]
"""The values of a subscription with these configs, patterns compiled. Raises KafkaError, and KeyError for an unknown
name."""
Attributes = Mapping[str, str | None]
"""The facts known of a client, by the names that ``match`` has for it."""


class Subscription(NamedTuple):
    """One subscription. ``patterns`` are compiled, by the attribute of the client that each has to match."""

    metrics: frozenset[str]
    interval_ms: int
    patterns: Mapping[str, Any]

    def matches(self, attributes: Attributes) -> bool:
        """Whether a client is meant: all patterns match, each the whole text."""
        return all(_matches(pattern, attributes.get(name)) for name, pattern in self.patterns.items())


class SubscribedMetrics(NamedTuple):
    """The metrics that are wanted of one client, as prefixes of names, and the time between two pushes."""

    metrics: tuple[str, ...]
    interval_ms: int

    def subscription_id(self, instance_id: bytes) -> int:
        """A number that changes with the wanted metrics. Kafka's number depends on the order of a hash set."""
        checksum = crc32c(f"[{', '.join(self.metrics)}]{self.interval_ms}".encode("utf-8", "surrogatepass"))
        halves = int.from_bytes(instance_id[:8], "big") ^ int.from_bytes(instance_id[8:], "big")
        number = checksum ^ (halves >> 32) ^ (halves & 0xFFFF_FFFF)
        return number - (1 << 32) if number >= 1 << 31 else number

    def includes(self, name: str) -> bool:
        """Whether a metric of this name is wanted."""
        return self.metrics == (ALL,) or name.startswith(self.metrics)


class ClientSubscriptions:
    """All subscriptions of the cluster."""

    def __init__(self, configs: Configs, values_of: ValuesOf) -> None:
        self.version = 0
        self._values_of = values_of
        self._by_name: dict[str, Subscription] = {}
        self.changed(configs, list(configs))

    def changed(self, configs: Configs, resources: Iterable[tuple[int, str]]) -> None:
        """Read the configs of ``resources`` again; resources of other types are left alone."""
        for kind, name in resources:
            if kind != CLIENT_METRICS_RESOURCE:
                continue
            found = self._subscription(name, configs.get((kind, name), {}))
            if found is None and name not in self._by_name:
                continue
            self._by_name.pop(name, None)
            if found is not None:
                self._by_name[name] = found
            self.version += 1

    def wanted_of(self, attributes: Attributes) -> SubscribedMetrics:
        """The metrics that all subscriptions which match a client want together."""
        metrics: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        for each in self._by_name.values():
            if each.matches(attributes):
                metrics |= each.metrics
                interval_ms = min(interval_ms, each.interval_ms)
        return SubscribedMetrics((ALL,) if ALL in metrics else tuple(sorted(metrics)), interval_ms)

    def _subscription(self, name: str, configs: Mapping[str, str]) -> Subscription | None:
        """The subscription; None if it has no configs, or some that this broker cannot use, as Kafka may have
        stored."""
        if not configs:
            return None
        try:
            values = self._values_of(configs)
        except (KafkaError, KeyError) as error:
            log.warning("Subscription %s to client metrics is left out: %s", name, error)
            return None
        return Subscription(frozenset(values["metrics"]), values["interval.ms"], values["match"])


def _matches(pattern: Any, text: str | None) -> bool:
    if text is None:
        return False
    try:
        return pattern.fullmatch(text) is not None
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
