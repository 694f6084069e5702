"""Records that nobody can read any more: below a new start of the log, between batches of a compacted log, or aborted.

(Kafka: ``SharePartition.updateCacheAndOffsets``, ``maybeArchiveStaleBatches``, ``archiveRecords``.)
"""

from collections.abc import Sequence

from kpybroker.machines.share.in_flight import InFlightBatch
from kpybroker.machines.share.partition import SharePartition
from kpybroker.machines.share.record_state import AVAILABLE


def log_starts_at(partition: SharePartition, log_start_offset: int) -> None:
    """Take over a new start of the log. Records below it that are acquired can still be acknowledged."""
    if log_start_offset <= partition.start_offset:
        return
    if partition.is_empty:
        partition.start_offset = partition.end_offset = log_start_offset
        partition.delivery_complete_count = 0
        return
    done = _done_below(partition, log_start_offset)
    below = partition.between(0, log_start_offset - 1)
    if archive(partition, below, partition.start_offset, log_start_offset, AVAILABLE, counts=False):
        partition.finds_next_offset = True
    partition.start_offset = log_start_offset
    partition.delivery_complete_count -= done
    partition.end_offset = max(partition.end_offset, log_start_offset)


def archive_gap(partition: SharePartition, fetch_offset: int, base_offset: int) -> None:
    """Archive available records that a fetch from ``fetch_offset`` did not find: the first it found is later."""
    if partition.is_empty or fetch_offset >= base_offset:
        return
    floor = partition.floor(fetch_offset)
    begin = floor.first_offset if floor is not None and floor.last_offset >= fetch_offset else fetch_offset
    stale = partition.between(begin, base_offset - 1)
    if stale and archive(partition, stale, fetch_offset, base_offset, AVAILABLE, counts=True):
        partition.finds_next_offset = True


def archive(
    partition: SharePartition,
    batches: Sequence[InFlightBatch],
    first_offset: int,
    end_offset: int,
    state: int,
    *,
    counts: bool,
) -> bool:
    """Archive the records of a half-open range that are in a state. Whether there were any.

    ``counts`` says whether the group counts as done with them from the start offset on.
    """
    was_found = False
    for batch in batches:
        if batch.first_offset >= end_offset:
            break
        whole = batch.whole
        if whole is not None and not batch.lies_within(first_offset, end_offset - 1):
            if whole.state != state:
                continue
            batch.split()
        for first, last, found in batch.ranges(first_offset, end_offset - 1):
            if found.state == state:
                found.archive()
                was_found = True
                if counts:
                    partition.delivery_complete_count += last - first + 1
    return was_found


def _done_below(partition: SharePartition, offset: int) -> int:
    """The number of records between the start offset and another one that the group is done with."""
    return sum(
        max(min(last, offset - 1) - max(first, partition.start_offset) + 1, 0)
        for batch in partition.between(0, offset - 1)
        for first, last, state in batch.all_ranges
        if state.is_terminal
    )
