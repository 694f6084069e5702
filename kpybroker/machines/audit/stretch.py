"""A stretch of one replica's log: all the facts that an audit keeps of it, and how two of them become one. Pure.

Joining is the reduce step: whatever crosses the seam is decided there, such as a gap, a producer's sequence or a
transaction that began in an earlier stretch. So stretches may be read in any order, by any number of processes.

Invariant: joining the stretches of a log gives the same facts as walking it at once.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from struct import Struct
from typing import Final, NamedTuple

from kpybroker.machines.audit import windows
from kpybroker.machines.audit.findings import BytePlace
from kpybroker.machines.audit.windows import AuditWindow

NO_OFFSET: Final = -1
FRESH: Final = -1
"""The sequence of a producer whose epoch has just risen: its next batch begins at 0."""
UNKNOWN: Final = -2
"""The sequence of a producer of which only markers were seen."""
MARKER: Final = Struct(">qh?qq")
"""A marker in packed form: `SeenMarker` without names."""


class SeenMarker(NamedTuple):
    """The end of a transaction in a partition."""

    producer_id: int
    epoch: int
    committed: bool
    offset: int
    timestamp: int


class OffsetGap(NamedTuple):
    """Offsets that no batch has: from ``start`` up to ``end``, seen at ``place``."""

    start: int
    end: int
    place: BytePlace


class Break(NamedTuple):
    """A batch that does not continue its producer's sequence."""

    producer_id: int
    offset: int
    text: str
    place: BytePlace


class ProducerRun(NamedTuple):
    """A producer's batches in a stretch: its first one and its last one, in epochs and sequences.

    ``sequence`` may be FRESH or UNKNOWN. ``first_sequence`` is UNKNOWN if no batch was seen, only markers.
    """

    first_epoch: int
    first_sequence: int
    first_offset: int
    first_place: BytePlace
    behind_gap: bool
    """Whether offsets are missing between the beginning of the stretch and the first batch."""
    epoch: int
    sequence: int
    offset: int
    timestamp: int

    def raised(self, epoch: int, timestamp: int) -> "ProducerRun":
        """The run with the epoch of a marker behind it."""
        rises = epoch > self.epoch and self.first_sequence != UNKNOWN
        return self._replace(epoch=epoch, sequence=FRESH if rises else self.sequence, timestamp=timestamp)


class Open(NamedTuple):
    """A transaction without an end: where it begins, its producer's epoch, and the time of its first batch."""

    first_offset: int
    epoch: int
    timestamp: int


class Head(NamedTuple):
    """The first end of a producer's transaction in a stretch, which may have begun before it.

    ``first_offset`` is -1 if none of its records were seen."""

    first_offset: int
    last_offset: int
    committed: bool


