"""``.timeindex``: the places in a segment by time. Entries of 12 bytes: timestamp i64, relative offset i32.

An entry says: up to this offset (the last one of its batch) no record is later than this (Kafka's TimeIndex).

Invariant: timestamps ascend strictly, offsets never descend.
"""

from struct import Struct
from typing import Final, NamedTuple

from kpystorage.entry_file import EntryFile
from kpystorage.file import File
from kpystorage.offset_index import MOST_IN_ENTRY
from kpywire.batch import NO_TIMESTAMP

_ENTRY: Final = Struct(">qi")
ENTRY_BYTES: Final = _ENTRY.size
_timestamp_of = Struct(">q").unpack_from
_offset_of = Struct(">i").unpack_from


class TimestampOffset(NamedTuple):
    """A timestamp in ms and the offset that goes with it."""

    timestamp: int
    offset: int


def _timestamp_key(entries: bytes, position: int) -> int:
    timestamp: int = _timestamp_of(entries, position)[0]
    return timestamp


def _offset_key(entries: bytes, position: int) -> int:
    relative_offset: int = _offset_of(entries, position + 8)[0]
    return relative_offset


class TimeIndex:
    """The time index of one segment."""

    __slots__ = ("_base_offset", "_entries", "last")

    def __init__(self, file: File, base_offset: int, count: int | None = None) -> None:
        self._entries = EntryFile(file, ENTRY_BYTES, count)
        self._base_offset = base_offset
        self._read_last()

    def _read_last(self) -> None:
        count = len(self._entries)
        self.last = self.entry(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self._base_offset)

    @property
    def file(self) -> File:
        return self._entries.file

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, number: int) -> TimestampOffset:
        return self._read(self._entries.read(number, 1))

    def _read(self, entry: bytes) -> TimestampOffset:
        timestamp, relative_offset = _ENTRY.unpack(entry)
        return TimestampOffset(timestamp, self._base_offset + relative_offset)

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Add an entry in memory if its timestamp is above the last one's, and its offset not too far from the base for
        one."""
        if timestamp > self.last.timestamp and offset - self._base_offset <= MOST_IN_ENTRY:
            self._entries.append(_ENTRY.pack(timestamp, offset - self._base_offset))
            self.last = TimestampOffset(timestamp, offset)

    def flush(self) -> None:
        self._entries.flush()

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below ``timestamp``; (-1, base offset) if there is none."""
        if timestamp >= self.last.timestamp:
            return self.last
        number, entry = self._entries.last_not_above(timestamp, _timestamp_key)
        return self._read(entry) if number >= 0 else TimestampOffset(NO_TIMESTAMP, self._base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at and above ``offset``."""
        self._keep(self._entries.last_not_above(offset - self._base_offset - 1, _offset_key, 0)[0] + 1)

    def rebuild(self) -> None:
        """Remove all entries, in memory only. Others follow, and then :meth:`settle`."""
        self._entries.rebuild()
        self._read_last()

    def settle(self) -> None:
        """Make the file equal to this index."""
        self._entries.settle()

    def _keep(self, count: int) -> None:
        self._entries.truncate(count)
        self._read_last()
