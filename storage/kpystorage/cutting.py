"""A log loses its end, or everything on its disk (`kpystorage.log` says what for; this is how).

A log may begin in a store (KIP-405). Of what is only there the log knows where it begins, its leader epochs, and the
producers of its end. These are durable before the segment that follows it, and that is durable before the log is used.
So a crash in between leaves the old log, the new one, or one that is empty at its log start, from where a follower
begins again.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kpystorage import names, producer_snapshot
from kpystorage.checkpoint import render_epochs
from kpystorage.leader_epochs import Epochs, LeaderEpochs
from kpystorage.log_offset import LogOffset
from kpystorage.recovery import LogLoader, Shutdown
from kpystorage.segment import Segment
from kpystorage.set_aside import set_aside

if TYPE_CHECKING:
    from kpystorage.log import Log


def truncate_to(log: "Log", offset: int, now_ms: int) -> None:
    """Remove every batch that reaches ``offset`` or beyond, which is below the log's end. OSError."""
    if offset < log.base_offsets[0]:
        start_at(log, offset, now_ms)
        log.epochs.truncate_from_end(offset)
        log.log_start_offset = min(log.log_start_offset, offset)
        if log.log_start_offset < offset:
            log.folder.synchronize()
        return
    segment = log.segments[bisect_right(log.base_offsets, offset) - 1]
    found = segment.find(offset, segment.size)
    if found is not None:
        offset = min(offset, found[1].base_offset)
    log.forget_flushed(offset)
    log.snapshots.drop_outside(-1, offset)  # first: a replay has to begin below whatever else is missing
    while log.segments[-1].base_offset > offset:
        set_aside(log, [log.segments.pop()], now_ms)
        log.base_offsets.pop()
    log.active = segment = log.segments[-1]
    segment.truncate_to(offset, now_ms)
    log.unflushed.forget(segment)
    end_offset = segment.next_offset()
    log.epochs.truncate_from_end(end_offset)
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.end = LogOffset(end_offset, segment.base_offset, segment.size)
    loader = LogLoader(log.directory.disk, log.path, log.config, now_ms, log.directory.report)
    loader.take_over(log.segments, log.snapshots, log.epochs)
    log.producers = loader.producers_at(log.log_start_offset, end_offset, Shutdown.UNCLEAN)
    log.take_snapshot()


def start_at(log: "Log", offset: int, now_ms: int) -> None:
    """Remove everything and go on, empty, at ``offset``. Log start and epochs are the caller's. OSError."""
    _clear(log, offset, now_ms)
    _go_on_at(log, offset, now_ms)


def start_over(log: "Log", offset: int, log_start_offset: int, now_ms: int) -> None:
    """Remove everything and go on, empty, at ``offset`` and without epochs. OSError, DiskFailure."""
    if log.config.is_tiered:  # after a crash, an older log start would stand for records that a store has
        begin_in_middle(log, offset, log_start_offset, (), None, now_ms)
        return
    start_at(log, offset, now_ms)
    log.epochs.clear()
    log.log_start_offset = log_start_offset


def begin_in_middle(
    log: "Log", offset: int, log_start_offset: int, epochs: Epochs, snapshot: bytes | None, now_ms: int
) -> None:
    """Remove everything and go on at ``offset`` as a log that began at ``log_start_offset``: durably, unless a crash
    can only leave an empty log again. OSError, DiskFailure; CorruptFile before anything is done."""
    path = log.snapshots.path(offset)
    producers = [] if snapshot is None else producer_snapshot.parse(snapshot, path)
    kept = _epochs_before(offset, log_start_offset, epochs)
    had_records = log.size > 0
    _clear(log, min(log.log_start_offset, log_start_offset), now_ms)
    log.epochs, kept.dirty = kept, True
    log.write_epochs()
    if snapshot is not None:
        log.snapshots.keep(offset, snapshot)
    noted = max(log.log_start_offset, log.directory.log_starts.get((log.topic, log.partition), 0))
    is_known_by_epochs = kept.earliest is not None and kept.earliest[1] == log_start_offset >= noted
    log.log_start_offset = log_start_offset
    if had_records or not is_known_by_epochs:
        log.directory.write_checkpoint(names.LOG_STARTS, log.directory.render_log_starts())
        log.directory.noted()
    _go_on_at(log, offset, now_ms)
    if had_records:
        log.folder.synchronize()
        log.recovery_point = offset
    else:  # a crash before the next flush leaves an empty log again
        log.directory.rolled[log] = None
    log.producers.load(producers, offset)
    log.producers.expire(now_ms, log.config.producer_id_expiration_ms)


