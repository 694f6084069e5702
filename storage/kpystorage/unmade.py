"""A log whose files are not made yet, since it begins behind what a store has and has no record on this disk.

A node whose disk was lost leads thousands of such logs, and each is a directory with six files that have to be durable
before its first record. Until then it answers for its offsets, epochs and producers. An append is refused (`NotMade`),
and asks for the files: a thread makes them in a directory whose name marks it for removal, which is renamed then.

Invariant: either none of a log's files is on the disk or all are, its epochs and producers durably. A crash before
leaves no log; where it begins is found in the store again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kpystorage import names, partition_metadata, producer_snapshot
from kpystorage.checkpoint import render_epochs
from kpystorage.errors import NotMade
from kpystorage.file import Descriptor
from kpystorage.leader_epochs import Epochs, LeaderEpochs
from kpystorage.log import Log
from kpystorage.producer_states import ProducerStates
from kpystorage.recovery import LoadedLog
from kpystorage.segment import Segment
from kpystorage.snapshot_files import SnapshotFiles
from kpywire.varint import Buffer

if TYPE_CHECKING:
    from kpystorage.directory import LogDirectory

EMPTY_FILES: Final = (names.OFFSET_INDEX, names.TIME_INDEX, names.LOG)


class LogStart(NamedTuple):
    """The place where a log begins: its end, the start that readers see, and the epochs and producers before it."""

    offset: int
    log_start_offset: int
    epochs: Epochs
    producer_snapshot: bytes | None


class AbsentFile:
    """A file that is not made yet. It is empty, and refuses what needs it on the disk."""

    is_given_up = False

    def __init__(self, path: str, need: Callable[[], object]) -> None:
        self.path = path
        self._need = need

    def _refusal(self) -> NotMade:
        self._need()
        return NotMade(f"{self.path} is being made, since its disk was lost")

    def descriptor(self) -> Descriptor:
        raise self._refusal()

    def pread(self, length: int, position: int) -> bytes:  # noqa: ARG002
        return b""

    def pwrite(self, data: Buffer, position: int) -> None:  # noqa: ARG002
        raise self._refusal()

    def size(self) -> int:
        return 0

    def truncate(self, length: int) -> None:  # noqa: ARG002
        raise self._refusal()

    def reserve(self, length: int) -> None:  # noqa: ARG002
        return  # it is when the file is made

    def fsync(self) -> None:
        raise self._refusal()

    def release(self) -> None: ...


def begin_unmade(log: Log, start: LogStart, now_ms: int, need: Callable[[], object]) -> None:
    """Make a new log begin without files. ``need`` is called by every use that needs them. CorruptFile."""
    disk, config = log.directory.disk, log.config
    stem = f"{log.path}/{names.segment_file(start.offset, names.LOG)}"
    segment = Segment.of_empty_files(disk, log.path, start.offset, now_ms, config, AbsentFile(stem, need))
    producers, snapshots = ProducerStates(log.name, start.offset), SnapshotFiles(disk, log.path)
    if start.producer_snapshot is not None:
        producers.load(producer_snapshot.parse(start.producer_snapshot, snapshots.path(start.offset)), start.offset)
        producers.expire(now_ms, config.producer_id_expiration_ms)
    epochs = LeaderEpochs(start.epochs)
    epochs.truncate_from_end(start.offset)
    epochs.truncate_from_start(start.log_start_offset)
    log.adopt(
        LoadedLog(
            segments=[segment],
            log_start_offset=start.log_start_offset,
            end_offset=start.offset,
            recovery_point=0,
            epochs=epochs,
            producers=producers,
            snapshots=snapshots,
            new_files=[],
            new_directory=True,
            is_complete=False,
        )
    )
    log.need_files = need


class Making(NamedTuple):
    """The files of one log, as they are made in a thread."""

    directory: "LogDirectory"
    name: str
    topic_id: bytes
    start_offset: int
    epochs: bytes
    producers: bytes

    def run(self) -> None:
        """Make them under the marked name. DiskFailure."""
        path, disk = f"{self.directory.path}/{self.name}", self.directory.disk
        with self.directory.failing():
            disk.make_directory(path)
            self.directory.names_changed()
            metadata = partition_metadata.render(self.topic_id)
            disk.write(f"{path}/{names.PARTITION_METADATA}", metadata, synchronize=False)
            snapshot = names.segment_file(self.start_offset, names.PRODUCER_SNAPSHOT)
            disk.write(f"{path}/{snapshot}", self.producers, synchronize=True)
            disk.write(f"{path}/{names.LEADER_EPOCHS}", self.epochs, synchronize=True)
            for suffix in EMPTY_FILES:
                disk.write(f"{path}/{names.segment_file(self.start_offset, suffix)}", b"", synchronize=False)
            disk.synchronize_directory(path)


def making(log: Log) -> Making:
    """Begin to make the files of a log."""
    epochs = LeaderEpochs(log.epochs.entries())
    epochs.truncate_from_end(log.end.offset)  # the leader's own has no record
    directory = log.directory
    assert log.topic_id is not None
    return Making(
        directory,
        directory.name_blank(log.topic, log.partition),
        log.topic_id,
        log.end.offset,
        render_epochs(epochs.entries()),
        producer_snapshot.render(log.producers.snapshot()),
    )


def finish(log: Log, made: Making, now_ms: int) -> None:
    """Give a log the files that a thread has made. DiskFailure."""
    offset, directory = log.end.offset, log.directory
    directory.take_files(log, made.name)
    with directory.failing():
        segment = Segment.of_empty_files(directory.disk, log.path, offset, now_ms, log.config)
    segment.jitter_ms = log.active.jitter_ms
    log.active, log.segments[:] = segment, [segment]
    log.snapshots.offsets, log.snapshots.unflushed = [offset], [offset]
    log.unflushed.new_files += [f"{log.path}/{names.PARTITION_METADATA}", segment.log.path]
    log.epochs.dirty = True  # the leader's own epoch is not in the file
    log.need_files = None
    directory.rolled[log] = None  # a crash before the next flush leaves no log again
