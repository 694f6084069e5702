"""The copy of one partition up to the cut: its batches, unchanged, as objects of a bounded size.

The next fetch runs while the last one is written. An object is followed by its entry, so that a run that comes after an
interrupted one knows what is there.
"""

import time
from collections.abc import Callable, Generator
from contextlib import closing
from hashlib import sha256
from typing import Final, NamedTuple

from kpybroker.client.client import EARLIEST_TIMESTAMP, Client, Spot
from kpybroker.machines.backup.cut import SeenTransactions
from kpybroker.machines.backup.manifest import (
    MANIFEST_SUFFIX,
    BegunTransaction,
    StoredPiece,
    entry_json,
    piece_key,
)
from kpybroker.machines.backup.planning import PartitionPlan, SourceBounds
from kpybroker.machines.backup.stretch import BatchStretch, CutOffsets
from kpybroker.machines.errors import KafkaError
from kpybroker.pipeline.backup.store import BackupStore
from kpybroker.pipeline.scan.ahead import ahead
from kpybroker.pipeline.scan.fetching import ScanFetching, fetch
from kpywire import error_codes, uuid
from kpywire.errors import Malformed
from kpywire.varint import Buffer

PIECE_BYTES: Final = 64 << 20
FETCHING: Final = ScanFetching(max_bytes=4 << 20)
PATIENCE_S: Final = 60.0
"""How long to wait for offsets below the cut that the leader does not have at the moment."""


class PartitionTask(NamedTuple):
    """A partition to copy."""

    spot: Spot
    topic_id: bytes
    run: str
    plan: PartitionPlan
    cut: CutOffsets
    bounds: SourceBounds


class WrittenPartition(NamedTuple):
    """A partition in the store."""

    start_offset: int
    leader_epoch: int
    pieces: tuple[StoredPiece, ...]
    seen: SeenTransactions
    note: str


class _TakenBatches(NamedTuple):
    """The batches of one fetch, and the state behind them."""

    batches: Buffer
    next_offset: int
    leader_epoch: int
    max_timestamp: int
    max_producer_id: int
    gap_end: int
    open: tuple[BegunTransaction, ...]
    was_skipped: bool
    """The source has deleted the batches before these."""


def copy_partition(
    client: Client, store: BackupStore, task: PartitionTask, progress: Callable[[int], object]
) -> WrittenPartition:
    """Copy what is missing. ``progress`` gets the number of bytes of each fetch. Raises KafkaError, Unreachable,
    StoreFailed."""
    kept = list(task.plan.pieces)
    stretch = BatchStretch(task.plan.next_offset, kept[-1].open if kept else (), task.cut)
    start, note, pieces = task.bounds.start_offset, task.plan.note, kept
    with closing(ahead(_fetched(client, task, stretch))) as taken:
        offset, first = task.plan.next_offset, next(taken, None)
        while first is not None:
            if first.was_skipped:
                start = offset = first.next_offset
                pieces = []
                note = f"the source has deleted the records before offset {start} while they were read"
                first = next(taken, None)
                continue
            making = _PieceInTheMaking(first, taken, progress)
            key = piece_key(uuid.to_string(task.topic_id), task.spot.partition, offset, task.run)
            store.put(key, making.parts())
            piece = making.piece(key, offset)
            store.put(key + MANIFEST_SUFFIX, [entry_json(piece)])
            pieces.append(piece)
            offset, first = piece.end_offset, making.following
    leader_epoch = max((piece.leader_epoch for piece in pieces), default=-1)
    seen = SeenTransactions(dict(stretch.open), dict(stretch.open_before), tuple(stretch.markers))
    return WrittenPartition(start, leader_epoch, tuple(pieces), seen, note)


class _PieceInTheMaking:
    """The fetches of one piece, from the first one on until it is large enough, the end, or a gap."""

    def __init__(
        self,
        first: _TakenBatches,
        taken: Generator[_TakenBatches, None, None],
        progress: Callable[[int], object],
    ) -> None:
        self.following: _TakenBatches | None = first
        """The first fetch of the next piece."""
        self._taken = taken
        self._progress = progress
        self._last = first
        self._size_bytes = 0
        self._digest = sha256()
        self._max_timestamp = self._max_producer_id = self._gap_end = -1

    def parts(self) -> Generator[Buffer, None, None]:
        """The bytes of the piece."""
        while (each := self.following) is not None and self._size_bytes < PIECE_BYTES and not each.was_skipped:
            self._last = each
            self._size_bytes += len(each.batches)
            self._digest.update(each.batches)
            self._max_timestamp = max(self._max_timestamp, each.max_timestamp)
            self._max_producer_id = max(self._max_producer_id, each.max_producer_id)
            self._gap_end = max(self._gap_end, each.gap_end)
            yield each.batches
            self._progress(len(each.batches))
            self.following = next(self._taken, None)

    def piece(self, key: str, start_offset: int) -> StoredPiece:
        """The entry of the piece, once it is written."""
        last = self._last
        return StoredPiece(
            key,
            start_offset,
            last.next_offset,
            self._size_bytes,
            self._digest.hexdigest(),
            last.leader_epoch,
            self._max_timestamp,
            self._max_producer_id,
            self._gap_end,
            last.open,
        )


def _fetched(client: Client, task: PartitionTask, stretch: BatchStretch) -> Generator[_TakenBatches, None, None]:
    spot, end = task.spot, task.cut.end_offset
    moved_s = time.monotonic()
    while stretch.next_offset < end:
        at = stretch.next_offset
        answer = client.retrying(lambda at=at: fetch(client, spot, task.topic_id, at, FETCHING))  # type: ignore[misc]
        if answer is None:  # the broker throttles this client
            continue
        if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            stretch.skip_to(_first_offset(client, spot, stretch.next_offset, end))
            yield _state(stretch, b"", was_skipped=True)
            continue
        found: Buffer = answer.records or b""
        stretch.begin_count()
        try:
            size = stretch.take(found)
        except Malformed as error:
            raise KafkaError(error_codes.CORRUPT_MESSAGE, f"partition {spot}: {error}") from None
        if size:
            moved_s = time.monotonic()
            yield _state(stretch, memoryview(found)[:size])
        elif found or answer.high_watermark >= end:
            stretch.finish()  # compaction has removed what was last
        elif time.monotonic() - moved_s > PATIENCE_S:
            text = f"partition {spot} ends at offset {answer.high_watermark} now, and ended at {end} at the cut"
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE, text)


def _first_offset(client: Client, spot: Spot, offset: int, end: int) -> int:
    """The offset to go on from, since ``offset`` is gone."""
    first: int = client.list_offsets({spot: EARLIEST_TIMESTAMP})[spot]
    if first <= offset:
        text = f"partition {spot} ends before offset {offset} now, and ended at {end} at the cut"
        raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE, text)
    return min(first, end)


def _state(stretch: BatchStretch, batches: Buffer, *, was_skipped: bool = False) -> _TakenBatches:
    return _TakenBatches(
        batches,
        stretch.next_offset,
        stretch.leader_epoch,
        stretch.max_timestamp,
        stretch.max_producer_id,
        stretch.gap_end,
        tuple(stretch.open.values()),
        was_skipped,
    )
