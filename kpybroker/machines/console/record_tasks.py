"""Reading and searching the records of log files: tasks, what they answer, and the work itself.

The work runs in another process, or for a disk in memory in a thread. It reads the files as they are, trusts no length
and no index, and keeps nothing of a record beyond what is shown. Tasks and answers are plain tuples.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kpybroker.machines.console.matching import Matcher, Needle, matcher
from kpystorage.disk import Disk
from kpystorage.errors import StorageError
from kpystorage.reading import ReadableLog, StoredBatch
from kpywire.batch import CONTROL_MASK, HEADER_BYTES, TRANSACTIONAL_MASK, BatchHeader
from kpywire.compression import decompress
from kpywire.errors import Malformed
from kpywire.record import Record, read_batch

MOST_INFLATED_BYTES: Final = 64 * 1024 * 1024
"""A batch that is larger without its compression is named, and its records are not shown."""
MOST_SHOWN_BYTES: Final = 16 * 1024
"""The bytes that are kept of a key or a value."""
MOST_HEADERS: Final = 50
MOST_HEADER_BYTES: Final = 1024
"""The bytes that are kept of a header."""
MOST_PAGE_BYTES: Final = 1024 * 1024
"""The bytes of all keys and values together after which further ones are cut to `LITTLE_BYTES`."""
LITTLE_BYTES: Final = 512
MOST_READ_BYTES: Final = 32 * 1024 * 1024
"""The bytes of files that one look at records reads."""
PROGRESS_BYTES: Final = 4 * 1024 * 1024


class PartitionFiles(NamedTuple):
    """The files of a partition, and the offsets that are read of it."""

    partition: int
    path: str
    log_start_offset: int
    high_watermark: int
    start_offset: int
    end_offset: int


class RecordTask(NamedTuple):
    """The records of some partitions: those with a needle, or all up to a number for each partition."""

    places: tuple[PartitionFiles, ...]
    most: int
    """The most records of all partitions of a search, or of each one."""
    committed: bool = False
    needle: Needle | None = None
    whole: bool = False
    """Whether keys and values are kept whole, to be downloaded."""


class FoundRecord(NamedTuple):
    """A record. Texts are cut to `MOST_SHOWN_BYTES`; the sizes are those of the whole."""

    partition: int
    offset: int
    timestamp_ms: int
    is_append_time: bool
    key: bytes | None
    key_bytes: int
    value: bytes | None
    value_bytes: int
    headers: tuple[tuple[str, bool, bytes | None, int], ...]
    """The name, whether it is cut, the value and its size."""
    headers_left_out: int
    is_transactional: bool
    control: str | None
    """The kind of a marker; None for a record of a client."""
    producer_id: int


class Unreadable(NamedTuple):
    """A place where records cannot be read, and why."""

    partition: int
    offset: int
    reason: str


class SearchProgress(NamedTuple):
    """How far a search is."""

    read_bytes: int
    records: int
    partition: int
    offset: int


class SearchEnded(NamedTuple):
    """The last answer to a task. ``reason`` is empty if everything was read."""

    reason: str
    next_offsets: tuple[tuple[int, int], ...]
    """For each partition the offset where the next look begins."""
    read_bytes: int = 0
    records: int = 0


Answer = FoundRecord | Unreadable | SearchProgress | SearchEnded


def work(disk: Disk, task: RecordTask) -> Iterator[Answer]:
    """Do a task."""
    matches = None if task.needle is None else matcher(task.needle)
    reading = _Reading(task)
    for place in task.places:
        view = ReadableLog(disk, place.path, place.log_start_offset, place.high_watermark)
        try:
            batches = view.batches(place.start_offset, place.end_offset, committed=task.committed)
            yield from reading.of_place(place, batches, matches)
        except StorageError as error:
            yield Unreadable(place.partition, reading.next_offsets.get(place.partition, place.start_offset), str(error))
        except OSError as error:
            yield Unreadable(place.partition, place.start_offset, error.strerror or str(error))
        if reading.is_full:
            break
    yield SearchEnded(reading.reason, tuple(reading.next_offsets.items()), reading.read_bytes, reading.records)


class _Reading:
    def __init__(self, task: RecordTask) -> None:
        self.next_offsets: dict[int, int] = {}
        self.reason = ""
        self.is_full = False
        self._task = task
        self.read_bytes = self.records = 0
        self._found = self._reported_bytes = self._shown_bytes = 0

    def of_place(
        self, place: PartitionFiles, batches: Iterator[StoredBatch], matches: Matcher | None
    ) -> Iterator[Answer]:
        """The records of one partition, until there are enough."""
        found_here = 0
        for batch in batches:
            self.read_bytes += len(batch.data)
            header = batch.header
            for found in self._of_batch(place, batch, matches):
                if isinstance(found, FoundRecord):
                    if found.offset < place.start_offset:
                        continue
                    found_here += 1
                    self._found += 1
                yield found
                if self._has_enough(found_here):
                    assert isinstance(found, FoundRecord)
                    self.next_offsets[place.partition] = found.offset + 1
                    return
            self.next_offsets[place.partition] = header.next_offset
            if self._task.needle is None and self.read_bytes > MOST_READ_BYTES:
                self.reason, self.is_full = "enough bytes were read", True
                return
            if self.read_bytes - self._reported_bytes >= PROGRESS_BYTES:
                self._reported_bytes = self.read_bytes
                yield SearchProgress(self.read_bytes, self.records, place.partition, header.next_offset)

    def _has_enough(self, found_here: int) -> bool:
        if self._task.needle is None:
            return found_here >= self._task.most
        if self._found >= self._task.most:
            self.reason, self.is_full = f"{self._task.most} records were found", True
        return self.is_full

    def _of_batch(self, place: PartitionFiles, batch: StoredBatch, matches: Matcher | None) -> Iterator[Answer]:
        header, data = batch
        try:
            if matches is not None:
                section = section_of(header, data)
                if not matches.may_be_in(section):
                    self.records += header.record_count
                    return
            for record in read_batch(data, header, 0, MOST_INFLATED_BYTES):
                self.records += 1
                if matches is None or matches(record):
                    yield self._shown(place.partition, header, record)
        except Malformed as error:
            yield Unreadable(place.partition, header.base_offset, f"a batch of {header.size} bytes: {error}")

    def _shown(self, partition: int, header: BatchHeader, record: Record) -> FoundRecord:
        if self._task.whole:
            return found_of(partition, header, record, MOST_INFLATED_BYTES)
        most_bytes = MOST_SHOWN_BYTES if self._shown_bytes < MOST_PAGE_BYTES else LITTLE_BYTES
        found = found_of(partition, header, record, most_bytes)
        self._shown_bytes += len(found.key or b"") + len(found.value or b"")
        return found


def section_of(header: BatchHeader, data: memoryview) -> bytes:
    """The records of a batch as bytes, without compression. Raises Malformed."""
    section = data[HEADER_BYTES : header.size]
    return decompress(header.codec, section, MOST_INFLATED_BYTES) if header.codec else bytes(section)


def found_of(partition: int, header: BatchHeader, record: Record, most_bytes: int = MOST_SHOWN_BYTES) -> FoundRecord:
    """A record as it is shown: its key and value are cut to this number of bytes."""
    is_control = bool(header.attributes & CONTROL_MASK)
    return FoundRecord(
        partition,
        record.offset,
        record.timestamp,
        header.timestamp_type == 1,
        _cut(record.key, most_bytes),
        _size(record.key),
        _cut(record.value, most_bytes),
        _size(record.value),
        tuple(
            (name[:MOST_HEADER_BYTES], len(name) > MOST_HEADER_BYTES, _cut(value, MOST_HEADER_BYTES), _size(value))
            for name, value in record.headers[:MOST_HEADERS]
        ),
        max(0, len(record.headers) - MOST_HEADERS),
        bool(header.attributes & TRANSACTIONAL_MASK),
        _control(record.key) if is_control else None,
        header.producer_id,
    )


def _cut(data: bytes | None, most_bytes: int) -> bytes | None:
    return None if data is None else bytes(data[:most_bytes])


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _control(key: bytes | None) -> str:
    kind = int.from_bytes(key[2:4]) if key is not None and len(key) >= 4 else -1
    return {0: "abort", 1: "commit"}.get(kind, f"control {kind}")
