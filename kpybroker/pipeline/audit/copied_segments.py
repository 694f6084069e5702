"""Copies of segments in a store, read into a walk as segment files are, with the indexes that were copied beside them.

Invariant: bytes that the store does not give, or gives damaged, are a finding, and the walk goes on behind the copy.
"""

from collections.abc import Iterator, Sequence

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.open_segments import name_of
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage, StoreFailed
from kpybroker.hosts.remote_log.segment_reads import SegmentFile
from kpybroker.machines.audit.findings import AuditFinding, BytePlace
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
        walk, path = self._walk, path_of(self._storage, copy.segment)
        reading = None
        try:
            position, indexes = self._begin(copy, max(start, copy.start_offset))
            if walk.expected < 0:
                walk.expected = copy.start_offset if copy.start_offset == copy.segment.start_offset >= start else -1
            file, following = CopiedFile(self._storage, copy.segment), copy.segment.next_offset
            reading = SegmentRead(walk, file, path, indexes, following, is_open=False)
            while True:
                walk.end = min(self._ends[-1], copy.end_offset)
                is_whole = reading.run(position)
                if is_whole or len(self._ends) < 2 or walk.end < self._ends[-1]:
                    break
                yield walk.cut(self._ends.pop())
                position = reading.position
            if is_whole and not reading.is_damaged and indexes is not None:
                indexes.end()
                self._findings += indexes.findings
        except (StoreFailed, CorruptObject) as error:
            at = 0 if reading is None else reading.position
            left_bytes = copy.segment.size_bytes - at
            walk.skip_damaged(None, left_bytes, str(error), BytePlace(path, at), min(copy.end_offset, self._ends[0]))

    def _begin(self, copy: CopiedRange, start: int) -> tuple[int, SegmentIndexes | None]:
        """The position of the first batch at or behind ``start``, and the indexes if all batches are read."""
        segment = copy.segment
        if start <= segment.start_offset:
            return 0, self._indexes(segment)
        found = segment_reads.find(self._storage, segment, start)
        if found is None:
            return segment.size_bytes, None
        return found[0] + (0 if found[1].base_offset >= start else found[1].size), None

    def _indexes(self, segment: RemoteLogSegment) -> SegmentIndexes:
        path = path_of(self._storage, segment)
        offsets, times = (
            IndexBytes(f"{path}, index {kind.name}", self._storage.index(segment, kind) or b"")
            for kind in (IndexType.OFFSET, IndexType.TIMESTAMP)
        )
        return SegmentIndexes(self._walk.of, segment.start_offset, offsets, times)


def path_of(storage: RemoteStorage, segment: RemoteLogSegment) -> str:
    """The place of a copy for people."""
    return f"{storage.name}/{main_path(name_of(segment))}"
