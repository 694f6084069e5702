"""The chunks of a segment: where each begins, in the segment and in the ``.log`` object that stores it.

A segment is cut into chunks of one size, only the last is smaller. Each is stored on its own, so a range of the segment
is read by the chunks that it touches. Stored chunks are of one size as well (plain, encrypted) or of many (compressed).

Invariant: chunks follow one another without gap or overlap, on both sides.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from kpystorage.errors import CorruptObject
from kpystorage.remote.segment_name import MOST_INT

MOST_CHUNKS: Final = 1 << 20
"""The most chunks of different sizes. A segment of 2 GiB in chunks of 2 KiB has as many."""


class Chunk(NamedTuple):
    """One chunk: where it is in the segment, and where in the object."""

    number: int
    start: int
    size: int
    stored_start: int
    stored_size: int


class Piece(NamedTuple):
    """The part of a chunk that a range wants: bytes ``start`` to ``end`` of the restored chunk."""

    chunk: Chunk
    start: int
    end: int


class ChunkIndex(ABC):
    """The chunks of one segment. ``segment_bytes`` is its size, ``chunk_bytes`` that of all its chunks but the last."""

    def __init__(self, segment_bytes: int, chunk_bytes: int) -> None:
        if not 0 <= segment_bytes <= MOST_INT:
            raise CorruptObject(f"a segment of {segment_bytes} bytes")
        if not 1 <= chunk_bytes <= MOST_INT:
            raise CorruptObject(f"chunks of {chunk_bytes} bytes")
        self.segment_bytes = segment_bytes
        self.chunk_bytes = chunk_bytes
        self.count = -(-segment_bytes // chunk_bytes)

    @abstractmethod
    def stored_end(self, number: int) -> int:
        """The end of a stored chunk."""

    @property
    def stored_bytes(self) -> int:
        """The size of the object."""
        return self.stored_end(self.count - 1) if self.count else 0

    def chunk(self, number: int) -> Chunk:
        """One of the chunks. IndexError if there is none of this number."""
        if not 0 <= number < self.count:
            raise IndexError(f"chunk {number} of {self.count}")
        start = number * self.chunk_bytes
        stored_start = self.stored_end(number - 1) if number else 0
        stored_size = self.stored_end(number) - stored_start
        return Chunk(number, start, min(self.chunk_bytes, self.segment_bytes - start), stored_start, stored_size)

    def numbers(self, start: int, end: int) -> range:
        """The numbers of the chunks with bytes ``start`` to ``end`` of the segment, whose end cuts the range."""
        if start < 0:
            raise ValueError(f"bytes from {start} on")
        end = min(end, self.segment_bytes)
        return range(start // self.chunk_bytes, -(-end // self.chunk_bytes)) if start < end else range(0)

    def stored_range(self, numbers: range) -> tuple[int, int]:
        """The bytes of the object with these chunks, which follow one another: start and end."""
        return (self.chunk(numbers[0]).stored_start, self.stored_end(numbers[-1])) if numbers else (0, 0)

    def pieces(self, start: int, end: int) -> Iterator[Piece]:
        """The chunks with bytes ``start`` to ``end`` of the segment, and the part of each that belongs to them."""
        for number in self.numbers(start, end):
            chunk = self.chunk(number)
            yield Piece(chunk, max(0, start - chunk.start), min(chunk.size, end - chunk.start))


class FixedChunks(ChunkIndex):
    """Stored chunks of one size, and a last one. ``stored_chunk_bytes`` may be that of a chunk which is not there."""

    def __init__(self, segment_bytes: int, chunk_bytes: int, stored_chunk_bytes: int, last_stored_bytes: int) -> None:
        super().__init__(segment_bytes, chunk_bytes)
        for size in (stored_chunk_bytes, last_stored_bytes):
            if not 0 <= size <= MOST_INT:
                raise CorruptObject(f"a stored chunk of {size} bytes")
        self.stored_chunk_bytes = stored_chunk_bytes
        self.last_stored_bytes = last_stored_bytes

    def stored_end(self, number: int) -> int:
        if number == self.count - 1:
            return number * self.stored_chunk_bytes + self.last_stored_bytes
        return (number + 1) * self.stored_chunk_bytes

    def extremes(self) -> list[tuple[int, int, int]]:
        """(size, least and most stored size) of whole chunks and of the last one, as far as there are any."""
        found = []
        if self.count > 1:
            found.append((self.chunk_bytes, self.stored_chunk_bytes, self.stored_chunk_bytes))
        if self.count:
            found.append((self.chunk(self.count - 1).size, self.last_stored_bytes, self.last_stored_bytes))
        return found


class VariableChunks(ChunkIndex):
    """Stored chunks with a size each, of which the ends are kept."""

    def __init__(self, segment_bytes: int, chunk_bytes: int, stored_sizes: Sequence[int]) -> None:
        super().__init__(segment_bytes, chunk_bytes)
        if self.count > MOST_CHUNKS:
            raise CorruptObject(f"{self.count} chunks, more than {MOST_CHUNKS}")
        if len(stored_sizes) != self.count:
            raise CorruptObject(f"{len(stored_sizes)} chunks where the sizes of segment and chunk give {self.count}")
        if self.count and not 0 <= min(stored_sizes) <= max(stored_sizes) <= MOST_INT:
            raise CorruptObject("a stored chunk with a size below 0 or beyond 2**31")
        self._ends = array("q", accumulate(stored_sizes))

    def stored_end(self, number: int) -> int:
        return self._ends[number]

    def stored_sizes(self) -> list[int]:
        """The size of each stored chunk."""
        ends = self._ends.tolist()
        return [end - start for start, end in zip([0, *ends], ends, strict=False)]

    def extremes(self) -> list[tuple[int, int, int]]:
        """(size, least and most stored size) of whole chunks and of the last one, as far as there are any."""
        sizes = self.stored_sizes()
        found = []
        if self.count > 1:
            found.append((self.chunk_bytes, min(sizes[:-1]), max(sizes[:-1])))
        if self.count:
            found.append((self.chunk(self.count - 1).size, sizes[-1], sizes[-1]))
        return found
