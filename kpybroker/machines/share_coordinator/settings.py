"""The settings of the share coordinator (Kafka: ``ShareCoordinatorConfig``)."""

from typing import NamedTuple


class ShareCoordinatorSettings(NamedTuple):
    """The settings that the machine reads for every decision."""

    updates_per_snapshot: int = 500
    """``share.coordinator.snapshot.update.records.per.snapshot``: this many updates of a share partition are followed
    by a snapshot."""
    cold_snapshot_interval_ms: int = 300_000
    """``share.coordinator.cold.partition.snapshot.interval.ms``."""
    max_batch_bytes: int = 1_048_588
    """``max.message.bytes`` of the topic: an upper bound for one batch of records."""
