"""The cut of a run: what becomes of the transactions that have no marker in some partition when its end is read.

A run reads, one after the other: the committed offsets of groups; the ends of partitions; the transactions that their
coordinators are ending (``PrepareCommit``); the ends again; these transactions again; the ends for the last time, which
are the cut. So a transaction whose offsets a group shows was decided before, and all its records are below the cut.

- A transaction that was being committed at both looks, with the same time of its begin, and that is open in a
  partition between them and at the cut, is committed there.
- Every other one that is open at the cut is aborted. If it has a COMMIT marker below the cut in another partition, that
  one becomes an ABORT marker: so the transaction is aborted as a whole. With ``transaction.version`` 2 each transaction
  of a producer has an epoch of its own, and its markers have the next one. With version 1 all have one epoch, and the
  marker may also be that of an earlier transaction: it stays, and the producer is reported.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kpybroker.machines.backup.manifest import BegunTransaction, ReadMarker, TransactionEnd

Place = tuple[str, int]


class SeenTransactions(NamedTuple):
    """The transactions of a partition, as a run has read them."""

    open: Mapping[int, BegunTransaction]
    """The ones that are open at the cut, by producer id."""
    open_before: Mapping[int, BegunTransaction]
    """The ones that were open between the two looks at their coordinators."""
    markers: Iterable[ReadMarker]
    """The markers since before the first of these looks."""


class CutTransactions(NamedTuple):
    """The decisions of a cut, by partition. ``doubtful`` are the producers that may have a torn transaction."""

    ends: Mapping[Place, tuple[TransactionEnd, ...]]
    overturned: Mapping[Place, tuple[ReadMarker, ...]]
    doubtful: tuple[int, ...]


def decide(seen: Mapping[Place, SeenTransactions], committing: frozenset[int]) -> CutTransactions:
    """How the open transactions end. ``committing`` are the producers whose transaction was being committed at both
    looks."""
    ends: dict[Place, tuple[TransactionEnd, ...]] = {}
    aborted: dict[int, BegunTransaction] = {}
    for place, found in seen.items():
        of_partition = []
        for producer_id, transaction in sorted(found.open.items()):
            commits = producer_id in committing and found.open_before.get(producer_id) == transaction
            if not commits:
                aborted[producer_id] = transaction
            of_partition.append(TransactionEnd(producer_id, transaction.epoch, commits))
        if of_partition:
            ends[place] = tuple(of_partition)
    overturned: dict[Place, tuple[ReadMarker, ...]] = {}
    doubtful: set[int] = set()
    for place, found in seen.items():
        split_markers = []
        for marker in found.markers:
            split = aborted.get(marker.producer_id)
            if split is None or not marker.is_commit or marker.begun_epoch != split.epoch:
                continue
            if marker.epoch > marker.begun_epoch:
                split_markers.append(marker)
            elif marker.producer_id not in found.open:  # here an earlier one has ended if it is open again
                doubtful.add(marker.producer_id)
        if split_markers:
            overturned[place] = tuple(split_markers)
    return CutTransactions(ends, overturned, tuple(sorted(doubtful)))


def doubt(producer_id: int) -> str:
    """The note on a producer that may have a torn transaction."""
    return (
        f"the last transaction of producer {producer_id} may be aborted in one partition and committed in another: the "
        "cut came between its markers"
    )
