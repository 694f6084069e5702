"""Reads of records that are in the store alone (Kafka: ``RemoteLogReader``, ``DelayedRemoteFetch``).

A fetch asks, and is answered without these records until they are there; then it is woken, or the next fetch takes
them. All partitions that a fetch asks for are read at the same time. Whatever was read is kept for a while, in bounded
memory, so it does not matter which fetch comes for it.

Invariant: a result is for the offset that was asked for, and none of its batches is of another history than the log's.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.figures import TierFigures
from kpybroker.hosts.remote_log.remote_storage import ObjectMissing, RemoteStorage, StoreFailed
from kpybroker.hosts.remote_log.segment_reads import SegmentRecords
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.role import Role
from kpybroker.machines.remote_log import lineage
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.quota import RemoteLogQuota
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.runtime.io.scheduler import Scheduler, Submit
from kpystorage.errors import CorruptObject, StorageError
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire import error_codes
from kpywire.batch import parse_header

log = logging.getLogger("kpybroker.tiered")

KEPT_MS: Final = 30_000.0
FAILED_MS: Final = 1_000.0
"""The time for which a failed read is not tried again, however often clients ask."""
KEPT_BYTES: Final = 64 << 20
MOST_BYTES: Final = 1 << 20
"""The most bytes that are read at once for one partition, unless its first batch is larger."""


class StoredRecords(NamedTuple):
    """Records of the store, and the aborted transactions that a reader of committed records needs for them."""

    records: bytes
    first_batch_bytes: int
    aborted: list[TransactionIndexEntry]


class WantedRecords(NamedTuple):
    """The records that a reader asks for."""

    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int
    committed_only: bool
    wake: Callable[[], object]
    """Called when it is worth asking again."""


class _Key(NamedTuple):
    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: int
    committed_only: bool


class _Read:
    """One read, until it is done and for a while after that."""

    __slots__ = ("aborted", "began_ms", "done_ms", "error", "found", "role", "segments", "waiting")

    def __init__(self, role: Role, segments: RemoteSegments, began_ms: float) -> None:
        self.began_ms = began_ms
        self.role = role
        self.segments = segments
        self.waiting: dict[Callable[[], object], None] = {}
        self.found: SegmentRecords | None = None
        self.aborted: list[TransactionIndexEntry] = []
        self.error: KafkaError | None = None
        self.done_ms = -1.0

    @property
    def is_done(self) -> bool:
        return self.done_ms >= 0

    def has_failed_before(self, ms: float) -> bool:
        return self.is_done and self.found is None and self.done_ms < ms

    @property
    def size_bytes(self) -> int:
        return 0 if self.found is None else len(self.found.records)


class RemoteReads:
    """The reads of one node."""

    def __init__(
        self,
        scheduler: Scheduler,
        storage: RemoteStorage,
        reader: Submit,
        most_waiting: Callable[[], int],
        quota: RemoteLogQuota,
        figures: TierFigures,
    ) -> None:
        """``reader`` is the pool of threads. At most ``most_waiting`` reads are under way
        (``remote.log.reader.max.pending.tasks``)."""
        self._scheduler = scheduler
        self._storage = storage
        self._reader = reader
        self._most_waiting = most_waiting
        self._quota = quota
        self._figures = figures
        self._reads: OrderedDict[_Key, _Read] = OrderedDict()
        self._kept_bytes = 0
        self._for_room: dict[Callable[[], object], None] = {}
        """Called when a read may begin again, the first ones first, since nothing else wakes them."""
        self.under_way = 0
        self.last_error = ""
        """The words of the last read, if it failed."""

    def read(self, wanted: WantedRecords, role: Role, segments: RemoteSegments) -> StoredRecords | None:
        """The records that are wanted, if they are there; else ``wanted.wake`` is called when they are. Raises
        KafkaError: OFFSET_OUT_OF_RANGE where the store has no such record, KAFKA_STORAGE_ERROR if it fails. There are
        none where compaction has left none in the store, and the disk has none yet."""
        now_ms = self._scheduler.monotonic_ms()
        key = _Key(wanted.topic_id, wanted.partition, role.epoch, wanted.offset, wanted.committed_only)
        read = self._reads.get(key)
        if read is not None and read.has_failed_before(now_ms - FAILED_MS):
            self._drop(key)
            read = None
        if read is None:
            throttle_ms = self._quota.throttle_ms(int(now_ms))
            if throttle_ms:
                self._quota.waited(throttle_ms, int(now_ms))
                self._scheduler.call_later(throttle_ms, wanted.wake)
                return None
            read = self._begin(key, role, segments, wanted.max_bytes)
            if read is None:
                self._for_room[wanted.wake] = None
                return None
        if not read.is_done:
            read.waiting[wanted.wake] = None
            return None
        if read.error is not None or read.found is None:
            raise read.error or KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if not read.found.records:
            self._drop(key)  # the disk may have some the next time
            return StoredRecords(b"", 0, [])
        self._reads.move_to_end(key)
        self._read_ahead(key, read, wanted.max_bytes)
        return StoredRecords(read.found.records, read.found.first_batch_bytes, read.aborted)

    def _read_ahead(self, key: _Key, read: _Read, max_bytes: int) -> None:
        """Begin to read what a client that reads on will ask for, unless others wait for their first records."""
        assert read.found is not None
        if self._for_room:
            return
        following = key._replace(offset=read.found.next_offset)
        is_in_store = following.offset < read.role.log.local_log_start_offset
        if is_in_store and following not in self._reads and self.under_way < self._most_waiting() // 2:
            with suppress(KafkaError):
                self._begin(following, read.role, read.segments, max_bytes)

    def _begin(self, key: _Key, role: Role, segments: RemoteSegments, max_bytes: int) -> _Read | None:
        epochs = role.log.epochs.entries()
        segment = lineage.segment_for(segments, epochs, key.offset)
        if segment is None:
            raise KafkaError(
                error_codes.OFFSET_OUT_OF_RANGE, f"{role.name}: the store has no record at offset {key.offset}"
            )
        self._forget_old()
        if self.under_way >= self._most_waiting():
            return None
        until = min(lineage.agrees_until(segment, epochs, key.offset), role.high_watermark.offset)
        read = self._reads[key] = _Read(role, segments, self._scheduler.monotonic_ms())
        self.under_way += 1
        self._figures.of(role.log.topic).fetches += 1
        work = partial(
            segment_reads.read, self._storage, segment, key.offset, max(0, min(max_bytes, MOST_BYTES)), until
        )
        self._reader(work, partial(self._read, key, read, segment))
        return read

    def _read(
        self, key: _Key, read: _Read, segment: RemoteLogSegment, found: SegmentRecords | None, error: Any
    ) -> None:
        if error is None and found is None:
            self._read_next(key, read, segment)
            return
        if isinstance(error, ObjectMissing) and self._read_replacement(key, read, segment):
            return
        read.found = found
        if error is None and found is not None and key.committed_only:
            self._look_for_aborted(key, read, max(key.offset, segment.start_offset))  # the log may start within it
        else:
            self._done(key, read, error)

    def _read_next(self, key: _Key, read: _Read, segment: RemoteLogSegment) -> None:
        """The segment has no batch from the offset on, as after compaction: the records begin in the next one."""
        epochs = read.role.log.epochs.entries()
        following = lineage.segment_for(read.segments, epochs, segment.next_offset)
        if following is None or following.next_offset <= segment.next_offset:
            if segment.next_offset >= read.role.log.local_log_start_offset:
                self._read_on_disk(key, read)
            else:
                self._done(key, read, None)
            return
        until = min(lineage.agrees_until(following, epochs, segment.next_offset), read.role.high_watermark.offset)
        work = partial(segment_reads.read, self._storage, following, segment.next_offset, MOST_BYTES, until)
        self._reader(work, partial(self._read, key, read, following))

    def _read_on_disk(self, key: _Key, read: _Read) -> None:
        """Read the first batch on the disk: compaction has left none in the store from the offset on."""
        role = read.role
        end = role.last_stable_offset() if key.committed_only else role.high_watermark
        start = role.log.local_log_start_offset
        try:
            held = role.read(start, 1, end, min_one_batch=True) if start < end.offset else None
            data = b"" if held is None else held.read()
        except (StorageError, OSError) as error:
            self._done(key, read, error)
            return
        size = parse_header(data, 0).size if data else 0
        next_offset = parse_header(data, 0).next_offset if data else key.offset
        read.found = SegmentRecords(data[:size], size, next_offset)
        if key.committed_only and data:
            self._aborted_on_disk(key, read)
        else:
            self._done(key, read, None)

    def _read_replacement(self, key: _Key, read: _Read, segment: RemoteLogSegment) -> bool:
        """Read the segment that has taken the place of one whose objects are gone, as after compaction."""
        epochs, offset = read.role.log.epochs.entries(), max(key.offset, segment.start_offset)
        found = lineage.segment_for(read.segments, epochs, offset)
        if found is None or found.id == segment.id:
            return False
        until = min(lineage.agrees_until(found, epochs, offset), read.role.high_watermark.offset)
        work = partial(segment_reads.read, self._storage, found, offset, MOST_BYTES, until)
        self._reader(work, partial(self._read, key, read, found))
        return True

    def _look_for_aborted(self, key: _Key, read: _Read, offset: int) -> None:
        """Read the next transaction index that may name aborted transactions of these records: those that follow may,
        too (KIP-1058)."""
        assert read.found is not None
        segment = lineage.next_with_transaction_index(read.segments, read.role.log.epochs.entries(), offset)
        if segment is None:
            self._aborted_on_disk(key, read)
            return
        work = partial(segment_reads.aborted_transactions, self._storage, segment, key.offset, read.found.next_offset)
        self._reader(work, partial(self._aborted_in, key, read, segment, offset))

    def _aborted_in(
        self, key: _Key, read: _Read, segment: RemoteLogSegment, offset: int, found: Any, error: Any
    ) -> None:
        """Take the entries of an index that was searched from ``offset`` on. Where the copy leaves the log's history,
        its index names transactions that another leader has aborted."""
        if error is not None:
            self._done(key, read, error)
            return
        entries, are_all = found
        log = read.role.log
        until = lineage.agrees_until(segment, log.epochs.entries(), max(segment.start_offset, key.offset))
        read.aborted += [each for each in entries if each.last_offset < until]
        following = until if until > offset else segment.next_offset
        if are_all and until == segment.next_offset:
            self._done(key, read, None)
        elif following >= log.local_log_start_offset:
            self._aborted_on_disk(key, read)
        else:
            self._look_for_aborted(key, read, following)

    def _aborted_on_disk(self, key: _Key, read: _Read) -> None:
        """The transactions whose marker is on the disk alone."""
        assert read.found is not None
        log = read.role.log
        known = set(read.aborted)
        if log.is_open:
            for each in log.aborted_transactions(key.offset, read.found.next_offset):
                if each not in known:
                    read.aborted.append(each)
        self._done(key, read, None)

    def _done(self, key: _Key, read: _Read, error: BaseException | None) -> None:
        self.under_way -= 1
        read.done_ms = self._scheduler.monotonic_ms()
        if error is not None:
            read.found = None
            read.error = self._refusal(read.role, key, error)
        else:
            self.last_error = ""
        self._kept_bytes += read.size_bytes
        self._figures.of(read.role.log.topic).fetched_bytes += read.size_bytes
        self._figures.read_ms.add(read.done_ms - read.began_ms)
        self._quota.use(read.size_bytes, int(read.done_ms))
        waiting, read.waiting = read.waiting, {}
        for wake in waiting:
            wake()
        self._wake_for_room()
        self._forget_old()

    def _wake_for_room(self) -> None:
        """Wake as many that wait for room as there is; further ones where these do not use it."""
        room = self._most_waiting() - self.under_way
        if self._for_room and room > 0:
            for wake in list(islice(self._for_room, room)):
                del self._for_room[wake]
                wake()
            self._scheduler.call_soon(self._wake_for_room)

    def _refusal(self, role: Role, key: _Key, error: BaseException) -> KafkaError:
        words = str(error) if isinstance(error, StoreFailed | CorruptObject) else f"a defect: {error!r}"
        self._figures.of(role.log.topic).fetch_errors += 1
        self.last_error = words
        log.warning("%s: offset %d was not read from the store: %s", role.name, key.offset, words)
        return KafkaError(error_codes.KAFKA_STORAGE_ERROR)

    def _drop(self, key: _Key) -> None:
        read = self._reads.pop(key, None)
        if read is not None and read.is_done:
            self._kept_bytes -= read.size_bytes

    def _forget_old(self) -> None:
        """Drop results that were kept for long, or that are too many bytes, the oldest first."""
        now_ms = self._scheduler.monotonic_ms()
        while True:
            oldest = next(((key, read) for key, read in self._reads.items() if read.is_done), None)
            if oldest is None or (now_ms - oldest[1].done_ms < KEPT_MS and self._kept_bytes <= KEPT_BYTES):
                return
            self._drop(oldest[0])
