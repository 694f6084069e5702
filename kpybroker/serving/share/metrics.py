"""The counters of share groups (Kafka: ``ShareGroupMetrics``, ``SharePartitionMetrics``)."""

from collections.abc import Sequence
from typing import Final

from kpybroker.counters import BUCKETS

TYPES: Final = ("gap", "accept", "release", "reject", "renew")
"""The types of acknowledgements, by their numbers."""


class ShareMetrics:
    """The counters of one node."""

    __slots__ = ("acknowledged", "load_ms", "load_times", "loads", "lock_timeouts")

    def __init__(self) -> None:
        self.acknowledged = [0] * len(TYPES)
        """Acknowledged records by type."""
        self.lock_timeouts = 0
        """Records whose acquisition locks have ended."""
        self.loads = 0
        self.load_ms = 0.0
        self.load_times = [0] * BUCKETS
        """The loads of share partitions by the time that they took, in buckets as those of requests."""

    def loaded(self, took_ms: float) -> None:
        """Count the load of a share partition."""
        self.loads += 1
        self.load_ms += took_ms
        took_ns = int(took_ms * 1e6)
        self.load_times[(took_ns * took_ns).bit_length()] += 1

    def count(self, types: Sequence[int], records: int) -> None:
        """Count an acknowledged range: one type for all records, or one for each."""
        if len(types) == 1:
            self.acknowledged[types[0]] += records
        else:
            for each in types:
                self.acknowledged[each] += 1
