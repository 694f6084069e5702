"""The map step of an audit: walking over the batches of one replica's log, from bytes to a `Stretch`. Pure.

The bytes come in pieces that begin with a batch, from a file or from the answer to a Fetch. The checksum, the framing
and the offset of each batch are checked; only control batches are decoded. Most batches follow the one before them and
pass through one short loop; others open a window, an epoch or a gap, or have a producer.

Invariants: a batch counts once. Memory grows with producers, markers and windows, not with batches.
"""

from enum import Enum
from hashlib import sha256
from typing import Final, NamedTuple

from kpybroker.machines.audit.findings import BYTES, DAMAGE, OFFSETS, AuditFinding, BytePlace, Report
from kpybroker.machines.audit.stretch import (
    MARKER,
    NO_OFFSET,
    UNKNOWN,
    AbortedStretch,
    Break,
    Head,
    OffsetGap,
    Open,
    ProducerRun,
    Stretch,
    sequence_break,
)
from kpybroker.machines.audit.windows import SHIFT, WINDOW_OFFSETS, AuditWindow
from kpystorage.control_batches import transaction_marker
from kpywire.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from kpywire.crc import crc32c
from kpywire.errors import Malformed
from kpywire.varint import Buffer

END_OF_ALL: Final = (1 << 63) - 1
_MIN_LENGTH = HEADER_BYTES - LENGTH_END
_EMPTY_EPOCH = -2


class Status(Enum):
    """The reason why a walk took no more bytes."""

    MORE = "more"
    """The next batch needs more bytes than were there: `AuditWalk.wanted` of them."""
    ODD = "odd"
    """The next bytes are not a valid batch."""
    DONE = "done"
    """The next batch lies beyond the end of the walk."""


class Of(NamedTuple):
    """The replica of a partition, for findings."""

    replica: str
    topic: str
    partition: int


