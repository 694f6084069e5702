"""Reading one segment file into a walk: windows of bytes, past damaged parts, with the indexes beside it.

Invariant: memory is bounded by the largest batch, and what cannot be read is reported once.
"""

from typing import Final, Protocol

from kpybroker.machines.audit.findings import BYTES, NOTE, BytePlace
from kpybroker.machines.audit.walk import AuditWalk, Status
from kpybroker.pipeline.audit.segment_indexes import SegmentIndexes
from kpystorage.checking.walking import SegmentPiece, pieces
from kpystorage.scan import Readable
from kpywire.batch import BatchHeader

WINDOW_BYTES: Final = 1 << 20
"""The bytes of one read. Larger ones leave the processor's cache before they are compared with their checksums."""


class SizedFile(Protocol):
    """A file, on a disk or in a store."""

    def descriptor(self) -> Readable: ...

    def size(self) -> int: ...


class SegmentRead:
    """The reading of one segment. ``is_open``: its last bytes may be a write that did not finish."""

    def __init__(
        self,
        walk: AuditWalk,
        file: SizedFile,
        path: str,
        indexes: SegmentIndexes | None,
        following: int | None,
        *,
        is_open: bool,
    ) -> None:
        self._walk = walk
        self._file = file.descriptor()
        self._size = file.size()
        self._path = path
        self._indexes = indexes
        self._following = following
        self._is_open = is_open
        self.position = 0
        self.is_damaged = False
        """Whether there were bytes that are no valid batch."""

    def run(self, position: int) -> bool:
        """Read from ``position`` on. Return whether the segment was read to its end, and not to the walk's."""
        walk, self.position = self._walk, position
        walk.path = self._path
        length = WINDOW_BYTES
        seen: list[tuple[int, BatchHeader]] = []
        walk.headers = seen if self._indexes is not None else None
        while self.position < self._size:
            data = self._file.pread(min(length, self._size - self.position), self.position)
            is_all = self.position + len(data) >= self._size
            taken, status = walk.feed(data, self.position, self._following, is_all=is_all)
            if self._indexes is not None:
                for each in seen:
                    self._indexes.batch(*each)
                seen.clear()
            self.position += taken
            length = WINDOW_BYTES
            if status is Status.DONE:
                return False
            if status is Status.MORE and walk.wanted <= self._size - self.position:
                length = max(WINDOW_BYTES, walk.wanted)
            elif self.position < self._size and not self._past_damage():
                return False
        return True

    def _past_damage(self) -> bool:
        """Step over bytes that are no valid batch. False where the walk or the log ends."""
        walk, position = self._walk, self.position
        begin = max(walk.expected, 0)
        limit = (1 << 63) - 1 if self._following is None else self._following
        piece = next(pieces(_Behind(self._file, position), self._size - position, begin, limit))
        place = BytePlace(self._path, position)
        is_tail = position + piece.end == self._size and self._following is None
        if is_tail and piece.header is None and self._is_open:
            if piece.trouble:
                walk.report(NOTE, BYTES, place, walk.expected, f"{piece.end} bytes of a write that did not finish")
            self.position = self._size
            return False
        if walk.end <= (walk.expected if piece.header is None else piece.header.base_offset):
            return False
        self.position += piece.end
        self.is_damaged = True
        walk.skip_damaged(piece.header, piece.end, _text(piece), place)
        return True


def _text(piece: SegmentPiece) -> str:
    if piece.trouble:
        return piece.trouble if piece.header is None else f"a batch is damaged: {piece.trouble}"
    if piece.header is None:
        return f"{piece.end} zeros are no batch"
    return f"a batch's last offset delta is {piece.header.last_offset_delta}"


class _Behind:
    """A file from some position on."""

    def __init__(self, file: Readable, start: int) -> None:
        self._file = file
        self._start = start

    def pread(self, length: int, position: int) -> bytes:
        return self._file.pread(length, self._start + position)
