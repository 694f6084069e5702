"""The counters of share groups (Kafka: ``ShareGroupMetrics``, ``SharePartitionMetrics``)."""

from collections.abc import Sequence
from typing import Final

from kpybroker.runtime.counters import BUCKETS

TYPES: Final = ("Gap", "Accept", "Release", "Reject", "Renew")
"""The types of acknowledgements, by their numbers."""

WHOLE_PERCENT: Final = 100


class GroupReads:
    """The reads of one group on one node."""

    __slots__ = ("acquire_times", "batch_sizes", "batches", "fetch_ratios", "fetches", "looks")

    def __init__(self) -> None:
        self.acquire_times = [0] * BUCKETS
        """The times until a fetch could acquire from a partition, in buckets as those of requests."""
        self.looks = 0
        """How many times these are."""
        self.fetch_ratios = [0] * (WHOLE_PERCENT + 1)
        """Answered fetches by the percentage of their partitions from which records could be acquired."""
        self.fetches = 0
        self.batch_sizes = [0] * BUCKETS
        """Batches by their records, as they were when they were acquired first; a record has the bucket of 1 ms."""
        self.batches = 0

    def could_acquire(self, took_ms: float) -> None:
        """Count the time until there was a partition to acquire records from."""
        self.looks += 1
        self.acquire_times[_bucket(took_ms)] += 1

    def answered(self, acquirable: int, partitions: int) -> None:
        """Count a fetch that was answered, with the number of its partitions, and of those to acquire from."""
        self.fetches += 1
        self.fetch_ratios[WHOLE_PERCENT * acquirable // partitions] += 1

    def acquired(self, records: int) -> None:
        """Count a batch that was acquired for the first time."""
        self.batches += 1
        self.batch_sizes[_bucket(records)] += 1


class DeadLetterCounts:
    """The dead letters of one group on one node."""

    __slots__ = ("failed", "given_up", "produced", "written")

    def __init__(self) -> None:
        self.written = 0
        """Records that were written to the dead-letter topic; one that was written twice counts twice."""
        self.produced = 0
        """Ranges of records that were produced, each time."""
        self.failed = 0
        """Ranges of records that could not be produced, after all attempts."""
        self.given_up = 0
        """Records that were archived without a dead letter."""


class ShareMetrics:
    """The counters of one node."""

    __slots__ = ("acknowledged", "dead_letters", "expired", "groups", "load_ms", "load_times", "loads")

    def __init__(self) -> None:
        self.acknowledged = [0] * len(TYPES)
        """Acknowledged records by type."""
        self.expired = 0
        """Fetches that waited as long as they may."""
        self.loads = 0
        self.load_ms = 0.0
        self.load_times = [0] * BUCKETS
        """The loads of share partitions by the time that they took, in buckets as those of requests."""
        self.groups: dict[str, GroupReads] = {}
        """The reads of each group that has share sessions here."""
        self.dead_letters: dict[str, DeadLetterCounts] = {}
        """The dead letters of each group that had any here."""

    def dead_letters_of(self, group_id: str) -> DeadLetterCounts:
        """The dead letters of a group."""
        return self.dead_letters.setdefault(group_id, DeadLetterCounts())

    def of(self, group_id: str) -> GroupReads:
        """The reads of a group."""
        found = self.groups.get(group_id)
        if found is None:
            found = self.groups[group_id] = GroupReads()
        return found

    def forget(self, group_id: str) -> None:
        """Forget a group whose last session has ended."""
        self.groups.pop(group_id, None)

    def loaded(self, took_ms: float) -> None:
        """Count the load of a share partition."""
        self.loads += 1
        self.load_ms += took_ms
        self.load_times[_bucket(took_ms)] += 1

    def count(self, types: Sequence[int], records: int) -> None:
        """Count an acknowledged range: one type for all records, or one for each."""
        if len(types) == 1:
            self.acknowledged[types[0]] += records
        else:
            for each in types:
                self.acknowledged[each] += 1


def _bucket(value_ms: float) -> int:
    """The bucket of a time, two to an octave."""
    nanoseconds = int(value_ms * 1e6)
    return min((nanoseconds * nanoseconds).bit_length(), BUCKETS - 1)
