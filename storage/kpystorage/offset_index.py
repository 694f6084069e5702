"""``.index``: the positions of a segment's batches in its file. Entries of 8 bytes: relative offset i32, position i32.

An entry's offset is the last one of the batch at its position (Kafka's OffsetIndex). Files have the valid entries and
nothing behind them: the space that Kafka preallocates while a segment is active is not allocated here, but its limit
applies.

Invariant: offsets and positions ascend strictly.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final

from kpystorage.entry_file import ENTRIES_PER_WRITE, EntryFile
from kpystorage.file import File
from kpystorage.scan import Readable
from kpywire.batch import HEADER, HEADER_BYTES, MAGIC, BatchHeader

_ENTRY: Final = Struct(">ii")
ENTRY_BYTES: Final = _ENTRY.size
MOST_IN_ENTRY: Final = (1 << 31) - 1
_offset_of = Struct(">i").unpack_from


def _key(entries: bytes, position: int) -> int:
    relative_offset: int = _offset_of(entries, position)[0]
    return relative_offset


def _key_of_position(entries: bytes, position: int) -> int:
    return _key(entries, position + 4)


class OffsetIndex:
    """The offset index of one segment."""

    __slots__ = ("_base_offset", "_entries", "last_offset", "last_position")

    def __init__(self, file: File, base_offset: int, count: int | None = None) -> None:
        self._entries = EntryFile(file, ENTRY_BYTES, count)
        self._base_offset = base_offset
        self._read_last()

    def _read_last(self) -> None:
        count = len(self._entries)
        self.last_offset, self.last_position = self.entry(count - 1) if count else (self._base_offset, 0)

    @property
    def file(self) -> File:
        return self._entries.file

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, number: int) -> tuple[int, int]:
        """(offset, position) of an entry."""
        return self._read(self._entries.read(number, 1))

    def _read(self, entry: bytes) -> tuple[int, int]:
        relative_offset, position = _ENTRY.unpack(entry)
        return self._base_offset + relative_offset, position

    def append(self, offset: int, position: int) -> bool:
        """Add an entry in memory. Return whether enough have gathered to be written.

        A batch that no entry can describe, in a file that Kafka would not have written, is left out: it is found by
        reading on.
        """
        if offset - self._base_offset > MOST_IN_ENTRY or position > MOST_IN_ENTRY:
            return False
        self._entries.append(_ENTRY.pack(offset - self._base_offset, position))
        self.last_offset = offset
        self.last_position = position
        return self._entries.unwritten >= ENTRIES_PER_WRITE

    def flush(self) -> None:
        self._entries.flush()

    def lookup(self, offset: int) -> tuple[int, int]:
        """The (offset, position) of the last entry at or below ``offset``; (base offset, 0) if there is none."""
        if offset >= self.last_offset:
            return self.last_offset, self.last_position
        number, entry = self._entries.last_not_above(offset - self._base_offset, _key, 0)
        return self._read(entry) if number >= 0 else (self._base_offset, 0)

    def first_from(self, position: int) -> int | None:
        """The offset of the first entry that lies at or behind ``position``; None if there is none."""
        number = self._entries.last_not_above(position - 1, _key_of_position, 0)[0] + 1
        return self.entry(number)[0] if number < len(self._entries) else None

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at and above ``offset``."""
        self._keep(self._entries.last_not_above(offset - self._base_offset - 1, _key, 0)[0] + 1)

    def rebuild(self) -> None:
        """Remove all entries, in memory only. Others follow, and then :meth:`settle`."""
        self._entries.rebuild()
        self._read_last()

    def settle(self) -> None:
        """Make the file equal to this index."""
        self._entries.settle()

    def keep(self, count: int) -> None:
        """Remove all but the first ``count`` entries."""
        self._keep(count)

    def _keep(self, count: int) -> None:
        self._entries.truncate(count)
        self._read_last()


def position_near(index: File, log: Readable, log_bytes: int, base_offset: int, offset: int) -> int:
    """The position of a batch at or before ``offset``, by an index that has another owner and is not believed.

    0 if there is none before it, if the index is not there or is being changed, and if it points at no batch.
    """
    try:
        entries = EntryFile(index, ENTRY_BYTES)
        entry = entries.last_not_above(min(offset - base_offset, MOST_IN_ENTRY), _key_unless_space, 0)[1]
    except (FileNotFoundError, struct_error):
        return 0
    finally:
        index.release()
    relative_offset, position = _ENTRY.unpack(entry) if entry else (0, 0)
    head = log.pread(HEADER_BYTES, position) if 0 < position < log_bytes else b""
    if len(head) < HEADER_BYTES:
        return 0
    header = BatchHeader._make(HEADER.unpack(head))
    is_there = header.magic == MAGIC and header.last_offset == base_offset + relative_offset
    return position if is_there else 0


def _key_unless_space(entries: bytes, position: int) -> int:
    """The key of an entry. The zeros that Kafka preallocates behind the entries of an active segment are above all."""
    return _key(entries, position) if any(entries[position : position + ENTRY_BYTES]) else MOST_IN_ENTRY + 1
