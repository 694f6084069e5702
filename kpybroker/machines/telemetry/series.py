"""The metrics of one client as they are shown: the last value of each gauge, the sum of each counter, by its labels.

Names and labels are those of Prometheus, so two that differ only in characters that Prometheus does not know are one.

Invariant: a client has at most `MOST_SERIES`.
"""

import math
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kpybroker.machines.telemetry.payload import MOST_POINTS, Labels, Point
from kpybroker.machines.telemetry.subscriptions import SubscribedMetrics

MOST_SERIES: Final = MOST_POINTS
POINTS_PER_STEP: Final = 40
OWN_LABELS: Final = ("client_id", "client_instance_id", "client_software_name", "client_software_version")
"""The labels that every series gets from its client."""
CLIENT_LABELS: Final = ("client_rack", "group_id", "transactional_id")
"""The labels that a client adds to all its metrics, as far as they are shown."""
_FROM_KAFKA: Final = "org.apache.kafka."
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")


class Key(NamedTuple):
    """The name and labels of a series, as they are shown."""

    name: str
    labels: Labels


class SeriesSample(NamedTuple):
    """A series at this moment. ``metric`` is the name that the client has for it."""

    key: Key
    metric: str
    value: float
    is_counter: bool


class Series:
    """The series of one client."""

    __slots__ = ("_by_key", "client_labels")

    def __init__(self) -> None:
        self._by_key: dict[Key, SeriesSample] = {}
        self.client_labels: Labels = ()

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[SeriesSample]:
        return iter(self._by_key.values())

    def take(self, points: Iterable[tuple[Key, Point]], client: Mapping[str, str], wanted: SubscribedMetrics) -> int:
        """Take the wanted metrics of a push. A gauge that is not in it is gone; counters stay. Return the number of
        values that were left out."""
        self.client_labels = tuple((name, client[name]) for name in CLIENT_LABELS if client.get(name))
        kept = {key: sample for key, sample in self._by_key.items() if sample.is_counter}
        left_out = 0
        for key, point in points:
            if not wanted.includes(point.name):
                continue
            if key not in kept and len(kept) >= MOST_SERIES:
                left_out += 1
                continue
            before = self._by_key.get(key) if point.is_delta else None
            total = point.value + (0.0 if before is None else before.value)
            kept[key] = SeriesSample(key, point.name, total, point.is_counter)
        self._by_key = kept
        return left_out

    def keep(self, wanted: SubscribedMetrics) -> int:
        """Drop what is no longer wanted. Return the number of series that were dropped."""
        kept = {key: sample for key, sample in self._by_key.items() if wanted.includes(sample.metric)}
        dropped = len(self._by_key) - len(kept)
        self._by_key = kept
        return dropped

    def forget(self) -> None:
        """Drop all series, for others."""
        self._by_key = {}


def keyed(points: Sequence[Point], taken: Collection[str]) -> Generator[None, None, list[tuple[Key, Point]]]:
    """Find, in steps, the key under which each point is shown; a gauge without a number has none. A label that has one
    of the names ``taken``, or one of those that every series has, is shown with ``exported_`` before it."""
    avoided = {*OWN_LABELS, *CLIENT_LABELS, *taken}
    found = []
    for number, point in enumerate(points):
        if not math.isnan(point.value):
            found.append((Key(shown_name(point.name), _shown_labels(point.labels, avoided)), point))
        if number % POINTS_PER_STEP == POINTS_PER_STEP - 1:
            yield
    return found


def shown_name(metric: str) -> str:
    """The name of a metric for Prometheus."""
    return f"kafka_client_{_NOT_IN_NAMES.sub('_', metric.removeprefix(_FROM_KAFKA))}"


def _shown_labels(labels: Labels, avoided: Collection[str]) -> Labels:
    shown = {}
    for label, value in labels:
        name = _NOT_IN_NAMES.sub("_", label)
        if name[0].isdigit() or name.startswith("__") or name in avoided:
            name = f"exported_{name}"
        shown[name] = value
    return tuple(sorted(shown.items()))
