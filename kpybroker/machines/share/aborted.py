"""Records of aborted transactions, which a group with ``share.isolation.level=read_committed`` does not get.

(Kafka: ``SharePartition.maybeFilterAbortedTransactionalAcquiredRecords``.) They are acquired with the others, then
archived, and left out of the answer. Markers themselves are given, and acknowledged by clients as gaps.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kpybroker.machines.share import archiving
from kpybroker.machines.share.acquiring import Acquired
from kpybroker.machines.share.partition import SharePartition
from kpybroker.machines.share.record_state import ACQUIRED


class TransactionalBatch(NamedTuple):
    """A batch of the log that has a producer."""

    base_offset: int
    last_offset: int
    producer_id: int
    is_transactional: bool
    is_abort_marker: bool


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, as a fetch reports it."""

    producer_id: int
    first_offset: int


def leave_out_aborted(
    partition: SharePartition,
    given: Sequence[Acquired],
    read: Sequence[TransactionalBatch],
    aborted: Sequence[AbortedTransaction],
) -> list[Acquired]:
    """Archive aborted records among those that were just given, and return the others."""
    left = list(given)
    for batch in _aborted_batches(read, aborted):
        floor = partition.floor(batch.base_offset)
        begin = batch.base_offset if floor is None else floor.first_offset
        batches, end = partition.between(begin, batch.last_offset), batch.last_offset + 1
        archiving.archive(partition, batches, batch.base_offset, end, ACQUIRED, counts=True)
        left = [part for each in left for part in _without(each, batch)]
    return left


def _aborted_batches(
    read: Sequence[TransactionalBatch], aborted: Sequence[AbortedTransaction]
) -> list[TransactionalBatch]:
    """The batches that belong to aborted transactions."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_producers: set[int] = set()
    found = []
    for batch in read:
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            open_producers.add(waiting.pop().producer_id)
        if batch.is_abort_marker:
            open_producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_producers:
            found.append(batch)
    return found


def _without(given: Acquired, batch: TransactionalBatch) -> list[Acquired]:
    """The parts of a range that lie before and behind a batch."""
    if batch.last_offset < given.first_offset or batch.base_offset > given.last_offset:
        return [given]
    parts = []
    if given.first_offset < batch.base_offset:
        parts.append(given._replace(last_offset=batch.base_offset - 1))
    if given.last_offset > batch.last_offset:
        parts.append(given._replace(first_offset=batch.last_offset + 1))
    return parts
