"""The stored form of a chunk: as it is, a zstd frame that tells its size, encrypted, or the encrypted frame.

Invariant: a chunk is restored to its size, or CorruptObject is raised; the output is bounded while it is inflated.
"""

from typing import Final, NamedTuple

from kpystorage.errors import CorruptObject
from kpystorage.remote.chunks import Chunk, ChunkIndex, FixedChunks, VariableChunks
from kpystorage.remote.encryption import ADDED_BYTES, SegmentKey
from kpywire.compression import ZSTD, compress, decompress
from kpywire.errors import Malformed
from kpywire.varint import Buffer

_FRAME_BYTES: Final = 1024
"""The bytes that a frame of zstd takes at most where nothing can be compressed, apart from 1 in 128."""


class Transform(NamedTuple):
    """How the chunks of a segment are stored. ``key`` is None where they are not encrypted."""

    compressed: bool = False
    key: SegmentKey | None = None

    def store(self, chunk: Buffer) -> Buffer:
        """The stored form of a chunk; the chunk itself if it is stored as it is."""
        stored: Buffer = compress(ZSTD, chunk) if self.compressed else chunk
        return stored if self.key is None else self.key.encrypt(stored)

    def restore(self, chunk: Chunk, stored: Buffer) -> Buffer:
        """The chunk in its stored form. CorruptObject if that is damaged or of another size."""
        if len(stored) != chunk.stored_size:
            raise CorruptObject(f"chunk {chunk.number} has {len(stored)} bytes where {chunk.stored_size} are stored")
        try:
            frame = stored if self.key is None else self.key.decrypt(stored)
            restored = decompress(ZSTD, frame, chunk.size) if self.compressed else frame
        except (Malformed, CorruptObject) as error:
            raise CorruptObject(f"chunk {chunk.number} cannot be restored: {error}") from None
        if len(restored) != chunk.size:
            raise CorruptObject(f"chunk {chunk.number} has {len(restored)} bytes where {chunk.size} are expected")
        return restored


def bounds(size: int, *, compressed: bool, encrypted: bool) -> tuple[int, int]:
    """The least and the most bytes that a chunk of ``size`` bytes takes when it is stored."""
    added = ADDED_BYTES if encrypted else 0
    if not compressed:
        return size + added, size + added
    return 1 + added, size + (size >> 7) + _FRAME_BYTES + added


class ChunkWriter:
    """The stored form of a segment, made chunk by chunk, and then the index of its chunks."""

    def __init__(self, segment_bytes: int, chunk_bytes: int, transform: Transform) -> None:
        self._segment_bytes, self._chunk_bytes, self._transform = segment_bytes, chunk_bytes, transform
        self._sizes: list[int] = []
        self._taken = 0

    def add(self, chunk: Buffer) -> Buffer:
        """The stored form of the next chunk. ValueError if it does not have the size of a chunk here."""
        expected = min(self._chunk_bytes, self._segment_bytes - self._taken)
        if len(chunk) != expected or not chunk:
            raise ValueError(f"a chunk of {len(chunk)} bytes where {expected} follow")
        self._taken += len(chunk)
        stored = self._transform.store(chunk)
        self._sizes.append(len(stored))
        return stored

    def index(self) -> ChunkIndex:
        """The index of the chunks. ValueError if bytes of the segment are missing."""
        if self._taken != self._segment_bytes:
            raise ValueError(f"chunks with {self._taken} of {self._segment_bytes} bytes")
        if self._transform.compressed and self._sizes:
            return VariableChunks(self._segment_bytes, self._chunk_bytes, self._sizes)
        whole, _ = bounds(self._chunk_bytes, compressed=False, encrypted=self._transform.key is not None)
        return FixedChunks(self._segment_bytes, self._chunk_bytes, whole, self._sizes[-1] if self._sizes else 0)
