"""Merging the delivery states of ranges of offsets (Kafka: ``PersisterStateBatchCombiner``).

Where two ranges overlap, the newer state counts: that with the higher delivery count, then that with the higher state.
Ranges next to each other with equal states become one.

A range that ends before it begins is left out.

Invariant: each offset has the newest of the states that were given for it, and ranges do not overlap.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

UNCHANGED = -1
"""A start offset that stands for the one before."""


Newness = tuple[int, int]
"""The order in which states of one offset follow each other: delivery count and state."""


class StateBatch(NamedTuple):
    """A range of offsets and its state. The order of the fields is the order in which batches are sorted."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    @property
    def newness(self) -> Newness:
        """The order in which states of one offset follow each other."""
        return self.delivery_count, self.delivery_state


def combine(before: Sequence[StateBatch], new: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merge new batches into those before. Offsets below ``start_offset`` are left out, unless it is `UNCHANGED`."""
    batches = _from(start_offset, (*before, *new))
    if len(batches) < 2:
        return tuple(batches)
    edges = [(batch.first_offset, 1, batch.newness) for batch in batches]
    edges += [(batch.last_offset + 1, -1, batch.newness) for batch in batches]
    edges.sort(key=itemgetter(0))
    combined: list[StateBatch] = []
    covering: dict[Newness, int] = {}
    since = edges[0][0]
    for offset, step, newness in edges:
        if offset > since and covering:
            _append(combined, StateBatch(since, offset - 1, *max(covering)))
        since = offset
        left = covering.get(newness, 0) + step
        if left:
            covering[newness] = left
        else:
            del covering[newness]
    return tuple(combined)


def _append(combined: list[StateBatch], batch: StateBatch) -> None:
    """Add the next range. Neighbours with equal states become one."""
    last = combined[-1] if combined else None
    if last is not None and last.last_offset + 1 == batch.first_offset and last.newness == batch.newness:
        combined[-1] = last._replace(last_offset=batch.last_offset)
    else:
        combined.append(batch)


def _from(start_offset: int, batches: Iterable[StateBatch]) -> list[StateBatch]:
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if start_offset <= batch.last_offset >= batch.first_offset
    ]
