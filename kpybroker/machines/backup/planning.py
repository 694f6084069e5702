"""The pieces that a run goes on from, and the offset at which it begins to read."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kpybroker.machines.backup.manifest import StoredPiece, run_of


class SourceBounds(NamedTuple):
    """A partition at its source: the log start and the cut."""

    start_offset: int
    end_offset: int


class PartitionPlan(NamedTuple):
    """The pieces that stay, the offset from which the source is read, and what has happened there, in words."""

    pieces: tuple[StoredPiece, ...]
    next_offset: int
    note: str = ""


def chained(pieces: Sequence[StoredPiece], others: Iterable[StoredPiece]) -> list[StoredPiece]:
    """The pieces of the last run, followed by those that an interrupted run has left behind them. Of two with the same
    start the newer counts."""
    by_start: dict[int, StoredPiece] = {}
    for piece in others:
        known = by_start.get(piece.start_offset)
        if known is None or run_of(piece.key) > run_of(known.key):
            by_start[piece.start_offset] = piece
    found = list(pieces)
    if not found and by_start:
        found.append(by_start.pop(min(by_start)))
    while found and (following := by_start.pop(found[-1].end_offset, None)) is not None:
        found.append(following)
    return found


def without_diverged(pieces: Sequence[StoredPiece], end_of_epoch: int) -> list[StoredPiece]:
    """The pieces without those that the source does not have. ``end_of_epoch`` is where the leader epoch of the last
    one ends there."""
    return [piece for piece in pieces if piece.end_offset <= end_of_epoch]


def plan_partition(pieces: Sequence[StoredPiece], bounds: SourceBounds, *, was_diverged: bool = False) -> PartitionPlan:
    """Plan the copy of a partition. ``pieces`` are those that the source has, too, but for its retention."""
    start, end = bounds
    kept = [piece for piece in pieces if start < piece.end_offset <= end]
    next_offset = kept[-1].end_offset if kept else start
    last_end = pieces[-1].end_offset if pieces else 0
    note = ""
    if was_diverged:
        note = f"an unclean election at the source has replaced records; it is read again from offset {next_offset}"
    elif last_end > end:
        note = f"the source ends at offset {end}, before offset {last_end}, which the last run has seen"
    elif pieces and not kept and start > last_end:
        note = f"the source has deleted the records from offset {last_end} to {start} before they were read"
    return PartitionPlan(tuple(kept), next_offset, note)
