"""Making what a log has written durable: planned by the log's thread, done in any thread, noted by the log's thread.

Invariant: when :meth:`Flush.run` returns, everything appended before the flush began survives the machine's crash, with
the names of its files, its leader epochs and its topic id. After an error this can never be known again: the directory
goes offline, and an fsync is never repeated. An fsync counts for the descriptor that was written through; bytes that
were written through another one, which is closed, are read back.
"""

import errno
from collections.abc import Iterable
from typing import Protocol

from kpystorage import names
from kpystorage.checkpoint import render_epochs
from kpystorage.disk import Disk, failing_for_good
from kpystorage.file import Descriptor, File
from kpystorage.home import Home
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log_folder import LogFolder
from kpystorage.log_offset import LogOffset
from kpystorage.read_back import ReadBack, read_backs
from kpystorage.segment import Segment
from kpystorage.snapshot_files import SnapshotFiles


class Unflushed:
    """The parts of a log's files, beside the active segment's batches, that have not been made durable yet."""

    __slots__ = ("given_up", "new_directory", "new_files", "removed_files", "sealed")

    def __init__(self, new_files: Iterable[str] = (), *, new_directory: bool = False) -> None:
        self.sealed: list[Segment] = []
        """Segments that were completed."""
        self.given_up: list[File] = []
        """Files that a flush has begun to read back."""
        self.new_files = list(new_files)
        """Paths of other files."""
        self.new_directory = new_directory
        """Whether the log's directory is new itself."""
        self.removed_files = False
        """Whether files were renamed or removed."""

    def __bool__(self) -> bool:
        return bool(self.sealed or self.new_files or self.new_directory or self.removed_files)

    def forget(self, segment: Segment) -> None:
        """Forget a segment that is removed, or that is written to again."""
        if segment in self.sealed:
            self.sealed.remove(segment)

    def forget_file(self, path: str) -> None:
        """Forget a file that is removed."""
        if path in self.new_files:
            self.new_files.remove(path)

    def take_back(self, other: "Unflushed") -> None:
        """Take back what a flush of ``other`` took: it no longer counts."""
        self.sealed += other.sealed
        for file in other.given_up:
            file.is_given_up = True
        self.new_files += other.new_files
        self.new_directory |= other.new_directory
        self.removed_files |= other.removed_files


class Flush:
    """One flush of one log. ``end_offset`` is the recovery point once the flush is noted."""

    __slots__ = (
        "covered", "descriptors", "disk", "end_offset", "epochs", "folder", "is_void", "parent", "read_backs",
        "size_bytes",
    )  # fmt: skip

    def __init__(self, disk: Disk, end_offset: int, size_bytes: int, covered: Unflushed) -> None:
        self.disk = disk
        self.end_offset = end_offset
        self.size_bytes = size_bytes
        self.covered = covered
        self.descriptors: list[Descriptor] = []
        self.read_backs: list[ReadBack] = []
        self.is_void = False
        """Whether the log was cut in the meantime: its files no longer hold what this flush is about."""
        self.epochs: LogFolder | None = None
        """The log's directory, if its leader epochs are to be written."""
        self.folder: LogFolder | None = None
        """The log's directory, if its names are to be made durable."""
        self.parent = ""
        """The log directory, if the name of the log's directory is to be made durable."""

    def run(self) -> None:
        """Do the flush. OSError if any of it fails. May run in a thread."""
        with failing_for_good():
            self.attempt()

    def attempt(self) -> None:
        """Do the flush, in a thread. After DescriptorsExhausted it may be tried again, after any other OSError not."""
        for descriptor in self.descriptors:
            descriptor.fsync()
        self._read_back()
        if self.epochs is not None:
            self.epochs.write_epochs()
        if self.folder is not None:
            self.folder.synchronize()
        if self.parent:
            self.disk.synchronize_directory(self.parent)

    def confirm(self) -> None:
        """Do the rest of the flush after ``synchronize_all`` did nearly all of it: files and names are on the disk, if
        no write failed."""
        with failing_for_good():
            for descriptor in self.descriptors:
                descriptor.confirm()
            self._read_back()

    def _read_back(self) -> None:
        for each in self.read_backs:
            if not each.is_on_disk() and not self.is_void:
                raise OSError(errno.EIO, "writes were lost without an error", each.path)


class FlushedLog(Protocol):
    """A :class:`~kpystorage.log.Log`, as its flushes see it."""

    active: Segment
    end: LogOffset
    epochs: LeaderEpochs
    flushing: Flush | None
    folder: LogFolder
    recovery_point: int
    segments: list[Segment]
    snapshots: SnapshotFiles
    unflushed: Unflushed
    unflushed_bytes: int

    @property
    def directory(self) -> Home: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def has_unwritten_epochs(self) -> bool: ...
    def finish_flush(self, flush: Flush) -> None: ...