class AuditWalk:
    """A walk over the batches of a log with base offsets in ``start .. end``.

    ``expected`` is the offset where the next batch begins, -1 at the beginning of a log or a stretch. ``headers`` is
    None, or a list that gets the position and the header of each batch.
    """

    def __init__(self, of: Of, report: Report, start: int, end: int = END_OF_ALL, *, deep: bool = False) -> None:
        self.of = of
        self.path = ""
        """The file that the bytes come from; empty for the network."""
        self.end = end
        self.expected = NO_OFFSET
        self.wanted = 0
        self.headers: list[tuple[int, BatchHeader]] | None = None
        self._report = report
        self._deep = deep
        self._begin(start)

    def _begin(self, start: int) -> None:
        self._start = start
        self._size_bytes = self._batches = self._records = 0
        self._windows: list[AuditWindow] = []
        self._window_end = NO_OFFSET
        self._window = (-1, 0, 0, 0)  # number, base, and how many batches and records there were before it
        self._entries = bytearray()
        self._gaps: list[OffsetGap] = []
        self._missing = 0
        self._missing_to = NO_OFFSET
        self._missing_place = BytePlace()
        self._epoch = _EMPTY_EPOCH
        self._epochs: list[tuple[int, int, int]] = []
        self._epoch_start = NO_OFFSET
        self.runs: dict[int, ProducerRun] = {}
        self._breaks: list[Break] = []
        self._open: dict[int, Open] = {}
        self._heads: dict[int, Head] = {}
        self._aborted: list[AbortedStretch] = []
        self._committed = 0
        self._markers = bytearray()
        self._last_gap = NO_OFFSET
        self._first_timestamp = self._max_timestamp = NO_OFFSET
        self._damaged: list[tuple[int, int]] = []

    def feed(
        self, data: Buffer, position: int, following: int | None = None, *, is_all: bool = False
    ) -> tuple[int, Status]:
        """Take the batches that ``data`` begins with, which lies at ``position`` of the file. Return the bytes taken.

        ``is_all``: the file has no more bytes. ``following`` is the offset where the next file begins, if there is one.
        """
        view = memoryview(data)
        size, at = len(view), 0
        end_offset, expected, epoch = self.end, self.expected, self._epoch
        window_end, records, latest = self._window_end, self._records, self._max_timestamp
        batches, headers, deep = 0, self.headers, self._deep
        entries, unpack = self._entries, HEADER.unpack_from
        while True:
            if at + HEADER_BYTES > size:
                self.wanted, status = HEADER_BYTES, Status.MORE
                break
            fields = unpack(view, at)
            base, length, its_epoch, magic, crc, _, delta, _, timestamp, producer_id, _, _, count = fields
            if magic != MAGIC or length < _MIN_LENGTH:
                status = Status.ODD
                break
            end = at + length + LENGTH_END
            if base >= end_offset and (base == expected or expected < 0 or expected >= end_offset):
                status = Status.DONE
                break
            if end > size:
                self.wanted, status = end - at, Status.MORE
                break
            if crc32c(view[at + ATTRIBUTES_POSITION : end]) != crc or delta < 0:
                status = Status.ODD
                break
            if base != expected or base >= window_end or its_epoch != epoch or producer_id >= 0 or count <= delta:
                self.expected, self._records, self._epoch = expected, records, epoch
                self._batches += batches
                batches = 0
                seen = self._unusual(fields, view, at, position, following, is_all=is_all)
                if seen is not None:
                    status = seen
                    break
                base, window_end, epoch = self._base, self._window_end, self._epoch
            if headers is not None:
                headers.append((position + at, BatchHeader._make((base, *fields[1:]))))
            entries += view[at : LENGTH_END + at]
            entries += view[MAGIC_POSITION + at : HEADER_BYTES + at]
            if deep:
                digest = sha256(view[at : at + LENGTH_END])
                digest.update(view[at + MAGIC_POSITION : end])
                entries += digest.digest()
            if timestamp > latest:
                latest = timestamp
            batches += 1
            records += count
            expected = base + delta + 1
            at = end
        self.expected, self._records, self._epoch, self._max_timestamp = expected, records, epoch, latest
        self._batches += batches
        self._size_bytes += at
        return at, status

    def skip_damaged(
        self, header: BatchHeader | None, size_bytes: int, text: str, place: BytePlace, next_offset: int = NO_OFFSET
    ) -> None:
        """Note bytes that are not a valid batch. ``header`` is that of a batch that should have been here, if it can be
        recognised; its records count as missing, or those below ``next_offset`` if it is known what follows."""
        lost_from = self.expected
        self._close_epoch()
        self._epoch = _EMPTY_EPOCH
        self.report(DAMAGE, BYTES, place, lost_from if header is None else header.base_offset, text)
        self._size_bytes += size_bytes
        self._explained_from = max(lost_from, 0)
        self._window_end = NO_OFFSET  # so that the next batch is compared with its neighbours
        if header is not None and header.base_offset >= self._explained_from:
            next_offset = header.next_offset
        if next_offset > self._explained_from:
            self._last_gap = max(self._last_gap, next_offset)
            self.expected = next_offset
        self._damaged.append((self._explained_from, max(self.expected, self._explained_from)))

    @property
    def whole_from(self) -> int:
        """The offset from where on no offset is missing."""
        return max(self._last_gap, self._start)

    def report(self, level: str, claim: str, place: BytePlace, offset: int, text: str) -> None:
        """Report a finding about the replica that is walked over."""
        self._report(
            AuditFinding(level, claim, self.of.topic, self.of.partition, self.of.replica, *place, offset, text)
        )

    def cut(self, start: int) -> Stretch:
        """The stretch walked so far. The walk goes on with a new one from ``start`` on."""
        self._close_window(is_last=True)
        self._close_epoch()
        next_offset = self.expected if self.expected >= 0 else self._start
        stretch = Stretch(
            self._start,
            next_offset,
            self._size_bytes,
            self._batches,
            self._records,
            tuple(self._windows),
            tuple(self._gaps),
            self._missing,
            self._missing_to,
            self._missing_place,
            tuple(self._epochs),
            self.runs,
            tuple(self._breaks),
            self._open,
            self._heads,
            tuple(self._aborted),
            self._committed,
            bytes(self._markers),
            self._last_gap,
            self._first_timestamp,
            self._max_timestamp,
            tuple(self._damaged),
        )
        self._begin(max(start, self.expected))
        return stretch

    # The batches that do not just follow the one before them.

    _base = NO_OFFSET
    """The base offset of the last of them, as it should be."""
    _explained_from: int | None = None
    """The offset where bytes begin that were already reported as damaged, if the next batch follows them."""

    def _unusual(
        self, fields: tuple[int, ...], view: memoryview, at: int, position: int, following: int | None, *, is_all: bool
    ) -> Status | None:
        """Take the unusual part of a batch. Return a status if the batch cannot be taken."""
        header = BatchHeader._make(fields)
        place = BytePlace(self.path, position + at) if self.path else BytePlace()
        if header.base_offset != self.expected:
            status = self._jump(header, view, at, place, following, is_all=is_all)
            if status is not None:
                return status
        else:
            self._base, self._explained_from = header.base_offset, None
        base, next_offset = self._base, self._base + header.last_offset_delta + 1
        if base >= self._window_end:
            self._enter_window(base)
        if header.partition_leader_epoch != self._epoch:
            self._close_epoch()
            self._epoch, self._epoch_start = header.partition_leader_epoch, base
        if self._first_timestamp < 0:
            self._first_timestamp = header.max_timestamp
        if header.record_count <= header.last_offset_delta:
            self._missing += header.last_offset_delta + 1 - header.record_count
            self._missing_to, self._missing_place = next_offset, place
        elif header.record_count > header.last_offset_delta + 1:
            what = f"{header.record_count} records in {header.last_offset_delta + 1} offsets"
            self.report(DAMAGE, BYTES, place, base, what)
        if header.producer_id >= 0:
            self._of_producer(header, base, view, at, place)
        return None

    def _jump(
        self, header: BatchHeader, view: memoryview, at: int, place: BytePlace, following: int | None, *, is_all: bool
    ) -> Status | None:
        """Take a base offset that is not the expected one: a gap, or a wrong number, which no checksum covers."""
        base, expected = header.base_offset, self.expected
        self._base = base
        if expected < 0:
            if not self._batches:
                self._start = base
            return None
        if self._explained_from is not None and base >= self._explained_from:
            self._damaged[-1] = (self._damaged[-1][0], base)
            self._explained_from, self._last_gap = None, base
            return Status.DONE if base >= self.end else None
        rightly = expected + header.last_offset_delta + 1
        is_wrong = base < expected
        if base > expected:
            behind = at + header.size
            if behind + HEADER_BYTES <= len(view):
                is_wrong = HEADER.unpack_from(view, behind)[0] == rightly
            elif not is_all:
                self.wanted = header.size + HEADER_BYTES
                return Status.MORE
            else:
                is_wrong = following == rightly or (following is not None and base >= following)
        if base >= self.end and not is_wrong:
            return Status.DONE
        if is_wrong:
            self._base = expected
            self.report(DAMAGE, OFFSETS, place, expected, f"a batch's base offset is {base} instead of {expected}")
            return None
        self._gaps.append(OffsetGap(expected, base, place))
        self._last_gap = base
        return None

    def _enter_window(self, base: int) -> None:
        number = base >> SHIFT
        if number != self._window[0]:
            self._close_window()
            self._window = (number, base, self._batches, self._records)
        self._window_end = (number + 1) * WINDOW_OFFSETS

    def _close_window(self, *, is_last: bool = False) -> None:
        number, base, batches, records = self._window
        if self._batches > batches:
            counts = self._batches - batches, self._records - records
            window = AuditWindow(number, base, self.expected, *counts, b"", bytes(self._entries))
            self._windows.append(window if is_last or not self._windows else window.sealed())
        self._entries.clear()

    def _close_epoch(self) -> None:
        if self._epoch != _EMPTY_EPOCH and self.expected > self._epoch_start >= 0:
            self._epochs.append((self._epoch, self._epoch_start, self.expected - 1))

    def _of_producer(self, header: BatchHeader, base: int, view: memoryview, at: int, place: BytePlace) -> None:
        producer_id = header.producer_id
        if header.attributes & CONTROL_MASK:
            self._marker(header, base, view, at, place)
            return
        if header.attributes & TRANSACTIONAL_MASK and producer_id not in self._open:
            self._open[producer_id] = Open(base, header.producer_epoch, header.max_timestamp)
        if header.base_sequence < 0:
            return
        run = self.runs.get(producer_id)
        if run is not None:
            text = sequence_break(run.epoch, run.sequence, header.producer_epoch, header.base_sequence)
            if text and (header.producer_epoch < run.epoch or self._last_gap <= run.offset):
                self._breaks.append(Break(producer_id, base, text, place))
        last = (header.producer_epoch, header.last_sequence, base + header.last_offset_delta, header.max_timestamp)
        if run is None or run.first_sequence == UNKNOWN:
            first = (header.producer_epoch, header.base_sequence, base, place, self._last_gap >= 0)
            self.runs[producer_id] = ProducerRun(*first, *last)
        else:
            self.runs[producer_id] = ProducerRun(*run[:5], *last)

    def _marker(self, header: BatchHeader, base: int, view: memoryview, at: int, place: BytePlace) -> None:
        try:
            marker = transaction_marker(header, view, at)
        except Malformed as error:
            self.report(DAMAGE, BYTES, place, base, f"a control batch cannot be read: {error}")
            return
        if marker is None:
            return
        producer_id, epoch = header.producer_id, header.producer_epoch
        self._markers += MARKER.pack(producer_id, epoch, marker.committed, base, header.max_timestamp)
        begun = self._open.pop(producer_id, None)
        first_offset = NO_OFFSET if begun is None else begun.first_offset
        if producer_id not in self._heads:
            self._heads[producer_id] = Head(first_offset, base, marker.committed)
        elif first_offset >= 0 and marker.committed:
            self._committed += 1
        elif first_offset >= 0:
            self._aborted.append(AbortedStretch(producer_id, first_offset, base))
        run = self.runs.get(producer_id)
        if run is None:
            first = (epoch, UNKNOWN, NO_OFFSET, place, False)
            self.runs[producer_id] = ProducerRun(*first, epoch, UNKNOWN, NO_OFFSET, header.max_timestamp)
        else:
            self.runs[producer_id] = run.raised(max(epoch, run.epoch), header.max_timestamp)
