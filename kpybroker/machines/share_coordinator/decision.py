"""The outcome of one input, while it is being decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kpybroker.machines.coordination.decision import CoordinatorDecision
from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from kpybroker.machines.share_coordinator.settings import ShareCoordinatorSettings

RECORD_BYTES: Final = 128
"""An upper bound for a record's size without its group id and batches."""
BATCH_BYTES: Final = 19


class ShareDecision(CoordinatorDecision[Record]):
    """The records and replies of one decision. ``size`` is an upper bound for the batch of the records, in bytes."""

    __slots__ = ("deleted", "partition_count", "settings", "size")

    def __init__(
        self,
        now_ms: int,
        timestamp_ms: int,
        settings: ShareCoordinatorSettings,
        partition_count: Callable[[bytes], int],
    ) -> None:
        """``partition_count`` returns how many partitions the topic with an id has, 0 if there is none."""
        self.now_ms = now_ms
        self.timestamp_ms = timestamp_ms
        self.settings = settings
        self.partition_count = partition_count
        self.records = []
        self.replies = []
        self.size = 0
        self.deleted: set[SharePartitionKey] = set()
        """The share partitions of deleted topics whose end is among the records."""

    @property
    def is_full(self) -> bool:
        """Whether further work should be left to the next decision."""
        return self.size > self.settings.max_batch_bytes // 2

    def write(self, record: Record) -> None:
        """Write a record."""
        self.records.append(record)
        self.size += RECORD_BYTES + 3 * len(record.key.group_id) + BATCH_BYTES * len(getattr(record, "batches", ()))
