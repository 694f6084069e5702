"""A log on this disk as tiering sees it: what decisions need to know, and the files of a segment that is copied."""

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles
from kpybroker.machines.partition.role import Role
from kpybroker.machines.remote_log.local_log import UNBOUNDED, BlockingTransaction, LocalLog, LocalSegment
from kpystorage import producer_snapshot, scan
from kpystorage.checkpoint import render_epochs
from kpystorage.control_batches import apply_producer
from kpystorage.errors import CorruptFile, CorruptRecord
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log import Log
from kpystorage.log_offset import LogOffset
from kpystorage.log_slice import LogSlice
from kpystorage.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from kpystorage.producer_states import ProducerStates
from kpystorage.segment import Segment
from kpystorage.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from kpywire.batch import NO_PRODUCER_ID

SNAPSHOTS_TRIED: Final = 2
"""The producer snapshots that are tried, the latest first, where some are damaged."""


def local_log(log: Log, role: Role) -> LocalLog:
    """The log at this moment. DiskFailure."""
    with log.directory.failing():
        segments = [LocalSegment(each.base_offset, each.size, each.largest_timestamp) for each in log.segments]
    return LocalLog(
        segments=segments,
        log_start_offset=log.log_start_offset,
        local_log_start_offset=log.local_log_start_offset,
        end_offset=log.end.offset,
        high_watermark=role.high_watermark.offset,
        last_stable_offset=role.last_stable_offset().offset,
        epochs=log.epochs.entries(),
        transaction=_blocking_transaction(log),
        clean_until=_clean_until(log),
    )


def _clean_until(log: Log) -> int:
    """The offset that the last pass of the cleaner reached."""
    if not log.config.cleanup_compact:
        return UNBOUNDED
    return log.directory.cleaner_offsets.get((log.topic, log.partition), 0)


def _blocking_transaction(log: Log) -> BlockingTransaction | None:
    """The oldest open transaction, unless an older one that has ended is not replicated yet."""
    unstable = log.producers.first_unstable
    opened = log.producers.open_transactions() if unstable is not None else []
    if unstable is None or not opened or opened[0][1] != unstable.offset:
        return None
    return BlockingTransaction(*opened[0][:2])


def has_aborted_transactions(log: Log, base_offset: int) -> bool:
    """Whether the transaction index of a closed segment has entries. DiskFailure."""
    with log.directory.failing():
        index = _closed(log, base_offset)[0].transaction_index
        return next(index.entries(), None) is not None


class ClosedSegment(NamedTuple):
    """The files of a closed segment, open: they may be read in a thread, whatever becomes of their names."""

    path: str
    next_offset: int
    log: LogSlice
    offset_index: LogSlice
    time_index: LogSlice
    transaction_index: LogSlice | None
    leader_epochs: bytes
    log_start_offset: int
    snapshots: list[tuple[int, LogSlice]]
    """Producer snapshots by their offset, the latest first; normally the first is that of ``next_offset``."""
    replayed: list[tuple[int, LogSlice]]
    """The segments by base offset that are replayed behind the last of ``snapshots``."""

    def files(self) -> ClosedSegmentFiles:
        """The contents of the files, as a store gets them. Runs in a thread. OSError, Malformed."""
        return ClosedSegmentFiles(
            log=self.log,
            offset_index=self.offset_index.read(),
            time_index=self.time_index.read(),
            transaction_index=None if self.transaction_index is None else self.transaction_index.read(),
            producer_snapshot=self._producer_snapshot(),
            leader_epochs=self.leader_epochs,
        )

    def _producer_snapshot(self) -> bytes:
        """The producers at the segment's end: the file, or a new one where recovery has removed it."""
        producers = ProducerStates(self.path, self.log_start_offset)
        for offset, file in self.snapshots:
            data = file.read()
            try:
                entries = producer_snapshot.parse(data, self.path)
            except CorruptFile:
                continue
            if offset == self.next_offset:
                return data
            producers.load(entries, offset)
            break
        for base_offset, segment in self.replayed:
            _replay(producers, base_offset, segment)
        return producer_snapshot.render(producers.snapshot())


def _replay(producers: ProducerStates, base_offset: int, segment: LogSlice) -> None:
    for at, header in scan.headers(segment.descriptor, 0, segment.length):
        if header.producer_id == NO_PRODUCER_ID or header.base_offset < producers.end_offset:
            continue
        data = segment.descriptor.pread(header.size, at) if header.is_control else b""
        ended = apply_producer(producers, header, data, 0, LogOffset(header.base_offset, base_offset, at))
        if ended is not None:
            producers.complete(ended)


def closed_segment(log: Log, base_offset: int) -> ClosedSegment:
    """Open the files of the closed segment at ``base_offset``, with complete indexes.

    Raises:
        ValueError: no closed segment begins there.
        CorruptRecord: the file does not end with its last batch; what is behind that would not be readable.
        DiskFailure: a file cannot be opened.
    """
    with log.directory.failing():
        segment, next_offset = _closed(log, base_offset)
        end = segment.tail()[1]
        if end != segment.size:
            raise CorruptRecord(f"{segment.log.path}, byte {end}: no batch begins here, though the segment goes on")
        segment.settle_indexes()
        aborted = segment.transaction_index.file
        snapshots = [each for each in log.snapshots.offsets if log.log_start_offset < each <= next_offset]
        snapshots = snapshots[: -SNAPSHOTS_TRIED - 1 : -1]
        return ClosedSegment(
            path=log.path,
            next_offset=next_offset,
            log=_whole(segment),
            offset_index=LogSlice(
                segment.offset_index.file.descriptor(), 0, len(segment.offset_index) * OFFSET_ENTRY_BYTES
            ),
            time_index=LogSlice(segment.time_index.file.descriptor(), 0, len(segment.time_index) * TIME_ENTRY_BYTES),
            transaction_index=(
                LogSlice(aborted.descriptor(), 0, aborted.size()) if aborted is not None and aborted.size() else None
            ),
            leader_epochs=_epochs_until(log, next_offset),
            log_start_offset=log.log_start_offset,
            snapshots=[(offset, _snapshot_file(log, offset)) for offset in snapshots],
            replayed=[
                (each.base_offset, _whole(each))
                for each in _replayed(log, snapshots[-1] if snapshots else 0, next_offset)
            ],
        )


def _closed(log: Log, base_offset: int) -> tuple[Segment, int]:
    """(the segment, the base offset of the next one)."""
    at = bisect_left(log.base_offsets, base_offset)
    if at >= len(log.segments) - 1 or log.base_offsets[at] != base_offset:
        raise ValueError(f"{log.name} has no closed segment that begins at offset {base_offset}")
    return log.segments[at], log.base_offsets[at + 1]


def _replayed(log: Log, offset: int, next_offset: int) -> list[Segment]:
    first = max(bisect_right(log.base_offsets, offset) - 1, 0)
    return log.segments[first : bisect_left(log.base_offsets, next_offset)]


def _whole(segment: Segment) -> LogSlice:
    return LogSlice(segment.log.descriptor(), 0, segment.size)


def _snapshot_file(log: Log, offset: int) -> LogSlice:
    file = log.directory.disk.file(log.snapshots.path(offset))
    size, descriptor = file.size(), file.descriptor()
    file.release()
    return LogSlice(descriptor, 0, size)


def _epochs_until(log: Log, next_offset: int) -> bytes:
    """The text of leader-epoch-checkpoint, from the log's start up to an offset."""
    epochs = LeaderEpochs(log.epochs.entries())
    epochs.truncate_from_end(next_offset)
    return render_epochs(epochs.entries())
