"""The disk protocol: every call storage makes on a file system. Nothing in this package goes past it and `file`.

Whole-file calls of :class:`Disk` (``read``, ``write``, ``rename``, ``synchronize_directory``) may run in
any thread.

Invariant: a call does all of what it says or raises OSError; no read, write or fsync is ever retried here.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple, Protocol

from kpystorage.file import File
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
