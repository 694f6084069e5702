"""Reading and searching the records of log files: tasks, what they answer, and the work itself.

The work runs in another process, or for a disk in memory in a thread. It reads the files as they are, trusts no length
and no index, and keeps nothing of a record beyond what is shown. Tasks and answers are plain tuples.

A search reads everything until it has found enough. A look reads a bounded stretch: forward from an offset, or backward
from the end for the newest records.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from kpybroker.machines.console.matching import FilterMatcher, RecordFilter
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
MOST_HEADERS_BYTES: Final = 32 * 1024
"""The bytes that are kept of all headers of a record."""
MOST_HEADER_BYTES: Final = 1024
"""The bytes that are kept of a header."""
HEADER_ROOM_BYTES: Final = 64
"""The bytes that a header counts in addition to its name and value."""
MOST_PAGE_BYTES: Final = 1024 * 1024
"""The bytes of all keys, values and headers together after which further ones are cut to `LITTLE_BYTES`."""
LITTLE_BYTES: Final = 512
MOST_READ_BYTES: Final = 32 * 1024 * 1024
"""The bytes of files that one look reads."""
MOST_LOOKED: Final = 5_000
"""The records that one look with a filter compares."""
FIRST_WINDOW: Final = 64
"""The offsets before the end that a look at the newest records begins with."""
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
    """The records of some partitions that a filter lets through."""

    places: tuple[PartitionFiles, ...]
    most: int
    """The most records of all partitions of a search, or of each one."""
    committed: bool = False
    filter: RecordFilter | None = None
    is_search: bool = False
    """Whether everything is read, not a bounded stretch."""
    newest: bool = False
    """Whether the stretch is the last one, read backward."""
    whole: bool = False
    """Whether keys, values and headers are kept whole, to be downloaded."""


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
    reading = _Reading(task)
    for place in task.places:
        view = ReadableLog(disk, place.path, place.log_start_offset, place.high_watermark)
        try:
            yield from reading.newest(place, view) if task.newest else reading.forward(place, view)
        except StorageError as error:
            yield Unreadable(place.partition, reading.next_offsets.get(place.partition, place.start_offset), str(error))
        except OSError as error:
            yield Unreadable(place.partition, place.start_offset, error.strerror or str(error))
        if reading.is_full:
            break
    yield SearchEnded(reading.reason, tuple(reading.next_offsets.items()), reading.read_bytes, reading.records)


class _Window:
    """Offsets that are read at once, and the last records that were found there."""

    def __init__(self, start: int, end: int, most: int) -> None:
        self.start = self.reached = start
        self.end = end
        self.records: deque[tuple[BatchHeader, Record]] = deque(maxlen=most)
        self.is_whole = False


class _Reading:
    def __init__(self, task: RecordTask) -> None:
        self.next_offsets: dict[int, int] = {}
        self.reason = ""
        self.is_full = False
        self.read_bytes = self.records = 0
        self._task = task
        self._matches = None if task.filter is None else FilterMatcher(task.filter)
        self._shown = Shown(whole=task.whole)
        self._found = self._reported_bytes = 0
        self._most_bytes = MOST_READ_BYTES // max(1, len(task.places))
        self._most_records = max(task.most, MOST_LOOKED // max(1, len(task.places)))

    def forward(self, place: PartitionFiles, view: ReadableLog) -> Iterator[Answer]:
        """The records of one partition in their order, until there are enough."""
        found_here = 0
        before = self.read_bytes, self.records
        for batch in view.batches(place.start_offset, place.end_offset, committed=self._task.committed):
            self.read_bytes += len(batch.data)
            for found in self._of_batch(place, batch):
                if isinstance(found, Unreadable):
                    yield found
                    continue
                found_here += 1
                self._found += 1
                yield self._shown.found(place.partition, batch.header, found)
                if self._has_enough(found_here):
                    self.next_offsets[place.partition] = found.offset + 1
                    return
            self.next_offsets[place.partition] = batch.header.next_offset
            if batch.header.next_offset < place.end_offset and self._is_far(*before):
                return
            if self.read_bytes - self._reported_bytes >= PROGRESS_BYTES:
                self._reported_bytes = self.read_bytes
                yield SearchProgress(self.read_bytes, self.records, place.partition, batch.header.next_offset)

    def newest(self, place: PartitionFiles, view: ReadableLog) -> Iterator[Answer]:
        """The last records of one partition, the newest first. The windows before its end grow until there are
        enough."""
        before = self.read_bytes, self.records
        found: deque[tuple[BatchHeader, Record]] = deque()
        end, size = place.end_offset, min(FIRST_WINDOW, self._task.most)
        while end > place.start_offset and len(found) < self._task.most and not self._is_far(*before):
            window = _Window(max(place.start_offset, end - size), end, self._task.most - len(found))
            try:
                yield from self._window(place, view, window)
            except StorageError as error:
                yield Unreadable(place.partition, window.reached, str(error))
            found.extendleft(reversed(window.records))
            end, size = (window.start, self._next_window(size, before[0])) if window.is_whole else (0, 0)
        for header, record in reversed(found):
            yield self._shown.found(place.partition, header, record)

    def _window(self, place: PartitionFiles, view: ReadableLog, window: "_Window") -> Iterator[Unreadable]:
        for batch in view.batches(window.start, window.end, committed=self._task.committed):
            window.start = min(window.start, batch.header.base_offset)  # its first batch may begin before it
            window.reached = batch.header.next_offset
            self.read_bytes += len(batch.data)
            for each in self._of_batch(place, batch):
                if isinstance(each, Unreadable):
                    yield each
                else:
                    window.records.append((batch.header, each))
        window.is_whole = True

    def _next_window(self, size: int, bytes_before: int) -> int:
        """Four times as much, but no more than about the bytes that are left."""
        left = self._most_bytes - (self.read_bytes - bytes_before)
        each = max(1, (self.read_bytes - bytes_before) // size)
        return max(1, min(4 * size, left // each, self._most_records))

    def _has_enough(self, found_here: int) -> bool:
        if not self._task.is_search:
            return found_here >= self._task.most
        if self._found >= self._task.most:
            self.reason, self.is_full = f"{self._task.most} records were found", True
        return self.is_full

    def _is_far(self, bytes_before: int, records_before: int) -> bool:
        """Whether a look has read its share of one partition."""
        if self._task.is_search:
            return False
        if self.read_bytes - bytes_before >= self._most_bytes:
            self.reason = "enough was read"
        elif self.records - records_before >= self._most_records:
            self.reason = "enough was compared"
        else:
            return False
        return True

    def _of_batch(self, place: PartitionFiles, batch: StoredBatch) -> Iterator[Record | Unreadable]:
        header, data = batch
        matches = self._matches
        try:
            if matches is not None and not matches.may_be_in(section_of(header, data)):
                self.records += header.record_count
                return
            for record in read_batch(data, header, 0, MOST_INFLATED_BYTES):
                if record.offset < place.start_offset:
                    continue
                self.records += 1
                if matches is None or matches(record):
                    yield record
        except Malformed as error:
            yield Unreadable(place.partition, header.base_offset, f"a batch of {header.size} bytes: {error}")


def section_of(header: BatchHeader, data: memoryview) -> bytes:
    """The records of a batch as bytes, without compression. Raises Malformed."""
    section = data[HEADER_BYTES : header.size]
    return decompress(header.codec, section, MOST_INFLATED_BYTES) if header.codec else bytes(section)


class Shown:
    """The records of one page as they are shown: cut, the more the page has already."""

    def __init__(self, *, whole: bool = False) -> None:
        """``whole``: nothing is cut."""
        self._whole = whole
        self._bytes = 0

    def found(self, partition: int, header: BatchHeader, record: Record) -> FoundRecord:
        """A record as it is shown."""
        if self._whole:
            return found_of(partition, header, record, *[2 * MOST_INFLATED_BYTES] * 3)
        is_much = self._bytes >= MOST_PAGE_BYTES
        limits = (LITTLE_BYTES, 4 * LITTLE_BYTES) if is_much else (MOST_SHOWN_BYTES, MOST_HEADERS_BYTES)
        found = found_of(partition, header, record, *limits)
        self._bytes += len(found.key or b"") + len(found.value or b"")
        self._bytes += sum(HEADER_ROOM_BYTES + len(name) + len(value or b"") for name, _, value, _ in found.headers)
        return found


def found_of(
    partition: int,
    header: BatchHeader,
    record: Record,
    most_bytes: int = MOST_SHOWN_BYTES,
    most_headers_bytes: int = MOST_HEADERS_BYTES,
    most_header_bytes: int = MOST_HEADER_BYTES,
) -> FoundRecord:
    """A record as it is shown: its key and value are cut to this number of bytes, and its headers together."""
    is_control = bool(header.attributes & CONTROL_MASK)
    headers = _headers(record, most_header_bytes, most_headers_bytes)
    return FoundRecord(
        partition,
        record.offset,
        record.timestamp,
        header.timestamp_type == 1,
        _cut(record.key, most_bytes),
        _size(record.key),
        _cut(record.value, most_bytes),
        _size(record.value),
        headers,
        len(record.headers) - len(headers),
        bool(header.attributes & TRANSACTIONAL_MASK),
        _control(record.key) if is_control else None,
        header.producer_id,
    )


def _headers(record: Record, most_bytes: int, most_together: int) -> tuple[tuple[str, bool, bytes | None, int], ...]:
    """The first headers of a record: at least one, and more as long as they fit."""
    found: list[tuple[str, bool, bytes | None, int]] = []
    for name, value in record.headers:
        shown = name[:most_bytes], len(name) > most_bytes, _cut(value, most_bytes), _size(value)
        most_together -= HEADER_ROOM_BYTES + len(shown[0]) + len(shown[2] or b"")
        if found and most_together < 0:
            break
        found.append(shown)
    return tuple(found)


def _cut(data: bytes | None, most_bytes: int) -> bytes | None:
    return None if data is None else bytes(data[:most_bytes])


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _control(key: bytes | None) -> str:
    kind = int.from_bytes(key[2:4]) if key is not None and len(key) >= 4 else -1
    return {0: "abort", 1: "commit"}.get(kind, f"control {kind}")
