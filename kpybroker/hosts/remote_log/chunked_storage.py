"""Segments in Aiven's layout: stored in chunks, with their indexes beside them, and a manifest that is written last.

A copy streams the log file chunk by chunk; reads ask for the chunks that a range touches, through the chunk cache.
A chunk is compared with its checksum when it comes from the store. Objects that Aiven's plugin wrote have no checksums:
there the batches of a range are compared with theirs.

Invariant: a segment that has a manifest is stored as a whole.
"""

import logging
from collections.abc import Iterable, Iterator
from os import urandom
from secrets import token_hex
from typing import Final, NamedTuple

from kpybroker.hosts.remote_log import object_store
from kpybroker.hosts.remote_log.chunk_cache import ChunkCache
from kpybroker.hosts.remote_log.copy_parts import log_part, paced
from kpybroker.hosts.remote_log.object_store import ObjectStore
from kpybroker.hosts.remote_log.open_segments import OpenSegments, name_of
from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles, CopyLimits, StoreAway
from kpybroker.hosts.remote_log.upload_rate import UploadRate
from kpybroker.hosts.remote_log.whole_batches import check_batches
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.machines.remote_log.sweep import ListedObject
from kpystorage.remote import chunk_checksums, custom_metadata, indexes, manifest
from kpystorage.remote.custom_metadata import CustomMetadata
from kpystorage.remote.encryption import SegmentKey
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.key_ring import KeyRing
from kpystorage.remote.keys import ObjectKind, main_path, object_key, parse_key
from kpystorage.remote.manifest import DescribedSegment, SegmentEncryption, SegmentManifest
from kpystorage.remote.transforms import ChunkWriter, Transform
from kpywire.batch import ATTRIBUTES_POSITION, HEADER_BYTES
from kpywire.crc import crc32c
from kpywire.varint import Buffer

log = logging.getLogger(__name__)

_CODEC_BITS: Final = 7


class ChunkedForm(NamedTuple):
    """How new segments are stored."""

    key_prefix: str
    chunk_bytes: int
    compresses: bool = False
    leaves_compressed: bool = False
    """Whether a segment whose first batch is compressed is stored as it is."""
    key_ring: KeyRing | None = None
    """The keys under which new segments are encrypted; None if they are not."""
    custom_fields: frozenset[str] = frozenset()
    """The fields of custom metadata that are written, by Aiven's names."""


class ChunkedStorage:
    """`RemoteStorage` in a store, behind a chunk cache."""

    def __init__(
        self, store: ObjectStore, form: ChunkedForm, cache: ChunkCache, segments: OpenSegments, rate: UploadRate | None
    ) -> None:
        self._store = store
        self._form = form
        self._cache = cache
        self._segments = segments
        self._rate = rate

    @property
    def name(self) -> str:
        return f"{self._store.name}/{self._form.key_prefix}".rstrip("/")

    def check(self) -> None:
        object_store.check(self._store, f"{self._form.key_prefix}kpybroker-check-{token_hex(8)}")

    def copy(self, segment: RemoteLogSegment, files: ClosedSegmentFiles, limits: CopyLimits) -> bytes | None:
        copy = _Copy(self._store, self._form, segment, files, limits, self._rate)
        total = copy.write()
        log.debug("%s is stored in %s with %d bytes", main_path(name_of(segment)), self._store.name, total)
        return self._custom_metadata(segment, total)

    def read(self, segment: RemoteLogSegment, start: int, end: int) -> bytes:
        opened = self._segments.open(segment)
        with opened.naming():
            pieces = list(opened.chunks.pieces(start, end))
            if not pieces:
                return b""
            numbers = range(pieces[0].chunk.number, pieces[-1].chunk.number + 1)
            chunks = self._cache.read(opened, numbers)
            parts = [memoryview(chunk)[each.start : each.end] for chunk, each in zip(chunks, pieces, strict=True)]
            found = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
            if opened.has_no_checksums:
                check_batches(found, start)
            return found

    def index(self, segment: RemoteLogSegment, index: IndexType) -> bytes | None:
        opened = self._segments.open(segment)
        with opened.naming():
            return opened.index(index)

    def delete(self, segment: RemoteLogSegment) -> None:
        custom = custom_metadata.decode(segment.custom_metadata)
        # Without its manifest the segment cannot be read, whatever of the rest is left.
        keys = [
            object_key(self._form.key_prefix, name_of(segment), kind, custom)
            for kind in (ObjectKind.MANIFEST, ObjectKind.LOG, ObjectKind.INDEXES)
        ]
        self._segments.forget(segment)
        self._store.delete(keys)
        self._cache.remove_segment(segment.id.segment_id)

    def listed(self) -> Iterator[ListedObject]:
        for each in self._store.listed(self._form.key_prefix):
            found = parse_key(self._form.key_prefix, each.key)
            if found is not None:
                name = found.segment
                yield ListedObject(each.key, name.topic_id, name.partition, name.segment_id, each.size_bytes)

    def delete_objects(self, objects: Iterable[ListedObject]) -> None:
        self._store.delete([each.key for each in objects])

    def close(self) -> None:
        self._cache.close()
        self._store.close()

    def _custom_metadata(self, segment: RemoteLogSegment, total: int) -> bytes | None:
        fields = self._form.custom_fields
        if not fields:
            return None
        return custom_metadata.encode(
            CustomMetadata(
                total if "REMOTE_SIZE" in fields else None,
                self._form.key_prefix if "OBJECT_PREFIX" in fields else None,
                main_path(name_of(segment)) if "OBJECT_KEY" in fields else None,
            )
        )


