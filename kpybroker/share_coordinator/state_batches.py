"""Merging the delivery states of ranges of offsets (Kafka: ``PersisterStateBatchCombiner``).

Where two ranges overlap, the newer state counts: that with the higher delivery count, then that with the higher state.
Ranges next to each other with equal states become one where the merge meets them; like Kafka's, it does not look back
at ranges that it has left behind, so equal neighbours can remain.

A range that ends before it begins is left out: a merge with one might never end, as in Kafka.

Invariant: each offset has the newest of the states that were given for it, and ranges do not overlap.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

UNCHANGED = -1
"""A start offset that stands for the one before."""


class StateBatch(NamedTuple):
    """A range of offsets and its state. The order of the fields is the order in which batches are sorted."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    @property
    def newness(self) -> tuple[int, int]:
        """The order in which states of one offset follow each other."""
        return self.delivery_count, self.delivery_state


def combine(before: Sequence[StateBatch], new: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merge new batches into those before. Offsets below ``start_offset`` are left out, unless it is `UNCHANGED`."""
    batches = _from(start_offset, (*before, *new))
    if not batches:
        return ()
    heapify(batches)
    combined = []
    batch = heappop(batches)
    while batches:
        following = batches[0]
        if following == batch:
            heappop(batches)
        elif following.first_offset <= batch.last_offset:
            heappop(batches)
            for piece in _merged(batch, following):
                heappush(batches, piece)
            batch = heappop(batches)
        elif following.first_offset == batch.last_offset + 1 and following.newness == batch.newness:
            heappop(batches)
            batch = batch._replace(last_offset=max(following.last_offset, batch.last_offset))
        else:
            combined.append(batch)
            batch = heappop(batches)
    combined.append(batch)
    return tuple(combined)


def _from(start_offset: int, batches: Iterable[StateBatch]) -> list[StateBatch]:
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if start_offset <= batch.last_offset >= batch.first_offset
    ]


def _merged(batch: StateBatch, following: StateBatch) -> Iterable[StateBatch]:
    """The pieces that two overlapping batches are replaced by. ``following`` does not begin before ``batch``."""
    if following.newness == batch.newness:
        yield batch._replace(last_offset=max(batch.last_offset, following.last_offset))
    elif following.newness < batch.newness:
        yield batch
        if following.last_offset > batch.last_offset:
            yield following._replace(first_offset=batch.last_offset + 1)
    else:
        if batch.first_offset < following.first_offset:
            yield batch._replace(last_offset=following.first_offset - 1)
        yield following
        if batch.last_offset > following.last_offset:
            yield batch._replace(first_offset=following.last_offset + 1)
