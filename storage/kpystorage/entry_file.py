"""A file of entries of one size, appended to in memory and written several at a time: the base of every index.

Unwritten entries are lost with the process. That is harmless for an index: recovery continues behind the last entry
that reached the file. Reading sees written and unwritten entries alike.

A rebuilt index is mostly equal to the old one. Entries that are in the file already are not written again, since
emptying and filling a thousand files would keep a busy disk occupied for seconds.

Invariant: the file holds entries ``0 .. written``, the tail the rest; ``len()`` is both together. Only between
:meth:`rebuild` and :meth:`settle` may the file hold more.
"""

from collections.abc import Callable
from typing import Final

from kpystorage.disk import failing_for_good
from kpystorage.file import File

ENTRIES_PER_WRITE: Final = 64
_BLOCK_BYTES: Final = 4096


class EntryFile:
    """Entries of ``entry_bytes`` each. Its owner keeps them in ascending order of its search key."""

    __slots__ = ("_old_bytes", "_tail", "_written", "entry_bytes", "file")

    def __init__(self, file: File, entry_bytes: int, count: int | None = None) -> None:
        """``count`` is the number of entries in the file; None asks the file (a rest of an entry is ignored)."""
        self.file = file
        self.entry_bytes = entry_bytes
        self._written = file.size() // entry_bytes if count is None else count
        self._tail = bytearray()
        self._old_bytes = 0  # of the file before it was rebuilt, as long as they may be right

    def __len__(self) -> int:
        return self._written + len(self._tail) // self.entry_bytes

    @property
    def unwritten(self) -> int:
        """Entries that are only in memory."""
        return len(self._tail) // self.entry_bytes

    def append(self, entry: bytes) -> None:
        """Add an entry in memory."""
        self._tail += entry

    def flush(self) -> None:
        """Write the entries that are only in memory (to the page cache)."""
        if self._tail:
            position = self._written * self.entry_bytes
            with failing_for_good():
                if not self._is_there(position):
                    self.file.pwrite(self._tail, position)
            self._written += len(self._tail) // self.entry_bytes
            self._tail = bytearray()

    def _is_there(self, position: int) -> bool:
        """Whether the old file has the same entry. Its contents from the first difference on are removed."""
        if self._old_bytes > position:
            if self.file.pread(len(self._tail), position) == self._tail:
                return True
            self.file.truncate(position)
        self._old_bytes = 0
        return False

    def rebuild(self) -> None:
        """Remove all entries. The file stays as it is until others are written, and has to be settled then."""
        self._old_bytes = self.file.size()
        self._tail = bytearray()
        self._written = 0

    def settle(self) -> None:
        """Write the entries that are only in memory. The file then holds all entries and nothing else."""
        self.flush()
        if self._old_bytes > self._written * self.entry_bytes:
            self.file.truncate(self._written * self.entry_bytes)
        self._old_bytes = 0

    def read(self, first: int, count: int) -> bytes:
        """Entries ``first .. first + count``, as many of them as there are."""
        size = self.entry_bytes
        if first >= self._written:
            start = (first - self._written) * size
            return bytes(self._tail[start : start + count * size])
        in_file = min(count, self._written - first)
        data = self.file.pread(in_file * size, first * size)
        if in_file < count and len(data) == in_file * size:
            data += self._tail[: (count - in_file) * size]
        return data

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` entries, and write them: the file then holds these and nothing else."""
        if count >= self._written:
            del self._tail[(count - self._written) * self.entry_bytes :]
            self.flush()
        else:
            self._tail = bytearray()
            self._written = count
        if self.file.size() != count * self.entry_bytes:  # to cut nothing would still be a change of the file
            self.file.truncate(count * self.entry_bytes)
        self._old_bytes = 0

    def last_not_above(
        self, target: int, key: Callable[[bytes, int], int], least: int | None = None
    ) -> tuple[int, bytes]:
        """Number and bytes of the last entry whose key is <= ``target``; -1 and nothing if there is none.

        ``key(entries, position)`` reads the key of the entry at a byte position; ``least`` is about that of the first
        entry, if the caller knows it without looking.
        """
        size = self.entry_bytes
        first, block = self._block_for(target, key, least)
        low, high = 0, len(block) // size
        while low < high:
            middle = (low + high) // 2
            if key(block, middle * size) <= target:
                low = middle + 1
            else:
                high = middle
        return first + low - 1, block[(low - 1) * size : low * size] if low else b""

    def _block_for(self, target: int, key: Callable[[bytes, int], int], least: int | None) -> tuple[int, bytes]:
        """The entries that contain the last one not above ``target``, if there is any, and the number of the first.

        Recently appended entries are searched first. In the rest, keys mostly ascend evenly: first a block is read
        where the entry should be, and later attempts alternate with the middle.
        """
        size = self.entry_bytes
        per_block = _BLOCK_BYTES // size
        low, high = 0, len(self)
        first = self._written if self._tail else high - min(high, per_block)
        block = self.read(first, high - first)
        if not block or key(block, 0) <= target:
            return first, block
        high, high_key = first, key(block, 0)
        low_key = least if least is not None or not high else key(self.read(0, 1), 0)
        halve = False
        while high - low > per_block:
            if halve or low_key is None or high_key <= low_key:
                guess = (low + high) // 2
            else:
                guess = low + (high - low) * (target - low_key) // (high_key - low_key)
            halve = not halve
            first = min(max(guess - per_block // 2, low), high - per_block)
            block = self.read(first, per_block)
            last_key = key(block, len(block) - size)
            if key(block, 0) > target:
                high, high_key = first, key(block, 0)
            elif last_key <= target:
                low, low_key = first + per_block - 1, last_key
            else:
                return first, block
        return low, self.read(low, high - low)