class _Copy:
    """One copy of a segment."""

    def __init__(
        self,
        store: ObjectStore,
        form: ChunkedForm,
        segment: RemoteLogSegment,
        files: ClosedSegmentFiles,
        limits: CopyLimits,
        rate: UploadRate | None,
    ) -> None:
        self._store, self._form, self._segment, self._files = store, form, segment, files
        self._limits, self._rate = limits, rate
        self._key = SegmentKey.new(urandom) if form.key_ring is not None else None
        self._transform = Transform(self._is_compressed(), self._key)
        self._writer = ChunkWriter(len(files.log), form.chunk_bytes, self._transform)
        self._checksums: list[int] = []
        self._stored_bytes = 0

    def write(self) -> int:
        """Write the three objects; their bytes. CopyStopped, StoreFailed."""
        self._put(ObjectKind.LOG, self._stored_chunks())
        log_bytes = self._stored_bytes
        key = self._object_key(ObjectKind.LOG)
        found = self._store.size(key)
        if found != log_bytes:
            raise StoreAway(f"{self._store.name}: {key} has {found} bytes after {log_bytes} were written")
        parts, places = indexes.join(self._index_files(), self._key)
        parts = [part for part in (*parts, chunk_checksums.encode(self._checksums, self._key)) if part]
        self._put(ObjectKind.INDEXES, parts)
        self._put(ObjectKind.MANIFEST, [manifest.render(self._manifest(places))])
        return self._stored_bytes

    def _put(self, kind: ObjectKind, parts: Iterable[Buffer]) -> None:
        self._store.put(self._object_key(kind), self._counted(parts))

    def _object_key(self, kind: ObjectKind) -> str:
        return object_key(self._form.key_prefix, name_of(self._segment), kind)

    def _stored_chunks(self) -> Iterator[Buffer]:
        size = len(self._files.log)
        for start in range(0, size, self._form.chunk_bytes):
            chunk = log_part(self._files.log, start, min(self._form.chunk_bytes, size - start))
            stored = self._writer.add(chunk)
            self._checksums.append(crc32c(stored))
            yield stored

    def _counted(self, parts: Iterable[Buffer]) -> Iterator[Buffer]:
        for part in paced(parts, self._limits, self._rate):
            self._stored_bytes += len(part)
            yield part

    def _is_compressed(self) -> bool:
        """Whether the chunks are compressed; by the codec of the first batch if segments may be compressed already."""
        if not self._form.compresses or not self._form.leaves_compressed:
            return self._form.compresses
        size = min(HEADER_BYTES, len(self._files.log))
        head = log_part(self._files.log, 0, size)
        return size < HEADER_BYTES or not head[ATTRIBUTES_POSITION + 1] & _CODEC_BITS

    def _index_files(self) -> dict[IndexType, Buffer]:
        files = self._files
        found: dict[IndexType, Buffer] = {
            IndexType.OFFSET: files.offset_index,
            IndexType.TIMESTAMP: files.time_index,
            IndexType.PRODUCER_SNAPSHOT: files.producer_snapshot,
            IndexType.LEADER_EPOCH: files.leader_epochs,
        }
        if files.transaction_index is not None:
            found[IndexType.TRANSACTION] = files.transaction_index
        return found

    def _manifest(self, places: indexes.SegmentIndexes) -> SegmentManifest:
        encryption = None
        if self._key is not None and self._form.key_ring is not None:
            encryption = SegmentEncryption(self._form.key_ring.wrap(self._key.key), self._key.aad)
        segment = self._segment
        described = DescribedSegment(
            name_of(segment),
            segment.end_offset,
            segment.max_timestamp_ms,
            segment.broker_id,
            segment.event_timestamp_ms,
            segment.leader_epochs,
        )
        return SegmentManifest(self._writer.index(), places, self._transform.compressed, encryption, described)
