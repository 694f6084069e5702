"""The segments of Aiven's layout that were read lately: their manifests, and the checksums of their chunks.

Invariant: a manifest that is used belongs to the segment in whose place it was found.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import urandom
from threading import Lock
from typing import Final

from kpybroker.hosts.remote_log.flights import Flights
from kpybroker.hosts.remote_log.object_store import ObjectStore
from kpybroker.hosts.remote_log.remote_storage import StoreFailed
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpystorage.errors import CorruptObject
from kpystorage.remote import chunk_checksums, custom_metadata, indexes, manifest
from kpystorage.remote.chunks import ChunkIndex
from kpystorage.remote.encryption import SegmentKey
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.key_ring import KeyRing
from kpystorage.remote.keys import ObjectKind, object_key
from kpystorage.remote.manifest import SegmentManifest
from kpystorage.remote.segment_name import RemoteSegmentName
from kpystorage.remote.transforms import Transform
from kpywire.crc import crc32c
from kpywire.varint import Buffer

_NO_CHECKSUMS: Final[Sequence[int]] = ()


def name_of(segment: RemoteLogSegment) -> RemoteSegmentName:
    """The facts that the keys of a segment are made of."""
    of = segment.id
    return RemoteSegmentName(of.topic, of.topic_id, of.partition, segment.start_offset, of.segment_id)


class OpenSegment:
    """A segment whose manifest was read. The source of its chunks for the cache."""

    def __init__(
        self,
        store: ObjectStore,
        name: RemoteSegmentName,
        keys: dict[ObjectKind, str],
        found: SegmentManifest,
        how: Transform,
    ) -> None:
        self.segment_id = name.segment_id
        self.chunks: ChunkIndex = found.chunks
        self.count = found.chunks.count
        self.chunk_bytes = found.chunks.chunk_bytes
        self._store = store
        self._keys = keys
        self._places = found.indexes
        self._transform = how
        self._checksums: Sequence[int] | None = None
        self._lock = Lock()

    @property
    def has_no_checksums(self) -> bool:
        """Whether its chunks are known to have no checksums."""
        return self._checksums is _NO_CHECKSUMS

    def fetch(self, numbers: range) -> list[Buffer]:
        """Chunks that lie side by side, by one request, each compared with its checksum."""
        checksums = self._known_checksums()
        start, end = self.chunks.stored_range(numbers)
        stored = memoryview(self._store.get_range(self._keys[ObjectKind.LOG], start, end))
        found: list[Buffer] = []
        for number in numbers:
            chunk = self.chunks.chunk(number)
            at = chunk.stored_start - start
            piece = stored[at : at + chunk.stored_size]
            if checksums and crc32c(piece) != checksums[number]:
                raise CorruptObject(f"chunk {number} does not have the checksum with which it was written")
            restored = self._transform.restore(chunk, piece)
            # A view of one chunk would keep the bytes of all in memory.
            found.append(bytes(restored) if len(numbers) > 1 and restored is piece else restored)
        return found

    def index(self, index: IndexType) -> bytes | None:
        """An index, restored; None if the segment has none of this type."""
        place = self._places.get(index)
        if place is None or not place.size:
            return None if place is None else b""
        key = self._keys[ObjectKind.INDEXES]
        stored = self._store.get_range(key, place.position, place.position + place.size)
        return bytes(indexes.restore(place, stored, self._transform.key))

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Put the name of the segment's objects before the words of a CorruptObject."""
        try:
            yield
        except CorruptObject as error:
            raise CorruptObject(f"{self._store.name}: {self._keys[ObjectKind.LOG]}: {error}") from None

    def _known_checksums(self) -> Sequence[int]:
        """The checksums, which one thread reads for all."""
        with self._lock:
            if self._checksums is None:
                self._checksums = self._read_checksums() or _NO_CHECKSUMS
            return self._checksums

    def _read_checksums(self) -> list[int] | None:
        end = max(place.position + place.size for place in self._places.values())
        size = chunk_checksums.stored_bytes(self.count, encrypted=self._transform.key is not None)
        if not (end and size):
            return None
        # A range has to begin in the object, so it begins with the last byte of the indexes.
        stored = memoryview(self._store.get_range(self._keys[ObjectKind.INDEXES], end - 1, end + size))[1:]
        return chunk_checksums.decode(stored, self.count, self._transform.key)


class OpenSegments:
    """The open segments, the least recently used first out."""

    def __init__(self, store: ObjectStore, key_prefix: str, key_ring: KeyRing | None, most: int) -> None:
        self._store = store
        self._key_prefix = key_prefix
        self._key_ring = key_ring
        self._most = most
        self._lock = Lock()
        self._open: OrderedDict[bytes, OpenSegment] = OrderedDict()
        self._flights: Flights[bytes, OpenSegment] = Flights()

    def open(self, segment: RemoteLogSegment) -> OpenSegment:
        """The segment, by its manifest. Blocks. StoreFailed, CorruptObject."""
        segment_id = segment.id.segment_id
        with self._lock:
            if segment_id in self._open:
                self._open.move_to_end(segment_id)
                return self._open[segment_id]
        mine, others = self._flights.claim([segment_id])
        if others:
            return others[segment_id].result()
        try:
            opened = self._read(segment)
        except Exception as error:
            self._flights.fail(mine, error)
            raise
        with self._lock:
            self._open[segment_id] = opened
            while len(self._open) > max(1, self._most):
                self._open.popitem(last=False)
        self._flights.settle(segment_id, opened)
        return opened

    def forget(self, segment: RemoteLogSegment) -> None:
        """Forget a segment that is deleted."""
        with self._lock:
            self._open.pop(segment.id.segment_id, None)

    def _read(self, segment: RemoteLogSegment) -> OpenSegment:
        name = name_of(segment)
        custom = custom_metadata.decode(segment.custom_metadata)
        keys = {kind: object_key(self._key_prefix, name, kind, custom) for kind in ObjectKind}
        key = keys[ObjectKind.MANIFEST]
        data = self._store.get(key, manifest.MOST_BYTES)
        try:
            found = manifest.parse(data)
            self._check(segment, found)
            return OpenSegment(self._store, name, keys, found, Transform(found.compressed, self._segment_key(found)))
        except CorruptObject as error:
            raise CorruptObject(f"{self._store.name}: {key}: {error}") from None

    @staticmethod
    def _check(segment: RemoteLogSegment, found: SegmentManifest) -> None:
        """Refuse the manifest of another segment."""
        if found.chunks.segment_bytes != segment.size_bytes:
            stored = found.chunks.segment_bytes
            raise CorruptObject(f"it is of a segment of {stored} bytes, the metadata have one of {segment.size_bytes}")
        if found.segment is not None and found.segment.name.segment_id != segment.id.segment_id:
            raise CorruptObject("it is the manifest of another segment")

    def _segment_key(self, found: SegmentManifest) -> SegmentKey | None:
        if found.encryption is None:
            return None
        if self._key_ring is None:
            raise StoreFailed(f"{self._store.name}: a segment is encrypted, and no keys are configured")
        return SegmentKey(self._key_ring.unwrap(found.encryption.data_key), found.encryption.aad, urandom)
