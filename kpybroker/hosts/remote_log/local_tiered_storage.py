"""Segments in the layout of Kafka's LocalTieredStorage: each file of a segment is a file in a directory.

It is the store of Kafka's own tests, without checksums: the batches of a range that is read are compared with theirs.
"""

from collections.abc import Iterable, Iterator
from secrets import token_hex
from typing import Final

from kpybroker.hosts.remote_log import object_store
from kpybroker.hosts.remote_log.copy_parts import log_part, paced
from kpybroker.hosts.remote_log.object_store import ObjectStore
from kpybroker.hosts.remote_log.open_segments import name_of
from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles, CopyLimits, ObjectMissing
from kpybroker.hosts.remote_log.whole_batches import check_batches
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.machines.remote_log.sweep import ListedObject
from kpystorage.log_slice import LogSlice
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.local_tiered_storage import ROOT, LocalFile, parse_path, path
from kpystorage.remote.segment_name import MOST_INT
from kpywire.varint import Buffer

_PART_BYTES: Final = 4 << 20
_FILES: Final = {
    IndexType.OFFSET: LocalFile.OFFSET_INDEX,
    IndexType.TIMESTAMP: LocalFile.TIME_INDEX,
    IndexType.PRODUCER_SNAPSHOT: LocalFile.PRODUCER_SNAPSHOT,
    IndexType.LEADER_EPOCH: LocalFile.LEADER_EPOCH_CHECKPOINT,
    IndexType.TRANSACTION: LocalFile.TRANSACTION_INDEX,
}


class LocalTieredStorage:
    """`RemoteStorage` in a directory. ``deletes`` is ``delete.enable``."""

    def __init__(self, store: ObjectStore, *, deletes: bool = True) -> None:
        self._store = store
        self._deletes = deletes

    @property
    def name(self) -> str:
        return self._store.name

    def check(self) -> None:
        # Not where segments are: Kafka's own class takes every name there for that of a partition.
        object_store.check(self._store, f"kpybroker-check-{token_hex(8)}")

    def copy(self, segment: RemoteLogSegment, files: ClosedSegmentFiles, limits: CopyLimits) -> bytes | None:
        indexes: dict[LocalFile, bytes] = {
            LocalFile.OFFSET_INDEX: files.offset_index,
            LocalFile.TIME_INDEX: files.time_index,
            LocalFile.PRODUCER_SNAPSHOT: files.producer_snapshot,
            LocalFile.LEADER_EPOCH_CHECKPOINT: files.leader_epochs,
        }
        if files.transaction_index is not None:
            indexes[LocalFile.TRANSACTION_INDEX] = files.transaction_index
        for file, data in indexes.items():
            self._store.put(path(name_of(segment), file), paced([data], limits))
        self._store.put(path(name_of(segment), LocalFile.SEGMENT), paced(_parts(files.log), limits))
        return None

    def read(self, segment: RemoteLogSegment, start: int, end: int) -> bytes:
        end = min(end, segment.size_bytes)
        if start >= end:
            return b""
        found = bytes(self._store.get_range(path(name_of(segment), LocalFile.SEGMENT), start, end))
        check_batches(found, start)
        return found

    def index(self, segment: RemoteLogSegment, index: IndexType) -> bytes | None:
        try:
            return bytes(self._store.get(path(name_of(segment), _FILES[index]), MOST_INT))
        except ObjectMissing:
            if index is IndexType.TRANSACTION:
                return None
            raise

    def delete(self, segment: RemoteLogSegment) -> None:
        if self._deletes:
            self._store.delete([path(name_of(segment), file) for file in LocalFile])

    def listed(self) -> Iterator[ListedObject]:
        for each in self._store.listed(f"{ROOT}/"):
            found = parse_path(each.key)
            if found is not None:
                name = found.segment
                yield ListedObject(each.key, name.topic_id, name.partition, name.segment_id, each.size_bytes)

    def delete_objects(self, objects: Iterable[ListedObject]) -> None:
        if self._deletes:
            self._store.delete([each.key for each in objects])

    def close(self) -> None:
        self._store.close()


def _parts(log: LogSlice) -> Iterator[Buffer]:
    for start in range(0, len(log), _PART_BYTES):
        yield log_part(log, start, min(_PART_BYTES, len(log) - start))
