"""Scans of copies in a store: gaps, copies of lost leaders, and the parts of a plan that a task gets."""

from collections.abc import Iterable, Iterator
from random import Random
from struct import Struct
from typing import Any

import pytest
from stored_segments import NO_LIMITS, HeldFile, chunked

from kpybroker.hosts.remote_log.chunked_storage import ChunkedForm, ChunkedStorage
from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.lineage import copies
from kpybroker.machines.remote_log.segments import FINISHED, STARTED, RemoteLogSegment, RemoteLogSegmentId
from kpybroker.machines.scan.errors import ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan import objects
from kpybroker.pipeline.scan.objects import ObjectTransport
from kpybroker.pipeline.scan.reading import rows
from kpybroker.pipeline.scan.transport import FetchedPiece
from kpybroker.pipeline.tiers.copied import MOST_FOLLOWING, CopiedPartition, CopiedPartitions, copied_partition
from kpystorage import producer_snapshot
from kpystorage.log_slice import LogSlice
from kpystorage.producer_snapshot import SnapshotEntry
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire.messages.fetch import PartitionData
from kpywire.record import Record, build_batch

TOPIC_ID = bytes(range(16))
ENTRY = Struct(">hqqqq")


class Lineage:
    """A partition's copies in a store in memory, and the history of its leader."""

    def __init__(self, rng: Random, epochs: list[tuple[int, int]]) -> None:
        self.rng = rng
        self.epochs = epochs
        self.storage: ChunkedStorage = chunked(MemoryStore(), ChunkedForm("p/", 200))
        self.segments = RemoteSegments(TOPIC_ID, "t", 0)

    def copy(
        self,
        name: str,
        batches: Iterable[tuple[int, int]],
        epochs: tuple[tuple[int, int], ...],
        aborted: Iterable[TransactionIndexEntry] = (),
        opened: Iterable[int] = (),
        producer_id: int = -1,
    ) -> None:
        """Copy a segment with batches of these base offsets and numbers of records; each value says ``name`` and its
        offset."""
        listed = list(batches)
        parts = []
        for base, count in listed:
            epoch = max(each for each in epochs if each[1] <= base)[0]
            records = [Record(timestamp=1, value=f"{name}{base + at}".encode()) for at in range(count)]
            identity = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
            data = build_batch(
                records,
                base_offset=base,
                codec=self.rng.randrange(5),
                partition_leader_epoch=epoch,
                **(identity if producer_id >= 0 else {}),
            )
            parts.append(data)
        log = b"".join(parts)
        entries = [SnapshotEntry(1, 0, 0, 0, 0, 0, 0, first) for first in opened]
        index = b"".join(ENTRY.pack(0, *each) for each in aborted)
        files = ClosedSegmentFiles(
            LogSlice(HeldFile(log), 0, len(log)), b"", b"", index, producer_snapshot.render(entries), b""
        )
        of = RemoteLogSegmentId(TOPIC_ID, "t", 0, self.rng.randbytes(16))
        end = listed[-1][0] + listed[-1][1] - 1
        segment = RemoteLogSegment(of, listed[0][0], end, 1, 1, 1, epochs, len(log), None, STARTED, not index)
        self.storage.copy(segment, files, NO_LIMITS)
        self.segments.apply(segment)
        self.segments.apply(segment.update(FINISHED, 1, 2))

    def partition(self, start: int, end: int, *, committed_only: bool = True) -> CopiedPartition:
        found = copied_partition(copies(self.segments, self.epochs, start), end, committed_only=committed_only)
        assert found is not None
        return found

    def read(self, start: int, end: int, *, committed: bool = False) -> list[str]:
        part = OffsetRange("t", TOPIC_ID, 0, start, end)
        copied = CopiedPartitions({part.spot: self.partition(start, end)})
        store: Any = OpenStore(self.storage)
        transport = ObjectTransport(copied, store, Nothing, no_client, may_give_up=False)
        found = rows(transport, part, Projection(("value",), committed_only=committed))
        return [row["value"].decode() for batch in found for row in batch.to_pylist()]


class OpenStore:
    """A store that is open."""

    def __init__(self, storage: ChunkedStorage) -> None:
        self.storage = storage

    def opened(self) -> ChunkedStorage:
        return self.storage

    def close(self) -> None: ...


class Nothing:
    """A transport that is never asked."""

    def pieces(self, part: OffsetRange, _wanted: Projection) -> Iterator[FetchedPiece]:
        raise AssertionError(f"{part} is read by another transport")

    def close(self) -> None: ...


class NoClient:
    """A client in whose place a test answers."""

    def __enter__(self) -> "NoClient":
        return self

    def __exit__(self, *_: object) -> None: ...

    def retrying(self, attempt: Any) -> Any:
        return attempt()


def no_client() -> Any:
    return NoClient()


