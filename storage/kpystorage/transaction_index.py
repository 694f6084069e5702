"""``.txnindex``: the aborted transactions whose marker lies in a segment. The file is made for the first of them.

Entries of 34 bytes: version i16 (0), producer id, first offset, last offset (of the marker) and last stable offset
when the marker was written, each i64 (Kafka's TransactionIndex and AbortedTxn).

Invariant: last offsets ascend strictly.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from kpystorage.disk import Disk, failing_for_good
from kpystorage.errors import CorruptFile
from kpystorage.file import File

VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
_READ_BYTES: Final = ENTRY_BYTES * 1024
_LAST_OFFSET: Final = Struct(">q")
_LAST_OFFSET_POSITION: Final = 18
_FEW: Final = 16
"""The entries that are read at once rather than searched."""


class TransactionIndexEntry(NamedTuple):
    """An aborted transaction: its producer's records from ``first_offset`` up to ``last_offset``, the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The transaction index of one segment."""

    __slots__ = ("_bytes", "_disk", "_file", "path")

    def __init__(self, disk: Disk, path: str, *, exists: bool) -> None:
        self.path = path
        self._disk = disk
        self._file: File | None = disk.file(path) if exists else None
        self._bytes = -1 if exists else 0  # -1: not asked yet

    @property
    def file(self) -> File | None:
        """The file, None while there is none."""
        return self._file

    def append(self, aborted: TransactionIndexEntry) -> None:
        """Write an entry (to the page cache)."""
        with failing_for_good():
            if self._file is None:
                self._file = self._disk.create(self.path)
            position = self._size()
            self._file.pwrite(_ENTRY.pack(VERSION, *aborted), position)
        self._bytes = position + ENTRY_BYTES

    def entries(self) -> Iterator[TransactionIndexEntry]:
        """All entries in order.

        Raises:
            CorruptFile: an entry has a version that is not known.
        """
        return (aborted for _, aborted in self._positions())

    def overlapping(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[TransactionIndexEntry], bool]:
        """The aborted transactions that reach into ``fetch_offset .. upper_bound_offset``, and whether these are all.

        False means that the segments behind this one may hold more.
        """
        found = []
        for _, aborted in self._positions(self._position_of(fetch_offset)):
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions that end at or above ``offset``."""
        for position, aborted in self._positions():
            if aborted.last_offset >= offset:
                self._cut(position)
                return

    def reset(self) -> None:
        """Remove all entries."""
        if self._file is not None:
            self._cut(0)

    def is_sane(self, base_offset: int) -> bool:
        """Whether every entry can belong to a segment that starts at ``base_offset``."""
        try:
            return all(aborted.last_offset >= base_offset for aborted in self.entries())
        except CorruptFile:
            return False

    def moved(self, path: str) -> None:
        """Use another path of the file."""
        self.path = path
        if self._file is not None:
            self._file.path = path

    def _position_of(self, offset: int) -> int:
        """The position of an entry near the first transaction that ends at or above ``offset``, and not behind it."""
        if self._file is None:
            return 0
        low, high = 0, self._size() // ENTRY_BYTES
        while high - low > _FEW:
            middle = (low + high) // 2
            found = self._file.pread(_LAST_OFFSET.size, middle * ENTRY_BYTES + _LAST_OFFSET_POSITION)
            if len(found) < _LAST_OFFSET.size or _LAST_OFFSET.unpack(found)[0] >= offset:
                high = middle
            else:
                low = middle
        return low * ENTRY_BYTES

    def _positions(self, position: int = 0) -> Iterator[tuple[int, TransactionIndexEntry]]:
        """The entries from ``position`` on."""
        if self._file is None:
            return
        end = self._size()
        while position + ENTRY_BYTES <= end:
            data = self._file.pread(min(_READ_BYTES, (end - position) // ENTRY_BYTES * ENTRY_BYTES), position)
            for version, *fields in _ENTRY.iter_unpack(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]):
                if version > VERSION:
                    raise CorruptFile(f"{self.path}: entry of unknown version {version}")
                yield position, TransactionIndexEntry._make(fields)
                position += ENTRY_BYTES
            if len(data) < ENTRY_BYTES:
                return

    def _size(self) -> int:
        if self._bytes < 0:
            assert self._file is not None
            self._bytes = self._file.size() // ENTRY_BYTES * ENTRY_BYTES  # a rest of an entry is written over
        return self._bytes

    def _cut(self, length: int) -> None:
        assert self._file is not None
        self._file.truncate(length)
        self._bytes = length
