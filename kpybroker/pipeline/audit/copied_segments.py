"""Copies of segments in a store, read into a walk as segment files are, with the indexes that were copied beside them.

Invariant: bytes that the store does not give, or gives damaged, are a finding, and the walk goes on behind the copy.
"""

from collections.abc import Iterator, Sequence

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.open_segments import name_of
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage, StoreFailed
from kpybroker.hosts.remote_log.segment_reads import SegmentFile
from kpybroker.machines.audit.findings import DAMAGE, INDEXES, AuditFinding, BytePlace
from kpybroker.machines.audit.stretch import Stretch
from kpybroker.machines.audit.walk import AuditWalk
from kpybroker.machines.remote_log.lineage import CopiedRange
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.pipeline.audit.segment_indexes import IndexBytes, SegmentIndexes
from kpybroker.pipeline.audit.segment_reading import SegmentRead
from kpystorage import scan
from kpystorage.errors import CorruptObject
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.keys import main_path


class CopiedFile:
    """The log of a copy, as `SegmentRead` reads files."""

    def __init__(self, storage: RemoteStorage, segment: RemoteLogSegment) -> None:
        self._file = SegmentFile(storage, segment)
        self._segment = segment

    def descriptor(self) -> scan.Readable:
        return self._file

    def size(self) -> int:
        return self._segment.size_bytes


class CopyWalk:
    """The walk over copies that follow one another. ``ends`` are the ends of its stretches, the next one first."""

    def __init__(
        self, storage: RemoteStorage, walk: AuditWalk, ends: Sequence[int], findings: list[AuditFinding]
    ) -> None:
        self._storage = storage
        self._walk = walk
        self._ends = list(reversed(ends))
        self._findings = findings

    def read(self, copy: CopiedRange, start: int) -> Iterator[Stretch]:
        """Walk through one copy, from the first batch at or behind ``start`` on. The stretches that end there."""
        walk, segment = self._walk, copy.segment
        path = path_of(self._storage, segment)
        indexes, problem = self._indexes(segment, path) if start <= segment.start_offset else (None, "")
        reading = None
        try:
            position = self._position(copy, max(start, copy.start_offset))
            if walk.expected < 0 and max(start, copy.start_offset) == segment.start_offset:
                walk.expected = segment.start_offset
            file = CopiedFile(self._storage, segment)
            reading = SegmentRead(walk, file, path, indexes, segment.next_offset, is_open=False)
            while True:
                walk.end = min(self._ends[-1], copy.end_offset)
                is_whole = reading.run(position)
                if is_whole or len(self._ends) < 2 or walk.end < self._ends[-1]:
                    break
                yield walk.cut(self._ends.pop())
                position = reading.position
        except (StoreFailed, CorruptObject) as error:
            at = 0 if reading is None else reading.position
            place, next_offset = BytePlace(path, at), min(copy.end_offset, self._ends[0])
            walk.skip_damaged(None, segment.size_bytes - at, str(error), place, next_offset)
            return
        if problem:
            of = walk.of
            spot = (of.topic, of.partition, of.replica)
            self._findings.append(AuditFinding(DAMAGE, INDEXES, *spot, path, -1, segment.start_offset, problem))
        elif is_whole and not reading.is_damaged and indexes is not None:
            indexes.end()
            self._findings += indexes.findings

    def _position(self, copy: CopiedRange, start: int) -> int:
        """The position of the first batch at or behind ``start``."""
        segment = copy.segment
        if start <= segment.start_offset:
            return 0
        found = segment_reads.find(self._storage, segment, start)
        if found is None:
            return segment.size_bytes
        return found[0] + (0 if found[1].base_offset >= start else found[1].size)

    def _indexes(self, segment: RemoteLogSegment, path: str) -> tuple[SegmentIndexes | None, str]:
        """The indexes, or why they cannot be read. That of transactions is read here for the reason alone."""
        try:
            offsets, times = (
                IndexBytes(f"{path}, index {kind.name}", self._storage.index(segment, kind) or b"")
                for kind in (IndexType.OFFSET, IndexType.TIMESTAMP)
            )
            self._storage.index(segment, IndexType.TRANSACTION)
        except (StoreFailed, CorruptObject) as error:
            return None, str(error)
        return SegmentIndexes(self._walk.of, segment.start_offset, offsets, times), ""


def path_of(storage: RemoteStorage, segment: RemoteLogSegment) -> str:
    """The place of a copy for people."""
    return f"{storage.name}/{main_path(name_of(segment))}"
