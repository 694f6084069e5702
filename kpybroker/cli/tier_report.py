"""The report of ``kpybroker tiers``: what is where, how far copies are behind, and what it costs. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.client.client import Spot
from kpybroker.client.tier_requests import TierOffsets
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.segments import DELETING, FINISHED, STARTED

GIB: Final = 1 << 30
WRITES_PER_SEGMENT: Final = 3
"""The objects of a segment in Aiven's layout: its log, its indexes and its manifest."""
PART_BYTES: Final = 8 << 20
"""The part of an upload of which each is a write of its own."""
MONTH_MS: Final = 30 * 86_400_000


class Prices(NamedTuple):
    """The prices of a store. The currency is the reader's."""

    gb_month: float
    """The price of a GiB that is kept for a month."""
    writes_1000: float
    """The price of 1000 writes."""


class TierCost(NamedTuple):
    """The cost of what is in the store now, and of the writes of the last 30 days that it shows."""

    storage_month: float
    writes_month: float

    @property
    def month(self) -> float:
        return self.storage_month + self.writes_month


class PartitionTiers(NamedTuple):
    """A partition: its offsets, its bytes on the disk of its leader and in the store, and its copies."""

    topic: str
    partition: int
    log_start: int
    local_start: int
    last_tiered: int
    pending: int | None
    end: int
    local_bytes: int | None
    remote_bytes: int
    states: Mapping[str, int]
    """The number of segments by their state."""
    behind: int
    """The records that are not copied, those of the active segment included."""
    unfinished: int
    """The copies that began and have not ended."""
    unfinished_ms: int | None
    """The age of the oldest of them; None if there is none."""
    writes_month: int
    """The writes of the last 30 days, as far as their segments are still there."""
    is_copy_disabled: bool

    @property
    def note(self) -> str:
        """A word about its copies."""
        if self.is_copy_disabled:
            return "copying is disabled"
        return f"{self.unfinished} unfinished" if self.unfinished else ""


def partition_tiers(
    spot: Spot,
    offsets: TierOffsets,
    segments: RemoteSegments | None,
    local_bytes: int | None,
    *,
    is_copy_disabled: bool,
    now_ms: int,
) -> PartitionTiers:
    """The report of one partition. ``segments`` are None where the metadata have none."""
    known = [] if segments is None else list(segments.all())
    states = Counter(each.state for each in known)
    started = [each.event_timestamp_ms for each in known if each.state is STARTED]
    return PartitionTiers(
        *spot,
        offsets.log_start,
        offsets.local_start,
        offsets.last_tiered,
        offsets.pending,
        offsets.end,
        local_bytes,
        sum(each.size_bytes for each in known if each.state is FINISHED),
        {state.name: states[state] for state in (STARTED, FINISHED, DELETING)},
        max(0, offsets.end - max(offsets.last_tiered + 1, offsets.log_start)),
        len(started),
        max(0, now_ms - min(started)) if started else None,
        sum(writes_of(each.size_bytes) for each in known if now_ms - each.event_timestamp_ms < MONTH_MS),
        is_copy_disabled,
    )


def writes_of(size_bytes: int) -> int:
    """The writes that copy a segment: its objects, and the parts of a large log."""
    parts = -(-size_bytes // PART_BYTES)
    return WRITES_PER_SEGMENT + (parts + 1 if parts > 1 else 0)


def worst_first(rows: Iterable[PartitionTiers]) -> list[PartitionTiers]:
    """The partitions with the oldest unfinished copy first, then those that are furthest behind."""
    return sorted(rows, key=lambda row: (-(row.unfinished_ms or 0), -row.behind, row.topic, row.partition))


def cost_of(rows: Iterable[PartitionTiers], prices: Prices) -> TierCost:
    """The cost of partitions."""
    listed = list(rows)
    return TierCost(
        sum(row.remote_bytes for row in listed) / GIB * prices.gb_month,
        sum(row.writes_month for row in listed) / 1_000 * prices.writes_1000,
    )
