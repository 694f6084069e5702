"""A read-only view of a log directory, for readers that share no process with the broker that owns it.

No lock is taken, no session is begun, and nothing on the disk is made or changed. The broker may append, roll, compact,
delete and cut meanwhile; so a view believes neither an index nor a length, and compares every batch with its checksum.

Not here: the records inside of batches, and who may read them.

Invariants: of the disk only names, states and bytes are asked. Batches come whole, their last offsets ascend, and all
lie below the end that was asked for.
"""

import errno
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, Self

from kpystorage import checkpoint, names, producer_snapshot, scan
from kpystorage.control_batches import apply_producer
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile, CorruptRecord, OffsetOutOfRange
from kpystorage.listing import TopicPartition, list_logs
from kpystorage.log_offset import LogOffset
from kpystorage.offset_index import position_near
from kpystorage.producer_states import ProducerStates
from kpystorage.transaction_index import TransactionIndex, TransactionIndexEntry
from kpywire.batch import CONTROL_MASK, NO_PRODUCER_ID, TRANSACTIONAL_MASK, BatchHeader, check_crc
from kpywire.errors import Malformed

ATTEMPTS = 10
"""The most times that a segment may vanish between a look at the names and its opening."""
_END_OF_ALL = (1 << 63) - 1


class StoredBatch(NamedTuple):
    """A batch and all its bytes, which stay valid as long as they are held."""

    header: BatchHeader
    data: memoryview


class SegmentName(NamedTuple):
    """A segment of a log, by the name that its file has now."""

    base_offset: int
    path: str
    next_base_offset: int | None
    """The offset where the next segment begins; None for the active one."""


class DirectoryView:
    """A log directory, as its files are when they are asked for."""

    def __init__(self, disk: Disk, path: str) -> None:
        """``disk`` may be a `kpystorage.reading_disk.ReadingDisk`, which needs no permission to write."""
        self._disk = disk
        self.path = path.rstrip("/") or "/"

    def partitions(self) -> list[TopicPartition]:
        """The partitions with a log here. Copies, strays and deleted ones are none. May raise OSError."""
        return list_logs(self._disk, self.path).logs

    def log(self, topic: str, partition: int) -> "ReadableLog":
        """The log of a partition, with the checkpoints as they are now.

        Raises:
            FileNotFoundError: it has no log here.
            CorruptFile: a checkpoint is malformed.
        """
        path = self._file(names.partition_directory(topic, partition))
        status = self._disk.status(path)
        if status is None or not status.is_directory:
            raise FileNotFoundError(f"{path}: no such log")
        key = topic, partition
        log_start = checkpoint.read_offsets(self._disk, self._file(names.LOG_STARTS)).get(key, 0)
        high_watermark = checkpoint.read_offsets(self._disk, self._file(names.HIGH_WATERMARKS)).get(key)
        return ReadableLog(self._disk, path, log_start, high_watermark)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"


