"""Passes the committed part of the metadata log on to the published image, on leaders and followers alike.

Batches that this node's controller has appended are in memory, decoded. Everything else is read from the log, or from a
snapshot if the log no longer holds it. Long work is done in pieces, and the loop runs in between.

Invariant: nothing at or above the reported committed offset is published, and everything below it is, once and in
order.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.hosts.quorum.metadata_log import READ_BYTES, MetadataLog
from kpybroker.machines.controller.large_batch import LARGE_RECORDS, LargeBatch
from kpybroker.machines.metadata.image import InvalidMetadata, MetadataImage
from kpybroker.machines.metadata.loader import MetadataLoader
from kpybroker.machines.metadata.units import STEP_RECORDS, units_of
from kpystorage.errors import CorruptLog
from kpywire.batch import BatchHeader, batch_headers, check_crc
from kpywire.metadata_records import decode_record
from kpywire.metadata_records.abort_transaction_record import AbortTransactionRecord
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.record import read_batch

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler

Steps = Generator[None, None, None]


class _Appended(NamedTuple):
    first_offset: int
    next_offset: int
    records: Sequence[Any]
    size_bytes: int
    epoch: int


class CommittedRecords:
    """Publishes committed records from the log to the subscribers."""

    def __init__(
        self,
        scheduler: "Scheduler",
        metadata_log: MetadataLog,
        loader: MetadataLoader,
        loaded_offset: int,
        published: Callable[[int, int], object],
        failed: Callable[[Exception], object],
    ) -> None:
        """``loader`` holds the records below ``loaded_offset`` and has published none of them.

        ``published(next_offset, new_bytes)`` is called after each publication, ``failed`` if it cannot go on.
        """
        self._scheduler = scheduler
        self._log = metadata_log
        self._loader = loader
        self._loaded_offset = loaded_offset
        self._published = published
        self._failed = failed
        self._appended: deque[_Appended] = deque()
        self._wanted_offset = -1
        self._published_offset = -1
        self._new_bytes = 0
        self._is_working = self._is_stopped = False
        self.last_timestamp_ms = 0
        """The timestamp of the last batch that was read from the log."""

    @property
    def published_offset(self) -> int:
        """Everything below this offset has been published; -1 before the first publication."""
        return self._published_offset

    @property
    def is_at_rest(self) -> bool:
        """Whether the image holds exactly the records below ``published_offset``, and no part of those above."""
        return not self._is_working

    def note_appended(
        self, first_offset: int, next_offset: int, records: Sequence[Any], size_bytes: int, epoch: int
    ) -> None:
        """Note that this node's controller has appended a batch, which may be committed later."""
        self._appended.append(_Appended(first_offset, next_offset, records, size_bytes, epoch))

    def forget_appended(self) -> None:
        """Forget the batches that this node has appended: the new leader decides whether they are committed."""
        self._appended.clear()

    def advance(self, high_watermark: int) -> None:
        """Note that the log is committed up to this offset."""
        if high_watermark > self._wanted_offset and not self._is_stopped:
            self._wanted_offset = high_watermark
            if not self._is_working:
                self._is_working = True
                self._scheduler.in_pieces(self._work())

    def stop(self) -> None:
        """Publish no more."""
        self._is_stopped = True
        self._wanted_offset = -1

    def _work(self) -> Steps:
        try:
            while self._published_offset < self._wanted_offset:
                wanted_offset = self._wanted_offset
                while self._loaded_offset < wanted_offset <= self._wanted_offset:
                    yield from self._load(wanted_offset)
                if self._is_stopped:
                    return
                self._loader.publish(wanted_offset)
                self._published_offset = wanted_offset
                new_bytes, self._new_bytes = self._new_bytes, 0
                self._published(wanted_offset, new_bytes)
            self._is_working = False
        except Exception as error:
            self._failed(error)

    def _load(self, wanted_offset: int) -> Steps:
        if not self._appended:
            yield from self._load_from_log(wanted_offset)
            return
        first = self._appended[0]
        if first.first_offset > self._loaded_offset:
            yield from self._load_from_log(min(wanted_offset, first.first_offset))
            return
        self._appended.popleft()
        self._new_bytes += first.size_bytes
        if isinstance(first.records[0], LargeBatch):
            yield  # what is heard of it is a long step
            yield from self._loader.publish_units(first.records[0].units, first.first_offset, first.epoch)
        else:
            self._loader.load(first.records, first.first_offset, first.epoch)
        self._loaded_offset = first.next_offset

    def _load_from_log(self, limit: int) -> Steps:
        if self._loaded_offset < self._log.start_offset:
            yield from self._load_snapshot()
            return
        data = self._log.read(self._loaded_offset, READ_BYTES)
        if not data:
            raise InvalidMetadata(f"The metadata log lacks offset {self._loaded_offset}, which is committed")
        for position, header in batch_headers(data):
            if header.base_offset >= limit:
                return
            if header.base_offset != self._loaded_offset or not check_crc(data, header, position):
                raise CorruptLog(f"the batch of offsets {header.base_offset} to {header.last_offset} is damaged")
            self._new_bytes += header.size
            self.last_timestamp_ms = header.max_timestamp
            yield from self._load_batch(header, data[position : position + header.size])
            self._loaded_offset = header.next_offset
            yield
            if self._is_stopped:
                return

    def _load_batch(self, header: BatchHeader, batch: bytes) -> Steps:
        loader, epoch = self._loader, header.partition_leader_epoch
        if header.is_control:
            loader.load((), header.base_offset, epoch)
            return
        records = yield from _decoded(header, batch)
        if len(records) >= LARGE_RECORDS and self._is_whole(records):
            units = yield from units_of(records)
            yield from loader.publish_units(units, header.base_offset, epoch)
        else:
            loader.load(records, header.base_offset, epoch)

    def _is_whole(self, records: Sequence[Any]) -> bool:
        """Whether every metadata transaction in the batch also begins and ends there (KIP-868)."""
        marks = [type(record) for record in records if type(record) in _TRANSACTION_RECORDS]
        pairs = len(marks) // 2
        is_paired = marks == [BeginTransactionRecord, EndTransactionRecord] * pairs
        return is_paired and self._loader.image.transaction_offset < 0

    def _load_snapshot(self) -> Steps:
        snapshots = [each for each in self._log.snapshots() if each.end_offset >= self._log.start_offset]
        if not snapshots:
            raise InvalidMetadata(f"No snapshot holds what is below offset {self._log.start_offset} of the metadata")
        snapshot = snapshots[-1]
        image = MetadataImage(self._loader.image.cluster_id)
        reader = MetadataLoader(image)
        for header, batch in self._log.read_snapshot(snapshot):
            if not header.is_control:
                records = yield from _decoded(header, batch)
                reader.load_snapshot(records, snapshot.end_offset, snapshot.epoch)
        image.epoch, image.next_offset = snapshot.epoch, snapshot.end_offset
        self._loader.replace(image)
        self._loaded_offset = snapshot.end_offset


_TRANSACTION_RECORDS = frozenset((BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord))


def _decoded(header: BatchHeader, batch: bytes) -> Generator[None, None, list[Any]]:
    """Decode the records of a batch. Yields now and then."""
    records: list[Any] = []
    for number, record in enumerate(read_batch(batch, header)):
        records.append(decode_record(record.value or b""))
        if number % STEP_RECORDS == STEP_RECORDS - 1:
            yield
    return records
