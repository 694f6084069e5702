"""The file protocol: every call storage makes on a file system. Nothing in this package goes past it.

A :class:`File` belongs to the thread that owns its log. A :class:`Descriptor` may be used by any thread and outlives
the file's renaming and removal as long as it is held. So for work in a thread (fsync, a cold read) a descriptor is
taken first. Whole-file calls of :class:`Disk` (``read``, ``write``, ``rename``, ``synchronize_directory``) may run in
any thread.

Invariant: a call does all of what it says or raises OSError; no read, write or fsync is ever retried here.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple, Protocol

from kpystorage.gathering import Gathering
from kpywire.varint import Buffer


class DescriptorsExhausted(OSError):
    """A file could not be opened, since the process or the system may not open any more. Nothing was done."""


@contextmanager
def failing_for_good() -> Iterator[None]:
    """Treat a missing descriptor like a failed disk, for the steps after a write that must not stand alone."""
    try:
        yield
    except DescriptorsExhausted as error:
        raise OSError(error.errno, error.strerror, error.filename) from error


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


class FileStatus(NamedTuple):
    """The facts about a path that recovery needs. ``inode`` and ``device`` identify it; ``modified_ns`` is the time of
    change."""

    size: int
    modified_ns: int
    inode: int
    device: int
    is_directory: bool


class Lock(Protocol):
    """An exclusive lock on a file, held until released or the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute strings with ``/``."""

    gathering: Gathering
    """The gathered appends to logs on this disk."""

    def file(self, path: str) -> File:
        """The file at ``path``, which may not exist yet; nothing is opened."""

    def create(self, path: str) -> File:
        """A new empty file at ``path``; an existing one is emptied."""

    def read(self, path: str) -> bytes:
        """All bytes of a small file. FileNotFoundError if it is not there."""

    def write(self, path: str, data: Buffer, *, synchronize: bool) -> None:
        """Create or replace a file and, with ``synchronize``, fsync it. Not atomic: ``write_atomically`` is."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory, over an existing file if there is one."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name (a hard link). FileExistsError if there is a file of that name."""

    def unlink(self, path: str) -> None:
        """Remove a file. FileNotFoundError if it is not there."""

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, in no particular order."""

    def make_directory(self, path: str) -> None:
        """Create a directory. FileExistsError if it is there."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def status(self, path: str) -> FileStatus | None:
        """The status of ``path``, None if nothing is there."""

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the time of change of a file. FileNotFoundError if it is not there."""

    def synchronize_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def synchronize_all(self, path: str) -> bool:
        """Make everything on the file system of ``path`` durable at once; False where that cannot be done.

        It does not report failed writes: each descriptor that was written through has to confirm its own.
        """

    def lock(self, path: str) -> Lock | None:
        """Take the exclusive lock on the file ``path``, which is created if need be; None if another process has it."""

    def free_bytes(self, path: str) -> int:
        """Bytes an unprivileged user may still write on the file system of ``path``."""

    def total_bytes(self, path: str) -> int:
        """Bytes the file system of ``path`` has in all."""

    def boot_id(self) -> str:
        """The identity of this start of the machine; empty where it cannot be known."""

    def new_lock(self) -> AbstractContextManager[object]:
        """A lock for something on this disk that several threads of this process work on."""

    def mount_id(self, path: str) -> str:
        """The identity of the current mount of the file system of ``path``, unique within a start of the machine; empty
        where it cannot be known."""


def remove_tree(disk: Disk, path: str) -> Iterable[str]:
    """Remove a directory with its files one step at a time. Yields each path as it is removed, so that a caller may
    pause.

    A file that was removed already is no error. Log directories hold no directories; one inside is an error
    (OSError), not followed.
    """
    with suppress(FileNotFoundError):
        for name in disk.list_directory(path):
            entry = f"{path}/{name}"
            with suppress(FileNotFoundError):
                disk.unlink(entry)
            yield entry
        disk.remove_directory(path)
    yield path