def begin_flush(log: FlushedLog) -> Flush | None:
    """A flush of everything that a log has appended, with the names of its files.

    None while another flush of this log is under way, if there is nothing to do, and in an offline directory.
    """
    if log.directory.failure is not None or log.flushing is not None:
        return None
    if log.recovery_point >= log.end.offset and not log.unflushed and not log.snapshots.unflushed:
        return None
    covered = log.unflushed
    snapshots = [log.snapshots.path(offset) for offset in log.snapshots.unflushed]
    flush = Flush(log.directory.disk, log.end.offset, log.unflushed_bytes, covered)
    with log.directory.failing():
        _add_files(flush, log, snapshots)
    flush.epochs = unwritten_epochs(log)
    if covered or snapshots:
        flush.folder = log.folder
    if covered.new_directory:
        flush.parent = log.directory.path
    log.unflushed = Unflushed()
    log.snapshots.unflushed = []
    log.flushing = flush
    return flush


def unwritten_epochs(log: FlushedLog) -> LogFolder | None:
    """The log's directory, with its leader epochs rendered, if its checkpoint is behind them."""
    folder = log.folder
    if log.epochs.dirty:
        folder.render_epochs(render_epochs(log.epochs.entries()))
        log.epochs.dirty = False
    return folder if folder.is_behind else None


def _add_files(flush: Flush, log: FlushedLog, snapshots: Iterable[str]) -> None:
    """Add everything that is to be flushed, the active segment last. OSError.

    A file known only by its path is open for as long as the flush holds it: no other code would close it.
    """
    covered, active = flush.covered, log.active
    files = [file for segment in covered.sealed for file in segment.files() if file is not active.log]
    flush.descriptors = [file.descriptor() for file in files]
    for path in (*covered.new_files, *snapshots):
        if path != active.log.path:
            flush.descriptors.append(_descriptor_of(log, path))
    flush.descriptors.append(active.log.descriptor())
    for segment in dict.fromkeys((*covered.sealed, active)):
        is_sealed = segment in covered.sealed
        given_up = [file for file in (segment.files() if is_sealed else [segment.log]) if file.is_given_up]
        if given_up:
            flush.read_backs += read_backs(segment, log.recovery_point, sealed=is_sealed)
            covered.given_up += given_up


def _descriptor_of(log: FlushedLog, path: str) -> Descriptor:
    """The descriptor that was written through, where there is one."""
    base_offset, suffix = names.parse_segment_file(path.rpartition("/")[2]) or (-1, "")
    for segment in log.segments if suffix in names.SEGMENT_FILES else ():
        if segment.base_offset == base_offset:
            for own in segment.files():
                if own.path == path:
                    return own.descriptor()
    file = log.directory.disk.file(path)
    descriptor = file.descriptor()
    file.release()
    return descriptor


def take_back(log: FlushedLog, flush: Flush) -> None:
    """Have the log's next flush do again what a thread is still at, or what a flush that is given up has not done."""
    log.unflushed.take_back(flush.covered)
    flush.covered, flush.size_bytes = Unflushed(), 0


def end_flush(log: FlushedLog, flush: Flush, error: BaseException | None) -> None:
    """Note that the thread of a flush is done with it. DiskFailure if it failed."""
    if error is not None:
        flush.is_void = True
        if log.is_open:
            take_back(log, flush)
    log.finish_flush(flush)
    if isinstance(error, OSError):
        raise log.directory.fail(error) from error


def give_up_flush(log: FlushedLog) -> None:
    """Forget the flush that is under way, since no thread is at it any more."""
    if log.flushing is not None:
        take_back(log, log.flushing)
        log.flushing = None


def flush_at_once(log: FlushedLog) -> None:
    """Flush everything that a log has appended, also while a thread is at it, with less. DiskFailure."""
    if log.directory.failure is not None:
        raise log.directory.offline()
    under_way, log.flushing = log.flushing, None
    try:
        if under_way is not None:
            take_back(log, under_way)
        flush = begin_flush(log)
        if flush is not None:
            with log.directory.failing():
                flush.run()
            log.finish_flush(flush)
    finally:
        log.flushing = under_way  # until its thread is done


def begin_flush_of_epochs(log: FlushedLog) -> Flush | None:
    """A flush of a log's leader epochs alone: where they are on disk, beginning a segment waits for no disk.

    None while another flush of this log is under way, if they are on disk already, and in an offline directory.
    """
    if log.directory.failure is not None or log.flushing is not None or not log.has_unwritten_epochs:
        return None
    flush = Flush(log.directory.disk, log.recovery_point, 0, Unflushed())
    flush.epochs = unwritten_epochs(log)
    log.flushing = flush
    return flush
