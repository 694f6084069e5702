"""Making what a log has written durable: planned by the log's thread, done in any thread, noted by the log's thread.

Invariant: when :meth:`Flush.run` returns, everything appended before the flush began survives the machine's crash, with
the names of its files, its leader epochs and its topic id. An error means that this can never be said any more: the
directory goes offline, an fsync is never repeated.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kpystorage.checkpoint import render_epochs, write_atomically
from kpystorage.disk import Descriptor, Disk, File, failing_for_good
from kpystorage.segment import Segment

if TYPE_CHECKING:
    from kpystorage.log import Log


class Unflushed:
    """What of a log's files, beside the active segment's batches, has not been made durable yet."""

    __slots__ = ("new_directory", "new_files", "removed_files", "sealed")

    def __init__(self, new_files: Iterable[str] = (), *, new_directory: bool = False) -> None:
        self.sealed: list[Segment] = []
        """Segments that were completed."""
        self.new_files = list(new_files)
        """Paths of other files."""
        self.new_directory = new_directory
        """Whether the log's directory is new itself."""
        self.removed_files = False
        """Whether files were renamed or removed."""

    def __bool__(self) -> bool:
        return bool(self.sealed or self.new_files or self.new_directory or self.removed_files)

    def forget(self, segment: Segment) -> None:
        """A segment goes, or is written to again."""
        if segment in self.sealed:
            self.sealed.remove(segment)

    def forget_file(self, path: str) -> None:
        """A file goes."""
        if path in self.new_files:
            self.new_files.remove(path)

    def take_back(self, other: "Unflushed") -> None:
        """A flush of ``other`` no longer counts."""
        self.sealed += other.sealed
        self.new_files += other.new_files
        self.new_directory |= other.new_directory
        self.removed_files |= other.removed_files

    def descriptors(self, disk: Disk, snapshots: Iterable[str], active: File) -> list[Descriptor]:
        """What there is to be flushed, the active segment last. OSError.

        What only a path is known of is open for as long as the flush holds it: nobody else would close it.
        """
        opened = [file.descriptor() for segment in self.sealed for file in segment.files() if file is not active]
        for path in (*self.new_files, *snapshots):
            if path != active.path:
                file = disk.file(path)
                opened.append(file.descriptor())
                file.release()
        return [*opened, active.descriptor()]


class Flush:
    """One flush of one log. ``end_offset`` is what the recovery point becomes when it is noted."""

    __slots__ = ("covered", "descriptors", "directories", "disk", "end_offset", "epochs", "size_bytes")

    def __init__(self, disk: Disk, end_offset: int, size_bytes: int, covered: Unflushed) -> None:
        self.disk = disk
        self.end_offset = end_offset
        self.size_bytes = size_bytes
        self.covered = covered
        self.descriptors: list[Descriptor] = []
        self.directories: list[str] = []
        self.epochs: tuple[str, bytes] | None = None

    def run(self) -> None:
        """Do it. OSError if any of it fails. May run in a thread."""
        with failing_for_good():
            self.attempt()

    def attempt(self) -> None:
        """Do it, in a thread; after DescriptorsExhausted it may be tried again, after any other OSError not."""
        for descriptor in self.descriptors:
            descriptor.fsync()
        if self.epochs is not None:
            write_atomically(self.disk, *self.epochs)
        for directory in self.directories:
            self.disk.synchronize_directory(directory)


def begin_flush_of_epochs(log: "Log") -> Flush | None:
    """A flush of a log's leader epochs alone: where they are on disk, to begin a segment waits for no disk.

    None while another flush of this log is under way, if they are there, and in an offline directory.
    """
    if log.directory.failure is not None or log.flushing is not None or not log.epochs.dirty:
        return None
    flush = Flush(log.directory.disk, log.recovery_point, 0, Unflushed())
    flush.epochs = (log.epochs_path, render_epochs(log.epochs.entries()))
    log.epochs.dirty = False
    log.flushing = flush
    return flush