class Preparation(NamedTuple):
    """The part of `begin_in_middle` that waits for a disk, of a log without records: its epochs and its producers."""

    log: "Log"
    offset: int
    snapshot: bytes | None

    def run(self) -> None:
        """Write them, in a thread, before the log begins there. An empty log ignores them after a crash. OSError."""
        folder = self.log.folder
        if self.snapshot is not None:
            folder.write(names.segment_file(self.offset, names.PRODUCER_SNAPSHOT), self.snapshot)
        folder.write_epochs()
        folder.synchronize()

    def give_up(self) -> None:
        """Remove them, as the log does not begin there after all. OSError."""
        if self.log.is_open and self.offset not in self.log.snapshots.offsets:
            self.log.folder.unlink(names.segment_file(self.offset, names.PRODUCER_SNAPSHOT))


def preparation(
    log: "Log", offset: int, log_start_offset: int, epochs: Epochs, snapshot: bytes | None
) -> Preparation | None:
    """The preparation of `begin_in_middle`; None for a log that has records, since these are not their epochs."""
    if log.size > 0:
        return None
    log.folder.render_epochs(render_epochs(_epochs_before(offset, log_start_offset, epochs).entries()))
    log.epochs.dirty = True  # as the file is about to have others, if the log does not begin there after all
    return Preparation(log, offset, snapshot)


def _epochs_before(offset: int, log_start_offset: int, epochs: Epochs) -> LeaderEpochs:
    kept = LeaderEpochs(epochs)
    kept.truncate_from_end(offset)
    kept.truncate_from_start(log_start_offset)
    return kept


def durably_followed(log: "Log", count: int) -> int:
    """How many of the ``count`` oldest segments have a successor on the disk that survives a crash.

    Without a segment a log begins at its log start. It would give offsets again that the store has already.
    """
    count = wanted = min(count, len(log.segments) - 1)
    pending = [log.unflushed] if log.flushing is None else [log.unflushed, log.flushing.covered]
    is_settled = not any(each.new_files or each.new_directory for each in pending)
    flushed_to = log.recovery_point + is_settled  # a segment that begins at the recovery point may be younger
    while count > 0 and log.base_offsets[count] >= flushed_to:
        count -= 1
    if count < wanted:
        log.directory.rolled[log] = None
    return count


def begin_as(copy: "Log", source: "Log", now_ms: int) -> None:
    """Make a copy begin, empty, where its log begins on the disk. DiskFailure."""
    first = source.base_offsets[0]
    if source.log_start_offset >= first:
        copy.truncate_fully_and_start_at(first, now_ms)
        return
    with source.directory.failing():
        snapshot = source.snapshots.content(first)
    copy.begin_in_middle(first, source.log_start_offset, source.epochs.entries(), snapshot, now_ms)


def _clear(log: "Log", flushed_to: int, now_ms: int) -> None:
    log.forget_flushed(flushed_to)
    set_aside(log, log.segments[::-1], now_ms)
    log.snapshots.drop_outside(-1, -1)


def _go_on_at(log: "Log", offset: int, now_ms: int) -> None:
    log.active = segment = Segment.create(log.directory.disk, log.path, offset, now_ms, log.config)
    log.unflushed.new_files.append(segment.log.path)
    log.segments[:] = [segment]
    log.base_offsets[:] = [offset]
    log.producers.clear(offset)
    log.end = LogOffset(offset, offset, 0)
