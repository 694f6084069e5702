"""Whether the indexes of a segment agree with its batches, found while the batches are read.

Each check takes the batches of its segment in their order, then the end. The zeros that Kafka preallocates behind the
entries of an active segment are not entries.

Invariant: an index is read as a whole once; nothing of the batches is kept.
"""

from collections.abc import Iterator, Sequence
from struct import Struct

from kpystorage.checking.findings import DAMAGE, NOTE, Finding, Report
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire.batch import BatchHeader

REBUILT = "set aside and rebuilt"
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")


def entries(data: bytes, layout: Struct) -> Iterator[tuple[int, ...]]:
    """The entries of an index file, without the space that was preallocated behind them."""
    whole = data[: len(data) // layout.size * layout.size].rstrip(b"\0")
    length = -(-len(whole) // layout.size) * layout.size
    return layout.iter_unpack(data[:length])


class IndexCheck:
    """The common part of the checks: findings of one file. ``wrong`` says whether it is damaged."""

    def __init__(self, path: str, data: bytes, layout: Struct, report: Report) -> None:
        self.path = path
        self.wrong = False
        self._report = report
        if len(data) % layout.size:
            self.say(f"{len(data) % layout.size} bytes behind its last entry")

    def say(self, text: str) -> None:
        """Report damage. A file is reported as damaged once."""
        if not self.wrong:
            self._report(Finding(DAMAGE, self.path, text, REBUILT))
        self.wrong = True

    def note(self, text: str) -> None:
        self._report(Finding(NOTE, self.path, text))


class OffsetIndexCheck(IndexCheck):
    """``.index``: every entry's position begins a batch, and its offset is the batch's last one."""

    def __init__(self, path: str, data: bytes, base_offset: int, report: Report) -> None:
        super().__init__(path, data, _OFFSET_ENTRY, report)
        self._expected: dict[int, int] = {}
        self._later: int | None = None
        previous = base_offset - 1, -1
        for relative, position in entries(data, _OFFSET_ENTRY):
            offset = base_offset + relative
            if offset <= previous[0] or position <= previous[1]:
                self.say(f"entry of offset {offset} at position {position} behind one of {previous[0]}, {previous[1]}")
            previous = offset, position
            self._expected[position] = offset

    def batch(self, position: int, header: BatchHeader) -> None:
        """Take the next batch of the segment."""
        expected = self._expected.pop(position, None)
        if expected is not None:
            if self._later is not None:
                self.say(f"entry of offset {self._later}, which no batch ends with")
            self._later = None
            if expected < header.base_offset:
                self.say(f"entry of offset {expected} at position {position}, where offset {header.base_offset} begins")
            elif expected != header.last_offset:
                self._later = expected
        elif self._later == header.last_offset:
            # So wrote Kafka before 4.0 for several batches at once: readers begin too early, and find everything.
            self.note(f"entry of offset {self._later} points before its batch, which does no harm")
            self._later = None

    def last_from(self, position: int) -> int:
        """The last offset of an entry that lies at or behind this position; -1 if there is none."""
        return max([offset for at, offset in self._expected.items() if at >= position], default=-1)

    def end(self, end_position: int | None = None) -> None:
        """Take the end: the segment has no more batches, or they were read up to ``end_position`` only."""
        if self._later is not None:
            self.say(f"entry of offset {self._later}, which no batch ends with")
        for position, offset in self._expected.items():
            if end_position is not None and position >= end_position:
                continue
            self.say(f"entry of offset {offset} at position {position}, where no batch begins")


class TimeIndexCheck(IndexCheck):
    """``.timeindex``: up to an entry's offset no record is later than its timestamp, and its batch is the first with
    that timestamp.

    A reader begins there to look for the first record of that time or later.
    """

    def __init__(self, path: str, data: bytes, base_offset: int, report: Report) -> None:
        super().__init__(path, data, _TIME_ENTRY, report)
        self._entries = [(timestamp, base_offset + relative) for timestamp, relative in entries(data, _TIME_ENTRY)]
        self._next = 0
        self._latest = -1
        self._latest_since = -1
        """The last offset of the first batch that has the latest timestamp so far."""
        for (timestamp, offset), (following, its_offset) in zip(self._entries, self._entries[1:], strict=False):
            if following <= timestamp or its_offset < offset:
                self.say(f"entry of timestamp {following}, offset {its_offset} behind one of {timestamp}, {offset}")

    def batch(self, header: BatchHeader) -> None:
        """Take the next batch of the segment."""
        if header.max_timestamp > self._latest:
            self._latest, self._latest_since = header.max_timestamp, header.last_offset
        while self._next < len(self._entries) and self._entries[self._next][1] <= header.last_offset:
            timestamp, offset = self._entries[self._next]
            self._next += 1
            if offset < header.base_offset or timestamp != self._latest or timestamp != header.max_timestamp:
                self.say(f"entry of timestamp {timestamp} at offset {offset}, where the log has {self._latest}")
            elif header.last_offset != self._latest_since:
                self.say(f"entry of timestamp {timestamp} at offset {offset}, which {self._latest_since} had first")
            elif offset != header.last_offset:
                self.note(f"entry of offset {offset}, whose batch ends at {header.last_offset}, which does no harm")

    def end(self, end_offset: int | None = None) -> None:
        """Take the end: the segment has no more batches, or they were read up to ``end_offset`` only."""
        for timestamp, offset in self._entries[self._next :]:
            if end_offset is not None and offset >= end_offset:
                continue
            self.say(f"entry of timestamp {timestamp} at offset {offset}, which the segment does not have")


class TransactionIndexCheck(IndexCheck):
    """``.txnindex``: the aborted transactions whose marker lies in the segment.

    The start of a transaction that began before the first batch left cannot be known; only its end is compared.
    """

    def __init__(self, path: str, data: bytes, report: Report) -> None:
        super().__init__(path, data, _TRANSACTION_ENTRY, report)
        self._reported: list[TransactionIndexEntry] = []
        for version, *fields in _TRANSACTION_ENTRY.iter_unpack(data[: len(data) // 34 * 34]):
            if version:
                self.say(f"entry of unknown version {version}")
            self._reported.append(TransactionIndexEntry._make(fields))

    def end(
        self, found: Sequence[TransactionIndexEntry], markers: Sequence[tuple[int, int]], *, complete: bool
    ) -> None:
        """``found`` are the transactions whose abort was seen, ``markers`` all aborts (producer id, offset).

        ``complete``: nothing was missing before them, and nothing was compacted away.
        """
        if complete:
            if self._reported != list(found):
                odd = next((each for each in self._reported if each not in found), None)
                lacking = next((each for each in found if each not in self._reported), None)
                self.say(f"says {odd}" if odd is not None else f"lacks {lacking}")
            return
        known = {each.last_offset: each for each in found}
        ends = set(markers)
        for each in self._reported:
            seen = known.get(each.last_offset)
            fits = each.first_offset <= each.last_offset and each.last_stable_offset <= each.last_offset + 1
            if not fits or (seen is not None and seen.producer_id != each.producer_id):
                self.say(f"says {each}")
            elif seen is None and (each.producer_id, each.last_offset) not in ends:
                self.note(f"names the end of a transaction at offset {each.last_offset}, whose marker is gone")
