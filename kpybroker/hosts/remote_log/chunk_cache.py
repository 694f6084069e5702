"""The chunks of remote segments, as readers share them: in memory, on a disk if there is a cache there, in the store.

Several readers of a chunk make one request, and so do chunks that lie side by side. A reader that goes on from one
chunk to the next has those behind it fetched ahead.

Invariant: at most ``prefetch_bytes`` are fetched ahead of one reader, and four times as many ahead of all.
"""

import logging
from collections.abc import Iterator
from threading import Lock, Thread
from typing import Final, Protocol

from kpybroker.hosts.remote_log.disk_chunks import ChunkName, DiskChunks
from kpybroker.hosts.remote_log.flights import Flights
from kpybroker.hosts.remote_log.recent_bytes import RecentBytes
from kpybroker.hosts.remote_log.remote_storage import StoreFailed
from kpystorage.errors import CorruptObject
from kpywire.varint import Buffer

log = logging.getLogger(__name__)

_READERS_AHEAD: Final = 4
_REQUEST_BYTES: Final = 16 << 20
"""The most bytes of chunks that one request asks for, or one chunk."""


class ChunkSource(Protocol):
    """The chunks of one segment in its store."""

    segment_id: bytes
    count: int
    chunk_bytes: int

    def fetch(self, numbers: range) -> list[Buffer]:
        """Chunks that lie side by side, by one request; checked. Blocks; errors of the store pass."""


class ChunkCache:
    """The caches, and the requests under way."""

    def __init__(self, memory: RecentBytes[ChunkName], disk: DiskChunks | None, prefetch_bytes: int) -> None:
        self._memory = memory
        self._disk = disk
        self._prefetch_bytes = prefetch_bytes
        self._flights: Flights[ChunkName, Buffer] = Flights()
        self._lock = Lock()
        self._ahead_bytes = 0
        self._is_closed = False

    def read(self, source: ChunkSource, numbers: range) -> list[Buffer]:
        """These chunks. Blocks; the errors of the store pass."""
        if numbers and self._is_going_on(source, numbers[0]):
            self._fetch_ahead(source, numbers[-1] + 1)
        return self._chunks(source, numbers)

    def remove_segment(self, segment_id: bytes) -> None:
        """Forget the chunks of a segment that is deleted."""
        self._memory.remove_where(lambda name: name.segment_id == segment_id)
        if self._disk is not None:
            self._disk.remove_segment(segment_id)

    def close(self) -> None:
        """Fetch nothing ahead any more."""
        with self._lock:
            self._is_closed = True

    def _is_going_on(self, source: ChunkSource, number: int) -> bool:
        return number == 0 or ChunkName(source.segment_id, number - 1) in self._memory

    def _chunks(self, source: ChunkSource, numbers: range) -> list[Buffer]:
        found: dict[ChunkName, Buffer] = {}
        names = [ChunkName(source.segment_id, number) for number in numbers]
        missing = []
        for name in names:
            chunk = self._memory.get(name)
            if chunk is None:
                missing.append(name)
            else:
                found[name] = chunk
        if missing:
            mine, others = self._flights.claim(missing)
            try:
                self._fill(source, mine, found)
            except Exception as error:
                self._flights.fail(mine, error)
                raise
            for name, flight in others.items():
                found[name] = flight.result()
        return [found[name] for name in names]

    def _fill(self, source: ChunkSource, names: list[ChunkName], found: dict[ChunkName, Buffer]) -> None:
        """Get the chunks that were claimed, from the disk or the store."""
        absent = []
        for name in names:
            chunk = self._memory.get(name)  # it may have come since it was missed
            if chunk is None and self._disk is not None:
                chunk = self._disk.get(name)
            if chunk is None:
                absent.append(name)
            else:
                self._settle(name, chunk, found)
        for numbers in _side_by_side([name.number for name in absent], max(1, _REQUEST_BYTES // source.chunk_bytes)):
            chunks = source.fetch(numbers)
            for number, chunk in zip(numbers, chunks, strict=True):
                self._settle(ChunkName(source.segment_id, number), chunk, found)
            if self._disk is not None:
                for number, chunk in zip(numbers, chunks, strict=True):
                    self._disk.put(ChunkName(source.segment_id, number), chunk)

    def _settle(self, name: ChunkName, chunk: Buffer, found: dict[ChunkName, Buffer]) -> None:
        self._memory.put(name, chunk)
        self._flights.settle(name, chunk)
        found[name] = chunk

    def _fetch_ahead(self, source: ChunkSource, first: int) -> None:
        """Have the chunks from one on fetched by threads, as far as that is not under way."""
        most = self._prefetch_bytes // source.chunk_bytes
        for number in range(first, min(first + most, source.count)):
            name = ChunkName(source.segment_id, number)
            if name in self._memory or self._flights.is_claimed(name):
                continue
            with self._lock:
                is_full = self._ahead_bytes + source.chunk_bytes > _READERS_AHEAD * self._prefetch_bytes
                if self._is_closed or is_full:
                    return
                self._ahead_bytes += source.chunk_bytes
            # The end of the process does not wait for it.
            Thread(target=self._fetch_one_ahead, args=(source, number), name="remote-chunk", daemon=True).start()

    def _fetch_one_ahead(self, source: ChunkSource, number: int) -> None:
        try:
            self._chunks(source, range(number, number + 1))
        except (StoreFailed, CorruptObject) as error:
            log.debug("a chunk was not fetched ahead: %s", error)
        finally:
            with self._lock:
                self._ahead_bytes -= source.chunk_bytes


def _side_by_side(numbers: list[int], most: int) -> Iterator[range]:
    """Ascending numbers as ranges of at most ``most``."""
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1 or at - start == most:
            yield range(numbers[start], numbers[at - 1] + 1)
            start = at
