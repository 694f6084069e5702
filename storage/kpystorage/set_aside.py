"""Taking a log's segments off the disk: their files are renamed at once and removed ``file.delete.delay.ms`` later.

Slices that are still held stay valid, whatever happens to the names. Invariant: a file with the suffix ``.deleted``
is never read again, so that a stop at any point leaves either a segment or files that the next start removes.
"""

from collections.abc import Iterable
from typing import Protocol

from kpystorage import names
from kpystorage.flush import FlushedLog
from kpystorage.log_config import LogConfig
from kpystorage.segment import Segment


class CutLog(FlushedLog, Protocol):
    """A :class:`~kpystorage.log.Log`, as the code that shortens it sees it."""

    base_offsets: list[int]
    config: LogConfig

    def roll(self, now_ms: int) -> Segment: ...
    def advance_log_start(self, offset: int) -> bool: ...
    def write_epochs(self) -> None: ...


def set_aside(log: CutLog, segments: Iterable[Segment], now_ms: int, *, kept_snapshots: Iterable[int] = ()) -> None:
    """Rename the files of segments to be removed, in the order given, each with its producer snapshot. OSError.

    Snapshots at ``kept_snapshots`` stay. The caller has to change the list of segments.
    """
    kept = frozenset(kept_snapshots)
    log.unflushed.removed_files = True
    pending = [log.unflushed] if log.flushing is None else [log.unflushed, log.flushing.covered]
    due_ms = now_ms + log.config.file_delete_delay_ms
    for segment in segments:
        paths = [file.path for file in segment.files()]
        segment.release()
        if segment.base_offset in log.snapshots.offsets and segment.base_offset not in kept:
            paths.append(log.snapshots.path(segment.base_offset))
            log.snapshots.forget(segment.base_offset)
        for path in paths:
            log.directory.disk.rename(path, path + names.DELETED)
            log.directory.delete_later(log.folder, path.rpartition("/")[2] + names.DELETED, due_ms)
        for unflushed in pending:
            for path in paths:
                unflushed.forget_file(path)
            unflushed.forget(segment)


def set_aside_oldest(log: CutLog, count: int, now_ms: int) -> None:
    """Set aside the ``count`` oldest segments, all of them if need be: the log then begins behind them, where no part
    of it is kept elsewhere. OSError."""
    if count == len(log.segments):
        log.roll(now_ms)
    if count:
        if log.config.is_tiered:
            log.write_epochs()  # no batch on this disk tells them any more
        else:
            log.advance_log_start(log.segments[count].base_offset)
        set_aside(log, log.segments[:count], now_ms)
        del log.segments[:count], log.base_offsets[:count]
