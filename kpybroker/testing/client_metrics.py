"""The metrics that clients have pushed to a broker in a test (KIP-714): what did my consumer measure?"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

CLIENT_METRICS = 16
SET = 0
SUBSCRIPTION = "kpybroker-testing"
EVERYTHING = "*"


class Measurement(NamedTuple):
    """One value, under the name that the client has for it."""

    name: str
    labels: Mapping[str, str]
    value: float


class ClientMetrics(NamedTuple):
    """Everything that one client has pushed: the last value of each gauge, the sum of each counter."""

    client_id: str
    instance_id: str
    """The id that the client was given, as ``clientInstanceId`` of Java's clients returns it."""
    software: tuple[str, str]
    labels: Mapping[str, str]
    """The labels that the client gives itself: ``group_id``, ``transactional_id``, ``client_rack``."""
    measurements: tuple[Measurement, ...]

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of the metric of this name, or whose name ends with it, that have these labels."""
        return [
            each.value
            for each in self.measurements
            if (each.name == name or each.name.endswith(f".{name}")) and labels.items() <= dict(each.labels).items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """The only value of a metric. AssertionError if there is none, or more than one."""
        __tracebackhide__ = True
        found = self.values(name, **labels)
        if len(found) != 1:
            known = "\n  ".join(sorted({each.name for each in self.measurements})) or "nothing"
            raise AssertionError(f"{self.client_id} has {len(found)} values for {name}; it has pushed\n  {known}")
        return found[0]


def subscription(metrics: Iterable[str], interval_ms: int) -> IncrementalAlterConfigsRequest:
    """The request that asks all clients for the metrics whose names begin so."""
    wanted = {"metrics": ",".join(metrics) or EVERYTHING, "interval.ms": str(interval_ms)}
    configs = [AlterableConfig(name=name, config_operation=SET, value=value) for name, value in wanted.items()]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=SUBSCRIPTION, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def as_found(client: Mapping[str, Any]) -> ClientMetrics:
    """A client in the form that a broker reports it, which JSON can carry."""
    measurements = tuple(Measurement(name, dict(labels), value) for name, labels, value in client["measurements"])
    name, version = client["software"]
    return ClientMetrics(
        client["client_id"], client["instance_id"], (name, version), dict(client["labels"]), measurements
    )
