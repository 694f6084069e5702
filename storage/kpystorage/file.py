"""The file protocol: every call storage makes on one file. `disk` has the calls on a file system.

A :class:`File` belongs to the thread that owns its log. A :class:`Descriptor` may be used by any thread and outlives
the file's renaming and removal as long as it is held. So for work in a thread (fsync, a cold read) a descriptor is
taken first.

Invariant: a call does all of what it says or raises OSError; no read, write or fsync is ever retried here.
"""

from typing import Protocol

from kpywire.varint import Buffer


class Descriptor(Protocol):
    """An open file. It stays open as long as it is held."""

    def pread(self, length: int, position: int) -> bytes:
        """``length`` bytes from ``position`` on; fewer only where the file ends."""

    def fsync(self) -> None:
        """Make everything written so far durable. After an error what was written must be given up."""

    def confirm(self) -> None:
        """Report what an fsync would report, for writes that ``synchronize_all`` has taken to the disk. It adds no wait
        for the disk."""

    def drop_cache(self, position: int, end: int) -> None:
        """Make the next read of these bytes come from the disk itself, where the system supports that."""

    def fileno(self) -> int:
        """The operating system's descriptor, or -1 where there is none (a disk in memory)."""


class File(Protocol):
    """A file by its path; opened at first use, and again after its descriptor had to be given up for others."""

    path: str
    is_given_up: bool
    """Whether a descriptor that bytes were written through was closed without an fsync: the fsync of another descriptor
    may not report that they were lost. The code that flushes the file resets it."""

    def descriptor(self) -> Descriptor:
        """The open file, to be kept as long as needed."""

    def pread(self, length: int, position: int) -> bytes:
        """``length`` bytes from ``position`` on; fewer only where the file ends."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at ``position``. On OSError any part of it may have been written."""

    def size(self) -> int:
        """Bytes of the file."""

    def truncate(self, length: int) -> None:
        """Cut or extend (with zeros) to ``length`` bytes."""

    def reserve(self, length: int) -> None:
        """Reserve the space for ``length`` bytes, by zeros behind the end, where that means anything."""

    def fsync(self) -> None:
        """Make everything written so far durable."""

    def release(self) -> None:
        """Give the descriptor back; the next use opens it again."""
