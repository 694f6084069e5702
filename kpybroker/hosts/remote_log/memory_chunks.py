"""Chunks in memory, the least recently used first out. The cache in front of the one on a disk.

Invariant: the chunks have at most ``most_bytes``, or there is one.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from kpywire.varint import Buffer


class ChunkName(NamedTuple):
    """A chunk of a segment."""

    segment_id: bytes
    number: int


class MemoryChunks:
    """Chunks by their names. A chunk that was not used for ``retention_ms`` leaves with the next one that comes."""

    def __init__(self, most_bytes: int, retention_ms: int, now_ms: Callable[[], int]) -> None:
        self._most_bytes = most_bytes
        self._retention_ms = retention_ms
        self._now_ms = now_ms
        self._lock = Lock()
        self._chunks: OrderedDict[ChunkName, tuple[Buffer, int]] = OrderedDict()
        self.bytes = 0

    def __contains__(self, name: ChunkName) -> bool:
        return name in self._chunks

    def get(self, name: ChunkName) -> Buffer | None:
        with self._lock:
            found = self._chunks.get(name)
            if found is None:
                return None
            self._chunks[name] = found[0], self._now_ms()
            self._chunks.move_to_end(name)
            return found[0]

    def put(self, name: ChunkName, chunk: Buffer) -> None:
        now_ms = self._now_ms()
        with self._lock:
            self._remove(name)
            self._chunks[name] = chunk, now_ms
            self.bytes += len(chunk)
            while len(self._chunks) > 1:
                oldest, (_, used_ms) = next(iter(self._chunks.items()))
                is_old = 0 <= self._retention_ms < now_ms - used_ms
                if self.bytes <= self._most_bytes and not is_old:
                    break
                self._remove(oldest)

    def remove_segment(self, segment_id: bytes) -> None:
        with self._lock:
            for name in [each for each in self._chunks if each.segment_id == segment_id]:
                self._remove(name)

    def _remove(self, name: ChunkName) -> None:
        removed = self._chunks.pop(name, None)
        if removed is not None:
            self.bytes -= len(removed[0])