def singles(first: int, last: int, size: int = 1) -> list[tuple[int, int]]:
    return [(at, min(size, last - at)) for at in range(first, last, size)]


def test_records_of_a_lost_leader_are_not_read() -> None:
    """The first copy goes on to offset 80 in an epoch that ended at 50 in the leader's history."""
    world = Lineage(Random(1), [(0, 0), (2, 50)])
    world.copy("a", singles(0, 80, 5), ((0, 0),))
    world.copy("b", singles(50, 100, 5), ((2, 50),))
    wanted = [f"a{at}" for at in range(50)] + [f"b{at}" for at in range(50, 100)]
    for start, end in ((0, 100), (0, 50), (50, 100), (20, 70), (47, 53), (79, 80), (3, 4)):
        assert world.read(start, end) == wanted[start:end]


def test_offsets_without_records_are_passed_over() -> None:
    world = Lineage(Random(2), [(0, 0)])
    world.copy("a", [(0, 3), (9, 2), (30, 1)], ((0, 0),))
    world.copy("a", [(31, 2), (60, 4)], ((0, 31),))
    world.copy("a", [(64, 1), (90, 1)], ((0, 64),))
    there = [0, 1, 2, 9, 10, 30, 31, 32, 60, 61, 62, 63, 64, 90]
    for start, end in ((0, 91), (3, 9), (4, 31), (5, 61), (33, 60), (65, 90), (65, 91)):
        assert world.read(start, end) == [f"a{at}" for at in there if start <= at < end]


def test_an_abort_that_only_a_lost_leader_knows_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction of producer 1 from offset 40 on was aborted at 60 in the copy, and committed by the leader."""
    world = Lineage(Random(3), [(0, 0), (2, 50)])
    world.copy("a", singles(40, 80), ((0, 40),), [TransactionIndexEntry(1, 40, 60, 61)], producer_id=1)
    asked: list[int] = []

    def fetch(_client: Any, _spot: Any, _id: Any, offset: int, *_: Any, **__: Any) -> PartitionData:
        asked.append(offset)
        return PartitionData(partition_index=0, high_watermark=100, aborted_transactions=[])

    monkeypatch.setattr(objects, "fetch", fetch)
    assert world.read(40, 50, committed=True) == [f"a{at}" for at in range(40, 50)]
    assert asked == [49]


def test_aborts_are_found_in_later_copies_and_in_snapshots() -> None:
    world = Lineage(Random(4), [(0, 0)])
    world.copy("a", singles(0, 10), ((0, 0),), opened=[4], producer_id=1)
    world.copy("a", singles(10, 20), ((0, 10),), opened=[4], producer_id=2)
    world.copy("a", singles(20, 30), ((0, 20),), [TransactionIndexEntry(1, 4, 25, 26)], producer_id=2)
    assert world.read(0, 10, committed=True) == [f"a{at}" for at in range(4)]
    assert world.read(0, 4, committed=True) == [f"a{at}" for at in range(4)]
    assert world.read(10, 15, committed=True) == [f"a{at}" for at in range(10, 15)]


def test_bytes_that_are_no_batch_are_an_error() -> None:
    world = Lineage(Random(5), [(0, 0)])
    world.copy("a", [(0, 5)], ((0, 0),))
    held = world.partition(0, 5).ranges[0].segment
    read = world.storage.read
    world.storage.read = lambda segment, start, end: read(segment, start, end)[:-1] + b"?"  # type: ignore[method-assign]
    with pytest.raises(ScanError, match=r"^t-0 \[0, 5\): "):
        world.read(0, 5)
    assert held.size_bytes


def test_a_task_gets_its_copies_and_some_behind_them() -> None:
    world = Lineage(Random(6), [(0, 0)])
    aborted = [TransactionIndexEntry(1, 0, 0, 0)]
    for base in range(0, 300, 10):
        world.copy("a", singles(base, base + 10), ((0, base),), aborted)
    whole = world.partition(0, 200)
    assert (len(whole.ranges), len(whole.with_transactions), whole.end_offset) == (20, 20 + MOST_FOLLOWING, 200)
    mine = whole.only(95, 121)
    assert mine is not None
    assert [each.start_offset for each in mine.ranges] == [90, 100, 110, 120]
    assert [each.start_offset for each in mine.with_transactions] == list(range(90, 130 + 10 * MOST_FOLLOWING, 10))
    assert (whole.only(200, 210), whole.only(5, 5)) == (None, None)
    assert world.partition(0, 200, committed_only=False).with_transactions == ()
    found = CopiedPartitions({("t", 0): whole})
    part = OffsetRange("t", TOPIC_ID, 0, 0, 300)
    assert found.rest([part, part._replace(partition=1)]) == [
        part._replace(start_offset=200),
        part._replace(partition=1),
    ]
    assert found.rest([part._replace(end_offset=200)]) == []