class AbortedStretch(NamedTuple):
    """An aborted transaction, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Stretch(NamedTuple):
    """The facts about the batches with base offsets from ``start`` on."""

    start: int
    next_offset: int
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    windows: tuple[AuditWindow, ...] = ()
    gaps: tuple[OffsetGap, ...] = ()
    missing: int = 0
    """Offsets inside of batches that have no record, as compaction leaves them."""
    missing_to: int = NO_OFFSET
    """The offset behind the last batch with fewer records than offsets."""
    missing_place: BytePlace = BytePlace()
    epochs: tuple[tuple[int, int, int], ...] = ()
    """Each leader epoch in the order of the log, with the first and the last offset that have it."""
    runs: Mapping[int, ProducerRun] = {}
    breaks: tuple[Break, ...] = ()
    open: Mapping[int, Open] = {}
    heads: Mapping[int, Head] = {}
    aborted: tuple[AbortedStretch, ...] = ()
    committed: int = 0
    """Transactions with records in this stretch that were committed."""
    markers: bytes = b""
    last_gap: int = NO_OFFSET
    """The offset behind the last missing one."""
    first_timestamp: int = NO_OFFSET
    max_timestamp: int = NO_OFFSET
    damaged: tuple[tuple[int, int], ...] = ()
    """Ranges of offsets whose batches are damaged."""

    def listed_markers(self) -> Iterable[SeenMarker]:
        """The markers in the order of the log."""
        return map(SeenMarker._make, MARKER.iter_unpack(self.markers))

    def finished(self) -> "Stretch":
        """The stretch of a log that begins here: no transaction began before it. All its windows are sealed."""
        heads = [(producer_id, head) for producer_id, head in self.heads.items() if head.first_offset >= 0]
        aborted = [
            AbortedStretch(pid, head.first_offset, head.last_offset) for pid, head in heads if not head.committed
        ]
        return self._replace(
            windows=tuple(window.sealed() for window in self.windows),
            heads={},
            aborted=tuple(sorted((*self.aborted, *aborted), key=lambda each: each.last_offset)),
            committed=self.committed + sum(head.committed for _, head in heads),
        )


def join(stretches: Iterable[Stretch]) -> Stretch | None:
    """The facts of stretches in a row; None if there are none."""
    whole = sorted(stretches, key=lambda each: each.start)
    return reduce(_join, whole) if whole else None


def _join(a: Stretch, b: Stretch) -> Stretch:
    seam = (OffsetGap(a.next_offset, b.start, BytePlace()),) if b.start > a.next_offset else ()
    runs, breaks = _runs(a, b, is_gap=bool(seam))
    still_open, heads, aborted, committed = _transactions(a, b)
    epochs = (*a.epochs, *b.epochs)
    if a.epochs and b.epochs and a.epochs[-1][0] == b.epochs[0][0]:
        epochs = (*a.epochs[:-1], (a.epochs[-1][0], a.epochs[-1][1], b.epochs[0][2]), *b.epochs[1:])
    return Stretch(
        a.start,
        max(a.next_offset, b.next_offset),
        a.size_bytes + b.size_bytes,
        a.batches + b.batches,
        a.records + b.records,
        windows.joined(a.windows, b.windows),
        (*a.gaps, *seam, *b.gaps),
        a.missing + b.missing,
        max(a.missing_to, b.missing_to),
        a.missing_place if b.missing_to < 0 else b.missing_place,
        epochs,
        runs,
        breaks,
        still_open,
        heads,
        aborted,
        committed,
        a.markers + b.markers,
        max(a.last_gap, b.last_gap, *(gap.end for gap in seam)),
        a.first_timestamp if a.first_timestamp >= 0 else b.first_timestamp,
        max(a.max_timestamp, b.max_timestamp),
        (*a.damaged, *b.damaged),
    )


def _runs(a: Stretch, b: Stretch, *, is_gap: bool) -> tuple[dict[int, ProducerRun], tuple[Break, ...]]:
    runs = dict(a.runs)
    breaks = [*a.breaks, *b.breaks]
    seen = {(each.producer_id, each.offset) for each in b.breaks}  # by a marker before the first batch
    for producer_id, behind in b.runs.items():
        before = runs.get(producer_id)
        is_behind_gap = behind.behind_gap or is_gap
        if before is None or before.first_sequence == UNKNOWN:
            behind = behind._replace(behind_gap=is_behind_gap or a.last_gap >= 0)
        if before is None:
            runs[producer_id] = behind
            continue
        if behind.first_sequence == UNKNOWN:
            runs[producer_id] = before.raised(max(behind.epoch, before.epoch), behind.timestamp)
            continue
        text = sequence_break(before.epoch, before.sequence, behind.first_epoch, behind.first_sequence)
        is_new = (producer_id, behind.first_offset) not in seen
        is_excused = behind.first_epoch >= before.epoch and (is_behind_gap or a.last_gap > before.offset)
        if text and is_new and not is_excused:
            breaks.append(Break(producer_id, behind.first_offset, text, behind.first_place))
        runs[producer_id] = behind if before.first_sequence == UNKNOWN else ProducerRun(*before[:5], *behind[5:])
    return runs, tuple(breaks)


def _transactions(a: Stretch, b: Stretch) -> tuple[dict[int, Open], dict[int, Head], tuple[AbortedStretch, ...], int]:
    still_open, heads = dict(a.open), dict(a.heads)
    aborted, committed = [*a.aborted, *b.aborted], a.committed + b.committed
    for producer_id, head in b.heads.items():
        begun = still_open.pop(producer_id, None)
        first_offset = head.first_offset if begun is None else begun.first_offset
        if begun is None and producer_id not in heads:
            heads[producer_id] = head
        elif first_offset >= 0 and head.committed:
            committed += 1
        elif first_offset >= 0:
            aborted.append(AbortedStretch(producer_id, first_offset, head.last_offset))
    for producer_id, begun in b.open.items():
        still_open.setdefault(producer_id, begun)
    return still_open, heads, tuple(aborted), committed


def sequence_break(epoch: int, sequence: int, its_epoch: int, its_sequence: int) -> str:
    """The contradiction of a batch with its producer's batch before it, in words; empty if it continues it.

    A new epoch begins at sequence 0, and sequences wrap from 2^31 - 1 to 0. Batches that are missing between the two
    excuse all but an epoch that falls.
    """
    if its_epoch < epoch:
        return f"epoch {its_epoch} follows epoch {epoch}"
    if sequence == UNKNOWN:
        return ""
    if its_epoch > epoch or sequence == FRESH:
        return f"epoch {its_epoch} begins with sequence {its_sequence} instead of 0" if its_sequence else ""
    if its_sequence == sequence + 1 & 0x7FFF_FFFF:
        return ""
    return f"sequence {its_sequence} follows {sequence} of epoch {epoch}"
