"""Segments for tests of stores: real batches in a file, with indexes, and stores that hold them."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from kpybroker.hosts.remote_log.chunk_cache import ChunkCache
from kpybroker.hosts.remote_log.chunked_storage import ChunkedForm, ChunkedStorage
from kpybroker.hosts.remote_log.disk_chunks import ChunkName, DiskChunks
from kpybroker.hosts.remote_log.object_store import ObjectStore
from kpybroker.hosts.remote_log.open_segments import OpenSegments
from kpybroker.hosts.remote_log.recent_bytes import RecentBytes
from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles, CopyLimits
from kpybroker.machines.remote_log.segments import STARTED, RemoteLogSegment, RemoteLogSegmentId
from kpystorage.log_slice import LogSlice
from kpywire.compression import GZIP, NONE
from kpywire.record import Record, build_batch

NO_LIMITS = CopyLimits(lambda: False, lambda _size: None)
NEVER_MS = -1


class HeldFile:
    """The descriptor of a file whose bytes are in memory."""

    def __init__(self, held: bytes) -> None:
        self.held = held
        self.largest_read = 0

    def pread(self, length: int, position: int) -> bytes:
        self.largest_read = max(self.largest_read, length)
        return self.held[position : position + length]

    def fsync(self) -> None: ...

    def confirm(self) -> None: ...

    def drop_cache(self, position: int, end: int) -> None: ...

    def fileno(self) -> int:
        return -1


class Tiered(NamedTuple):
    """A segment and its files."""

    segment: RemoteLogSegment
    files: ClosedSegmentFiles
    log: bytes


def log_of(size: int, seed: object = 1, *, compressed: bool = False) -> bytes:
    """Batches with about ``size`` bytes."""
    rng = Random(str(seed))
    parts: list[bytes] = []
    offset = written = 0
    while written < size:
        value = rng.randbytes(min(20 + rng.randrange(400), size)) + bytes(rng.randrange(200))
        codec = GZIP if compressed else NONE
        batch = build_batch([Record(timestamp=1000 + offset, value=value)], base_offset=offset, codec=codec)
        parts.append(batch)
        written += len(batch)
        offset += 1
    return b"".join(parts)


def tiered(log: bytes, seed: object = 1, *, with_transactions: bool = True, start_offset: int = 0) -> Tiered:
    """A segment with this log file."""
    rng = Random(f"segment {seed}")
    files = ClosedSegmentFiles(
        log=LogSlice(HeldFile(log), 0, len(log)),
        offset_index=b"".join(number.to_bytes(4, "big") * 2 for number in range(1, rng.randrange(2, 30))),
        time_index=b"".join(n.to_bytes(8, "big") + n.to_bytes(4, "big") for n in range(rng.randrange(30))),
        transaction_index=b"" if with_transactions else None,
        producer_snapshot=rng.randbytes(rng.randrange(50)),
        leader_epochs=b"0\n1\n0 0\n",
    )
    of = RemoteLogSegmentId(rng.randbytes(16), "topic", rng.randrange(4), rng.randbytes(16))
    end = start_offset + 99
    segment = RemoteLogSegment(of, start_offset, end, 1, 5, 6, ((0, start_offset),), len(log), None, STARTED, False)
    return Tiered(segment, files, log)


def chunked(
    store: ObjectStore,
    form: ChunkedForm | None = None,
    *,
    memory_bytes: int = 1 << 20,
    disk: Path | None = None,
    disk_bytes: int = 1 << 20,
    prefetch_bytes: int = 0,
) -> ChunkedStorage:
    """A storage in Aiven's layout, whose caches are empty."""
    form = form or ChunkedForm("p/", 1000)
    memory: RecentBytes[ChunkName] = RecentBytes(memory_bytes, NEVER_MS, lambda: 0)
    cache = ChunkCache(memory, None if disk is None else DiskChunks(str(disk), disk_bytes, NEVER_MS), prefetch_bytes)
    return ChunkedStorage(store, form, cache, OpenSegments(store, form.key_prefix, form.key_ring, 100), None)


def ranges(rng: Random, size: int, count: int) -> Iterator[tuple[int, int]]:
    """Ranges of a file, some at its ends, some over its end."""
    yield from ((0, size), (0, 1), (max(0, size - 1), size), (size, size + 5), (0, 0))
    for _ in range(count):
        start = rng.randrange(size)
        yield start, start + rng.randrange(size)
