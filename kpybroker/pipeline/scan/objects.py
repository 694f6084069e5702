"""The transport over objects: copies of segments are read from the store of a tiered cluster, without its brokers.

The rest of a range, and what retention has deleted meanwhile, comes by another transport. Not here: which copies count
(`kpybroker.pipeline.tiers.metadata`), and the layouts of stores (`kpybroker.hosts.remote_log`), which check chunks.

Invariant: a range that is read has the records that its leader has; damage is an error, never other records.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kpybroker.client.client import Client, Spot
from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.remote_storage import ObjectMissing, RemoteStorage, StoreFailed
from kpybroker.hosts.remote_log.segment_reads import SegmentFile
from kpybroker.machines.remote_log.lineage import CopiedRange
from kpybroker.machines.scan.errors import ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan.fetching import ScanFetching, after, fetch
from kpybroker.pipeline.scan.transport import FetchedPiece, Transport
from kpybroker.pipeline.scan.whole_batches import whole_batches
from kpybroker.pipeline.tiers.copied import CopiedPartition, CopiedPartitions
from kpybroker.pipeline.tiers.stores import BadStore, TierStore
from kpystorage import producer_snapshot
from kpystorage.errors import CorruptFile, CorruptObject
from kpystorage.remote.indexes import IndexType
from kpywire import error_codes
from kpywire.aborted import Aborted
from kpywire.errors import Malformed

ONE_BATCH: Final = ScanFetching(max_bytes=1, max_wait_ms=0)
AbortedStarts = set[tuple[int, int]]
"""(first offset, producer) of aborted transactions."""


class ObjectsGone(Exception):
    """Objects, or the offset itself, were deleted since the scan was planned."""


class ObjectTransport:
    """Reads a range from the store as far as it was copied, and the rest in another way."""

    def __init__(
        self,
        copied: CopiedPartitions,
        store: TierStore,
        other: Callable[[], Transport],
        connect: Callable[[], Client],
        *,
        may_give_up: bool,
    ) -> None:
        """``other`` makes the transport for the rest, ``connect`` a client. ``may_give_up``: whether a store that
        cannot be read is no error, and ``other`` reads everything."""
        self._copied = copied
        self._store = store
        self._new_other = other
        self._other: Transport | None = None
        self._connect = connect
        self._may_give_up = may_give_up

    def close(self) -> None:
        self._store.close()
        if self._other is not None:
            self._other.close()

    def pieces(self, part: OffsetRange, wanted: Projection) -> Iterator[FetchedPiece]:
        """The batches of a range; see `Transport`."""
        offset = part.start_offset
        mine = self._copied.partitions.get(part.spot)
        mine = None if mine is None else mine.only(part.start_offset, part.end_offset)
        if mine is not None:
            try:
                storage = self._store.opened()
                aborted = Aborted(self._aborted(storage, part, mine) if wanted.committed_only else ())
                for copy in mine.ranges:
                    for piece in _pieces_of(storage, part, mine, copy, aborted):
                        yield piece
                        offset = after(piece.data, offset, part)
                    offset = max(offset, min(copy.end_offset, mine.end_offset))
            except (ObjectMissing, ObjectsGone):
                pass  # retention: the log begins later now, or another copy was made
            except (StoreFailed, BadStore) as error:
                if not self._may_give_up:
                    raise ScanError(f"{part}: {error}") from None
            except (CorruptObject, CorruptFile, Malformed) as error:
                raise ScanError(f"{part}: {error}") from None
        if offset < part.end_offset:
            if self._other is None:
                self._other = self._new_other()
            yield from self._other.pieces(part._replace(start_offset=offset), wanted)

    def _aborted(self, storage: RemoteStorage, part: OffsetRange, mine: CopiedPartition) -> AbortedStarts:
        """The aborted transactions with records in what is read from the store. The broker is asked only about those
        that end behind all copies that the plan names."""
        start, end, last = part.start_offset, mine.end_offset, mine.ranges[-1]
        own = [each for each in mine.with_transactions if each.start_offset < last.end_offset]
        found, are_all = _aborted_in(storage, own, start, end)
        if are_all or not _is_open_behind(storage, last, end):
            return found
        more, are_all = _aborted_in(storage, mine.with_transactions[len(own) :], start, end)
        return found | more if are_all else found | more | self._aborted_by_broker(part, end)

    def _aborted_by_broker(self, part: OffsetRange, end: int) -> AbortedStarts:
        """The aborted transactions with a record before ``end`` that end behind it: those of the last record before."""
        spot = Spot(*part.spot)
        with self._connect() as client:
            answer = None
            while answer is None:  # the broker throttles this client
                answer = client.retrying(
                    lambda: fetch(client, spot, part.topic_id, end - 1, ONE_BATCH, committed_only=True)
                )
        if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            raise ObjectsGone(f"{part}: offset {end - 1} is gone")
        return {(each.first_offset, each.producer_id) for each in answer.aborted_transactions or ()}


def _pieces_of(
    storage: RemoteStorage, part: OffsetRange, mine: CopiedPartition, copy: CopiedRange, aborted: Aborted
) -> Iterator[FetchedPiece]:
    """The batches of one copy."""
    segment = copy.segment
    found = segment_reads.find(storage, segment, max(part.start_offset, copy.start_offset))
    if found is not None:
        place = f"{storage.name}: the segment of {part.topic}-{part.partition} at offset {segment.start_offset}"
        file, end = SegmentFile(storage, segment), min(copy.end_offset, mine.end_offset)
        for data in whole_batches(file, place, found[0], segment.size_bytes, end):
            yield FetchedPiece(data, aborted)


def _aborted_in(
    storage: RemoteStorage, copies: Iterable[CopiedRange], start: int, end: int
) -> tuple[AbortedStarts, bool]:
    """The aborted transactions with records in ``start .. end`` that indexes name, and whether these are all. Behind
    the end of a copy its index may name those of another leader."""
    found: AbortedStarts = set()
    for copy in copies:
        entries, are_all = segment_reads.aborted_transactions(storage, copy.segment, start, end)
        found |= {(each.first_offset, each.producer_id) for each in entries if each.last_offset < copy.end_offset}
        if are_all and copy.end_offset == copy.segment.next_offset:
            return found, True
    return found, False


def _is_open_behind(storage: RemoteStorage, copy: CopiedRange, end: int) -> bool:
    """Whether a transaction with a record before ``end`` may end behind a copy, by its snapshot of producers."""
    if copy.end_offset != copy.segment.next_offset:
        return True
    snapshot = storage.index(copy.segment, IndexType.PRODUCER_SNAPSHOT)
    place = f"{storage.name}: the producers at offset {copy.end_offset}"
    entries = producer_snapshot.parse(snapshot or b"", place)
    return any(0 <= each.transaction_first_offset < end for each in entries)