class ReadableLog:
    """The log in one partition's directory."""

    def __init__(self, disk: Disk, path: str, log_start_offset: int = 0, high_watermark: int | None = None) -> None:
        """The offsets are those of the directory's checkpoints; the high watermark is None if it has none."""
        self._disk = disk
        self._log_start_offset = log_start_offset
        self.path = path
        self.high_watermark = high_watermark

    @property
    def start_offset(self) -> int:
        """The first offset that may be read. May raise OSError."""
        return max(self._log_start_offset, *self._list().base_offsets[:1])

    def segments(self) -> list[SegmentName]:
        """The segments in their order. May raise OSError; FileNotFoundError if there are none."""
        found = self._list()
        following = [*found.base_offsets[1:], None]
        return [
            SegmentName(base, f"{self.path}/{found.logs[base]}", behind)
            for base, behind in zip(found.base_offsets, following, strict=True)
        ]

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last whole batch. May raise OSError."""
        for _ in range(ATTEMPTS):
            segments = self._list()
            try:
                with _Segment(self._disk, self.path, segments.logs[segments.base_offsets[-1]]) as segment:
                    return segment.next_offset()
            except FileNotFoundError:
                continue
        raise self._restless()

    @property
    def end_offset(self) -> int:
        """The default end of reads: the high watermark, or the log end if that is lower or no checkpoint has one."""
        log_end_offset = self.log_end_offset
        return log_end_offset if self.high_watermark is None else min(self.high_watermark, log_end_offset)

    def batches(self, offset: int, end_offset: int | None = None, *, committed: bool = False) -> Iterator[StoredBatch]:
        """The batches from the one that holds ``offset`` on. Those that reach ``end_offset`` or beyond are left out.

        Without an end it is `end_offset`. With ``committed``, the batches are those of a reader of committed records:
        they end at the last stable offset; those of aborted transactions, and all control batches, are left out.
        Offsets that no batch has are no error, since compaction leaves gaps.

        Raises:
            OffsetOutOfRange: ``offset`` is below the start or above the log end, or what follows was deleted meanwhile.
            CorruptRecord: a batch below the end is damaged.
            CorruptFile: a transaction index has an unknown format.
            OSError: a file cannot be read.
        """
        start_offset, log_end_offset = self.start_offset, self.log_end_offset
        if not start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRange(f"offset {offset} of {self.path} is not in {start_offset} to {log_end_offset}")
        end_offset = self.end_offset if end_offset is None else min(end_offset, log_end_offset)
        return self._committed(offset, end_offset) if committed else self._walk(offset, end_offset)

    def transactions(self, offset: int, end_offset: int) -> "StretchTransactions":
        """The transactions that a reader of ``offset .. end_offset`` has to know. It raises what `batches` raises.

        The batches behind the last producer snapshot are read: an abort may be in the log and not yet in its index.
        """
        producers = self._producers_at(end_offset)
        aborted = self._indexed_aborts(offset, end_offset)
        for header, data in self._walk(producers.end_offset, end_offset):
            if header.producer_id == NO_PRODUCER_ID:
                continue
            try:
                ended = apply_producer(producers, header, data, 0, LogOffset(header.base_offset))
            except Malformed as error:
                raise CorruptRecord(f"{self.path}: {error}") from error
            if ended is not None:
                if not ended.committed and ended.last_offset >= offset:
                    stable = producers.last_stable_offset_after(ended)
                    aborted.add(TransactionIndexEntry(ended.producer_id, ended.first_offset, ended.last_offset, stable))
                producers.complete(ended)
        producers.replicated_to(end_offset)
        unstable = producers.first_unstable
        stable_offset = end_offset if unstable is None else max(unstable.offset, self.start_offset)
        return StretchTransactions(min(stable_offset, end_offset), sorted(aborted, key=_marker_offset))

    # Walking.

    def _walk(self, offset: int, end_offset: int) -> Iterator[StoredBatch]:
        segments, attempts = self._list(), 0
        while offset < end_offset:
            number = bisect_right(segments.base_offsets, offset) - 1
            if number < 0:
                first = segments.base_offsets[0]
                raise OffsetOutOfRange(f"offset {offset} of {self.path} was deleted; the log begins at {first}")
            base_offset = segments.base_offsets[number]
            following = segments.base_offsets[number + 1] if number + 1 < len(segments.base_offsets) else None
            try:
                segment = _Segment(self._disk, self.path, segments.logs[base_offset])
            except FileNotFoundError:
                segments, attempts = self._list(), attempts + 1
                if attempts == ATTEMPTS:
                    raise self._restless() from None
                continue
            with segment:
                for batch in segment.batches(offset, is_sealed=following is not None):
                    if batch.header.next_offset > end_offset:
                        return
                    yield batch
                    offset = batch.header.next_offset
            if following is None:
                break
            offset, attempts = max(offset, following), 0

        if offset < end_offset <= self.log_end_offset:  # else it was cut meanwhile
            raise CorruptRecord(f"{self.path}: no batch begins at offset {offset}, though the log goes on")

    def _committed(self, offset: int, end_offset: int) -> Iterator[StoredBatch]:
        stable_offset, aborted = self.transactions(offset, end_offset)
        spans: dict[int, list[TransactionIndexEntry]] = {}
        for each in aborted:
            spans.setdefault(each.producer_id, []).append(each)
        for batch in self._walk(offset, stable_offset):
            attributes, base_offset = batch.header.attributes, batch.header.base_offset
            if attributes & CONTROL_MASK:
                continue
            if attributes & TRANSACTIONAL_MASK and any(
                each.first_offset <= base_offset <= each.last_offset for each in spans.get(batch.header.producer_id, ())
            ):
                continue
            yield batch

    # Files.

    def _list(self) -> "_Segments":
        """The segments by their names, which are asked for until two answers agree: files may be renamed meanwhile."""
        listed = sorted(self._disk.list_directory(self.path))
        for _ in range(ATTEMPTS):
            again = sorted(self._disk.list_directory(self.path))
            if again == listed:
                return _segments(self.path, listed)
            listed = again
        raise self._restless()

    def _restless(self) -> OSError:
        return OSError(errno.EAGAIN, "the segments change faster than they can be opened", self.path)

    def _producers_at(self, end_offset: int) -> ProducerStates:
        """The producers of the last snapshot that is valid and not behind ``end_offset``; none at the first segment."""
        first_offset = self._list().base_offsets[0]
        producers = ProducerStates(self.path, first_offset)
        for name in sorted(self._disk.list_directory(self.path), reverse=True):
            parsed = names.parse_segment_file(name)
            if parsed is not None and parsed[1] == names.PRODUCER_SNAPSHOT and first_offset <= parsed[0] <= end_offset:
                path = f"{self.path}/{name}"
                with suppress(FileNotFoundError, CorruptFile):
                    producers.load(producer_snapshot.parse(self._disk.read(path), path), parsed[0])
                    return producers
        return producers

    def _indexed_aborts(self, offset: int, end_offset: int) -> set[TransactionIndexEntry]:
        """The aborted transactions with records in ``offset .. end_offset``, as far as the indexes have them."""
        found: set[TransactionIndexEntry] = set()
        segments = self._list()
        for base_offset in segments.base_offsets[max(bisect_right(segments.base_offsets, offset) - 1, 0) :]:
            name = segments.transaction_indexes.get(base_offset)
            if name is None:
                continue
            with suppress(FileNotFoundError):  # it was deleted with the records that it is about
                overlapping, complete = TransactionIndex(self._disk, f"{self.path}/{name}", exists=True).overlapping(
                    offset, end_offset
                )
                found.update(overlapping)
                if complete:
                    break
        return found


class StretchTransactions(NamedTuple):
    """The transactions in a stretch of a log: up to where all of them have ended, and which of them were aborted."""

    last_stable_offset: int
    aborted: list[TransactionIndexEntry]
    """In the order of their markers."""


def _marker_offset(aborted: TransactionIndexEntry) -> int:
    return aborted.last_offset


class _Segments(NamedTuple):
    """The segments of a log: names of files by base offset."""

    base_offsets: list[int]
    logs: dict[int, str]
    transaction_indexes: dict[int, str]


def _segments(path: str, listed: list[str]) -> _Segments:
    """The segments by the names in a directory. FileNotFoundError if there are none.

    A compacted segment (``.swap``) counts where the one that it replaces has gone already.
    """
    files: dict[str, dict[int, str]] = {names.LOG: {}, names.TRANSACTION_INDEX: {}}
    temporary = [(name, parsed) for name in listed if (parsed := names.parse_temporary_file(name)) is not None]
    first_cleaned = min((offset for _, (offset, _, mark) in temporary if mark == names.CLEANED), default=None)
    for name, (offset, suffix, mark) in temporary:
        if mark == names.SWAP and suffix in files and (first_cleaned is None or offset < first_cleaned):
            files[suffix][offset] = name
    for name in listed:
        found = names.parse_segment_file(name)
        if found is not None and found[1] in files:
            files[found[1]][found[0]] = name
    logs = files[names.LOG]
    if not logs:
        raise FileNotFoundError(errno.ENOENT, "no segments", path)
    return _Segments(sorted(logs), logs, files[names.TRANSACTION_INDEX])


class _Segment:
    """An open segment, which can be read whatever becomes of its name."""

    def __init__(self, disk: Disk, directory: str, name: str) -> None:
        """FileNotFoundError: it is gone."""
        self._path = f"{directory}/{name}"
        self._file = disk.file(self._path)
        self._log = self._file.descriptor()
        self._index = disk.file(self._path.replace(names.LOG, names.OFFSET_INDEX))
        self._base_offset = int(name.partition(".")[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.release()

    def batches(self, offset: int, *, is_sealed: bool) -> Iterator[StoredBatch]:
        """The batches that reach ``offset`` or beyond, up to the end of the file. CorruptRecord, OSError.

        Behind the last batch of the active segment there may be a piece of the next one, or space for it.
        """
        size = self._file.size()
        end = self._position_of(offset, size)
        for position, header, data in scan.batches(self._log, end, size):
            end = position + header.size
            if header.next_offset <= offset:
                continue
            if not check_crc(data, header):
                what = f"the batch of offsets {header.base_offset} to {header.last_offset} is damaged"
                raise CorruptRecord(f"{self._path}, byte {position}: {what}")
            yield StoredBatch(header, data)
        if is_sealed and end < size:
            raise CorruptRecord(f"{self._path}, byte {end}: no batch begins here, though the segment goes on")

    def next_offset(self) -> int:
        """The offset behind the last whole batch."""
        size, following = self._file.size(), self._base_offset
        for _, header in scan.headers(self._log, self._position_of(_END_OF_ALL, size), size):
            following = header.next_offset
        return following

    def _position_of(self, offset: int, size: int) -> int:
        return position_near(self._index, self._log, size, self._base_offset, offset)
