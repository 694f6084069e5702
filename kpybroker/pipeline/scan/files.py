"""The transport over files: segments that a broker on this machine, or on the same volume, has lent.

Invariant: only bytes below the ends that the manifest names are read, so all of them are committed.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Final

from kpybroker.machines.lease_manifest import PartitionManifest
from kpybroker.machines.scan.errors import LeaseOver, OffsetsLost, ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan.transport import FetchedPiece
from kpybroker.pipeline.scan.whole_batches import PIECE_BYTES, whole_batches
from kpystorage.lending import LentSegment
from kpystorage.offset_index import position_near
from kpystorage.reading_disk import ReadingDisk
from kpystorage.real_file import Descriptors
from kpywire.aborted import Aborted
from kpywire.errors import Malformed
from kpywire.varint import Buffer

MOST_FILES: Final = 16
"""The files that a transport keeps open."""


class FileTransport:
    """Reads lent segments."""

    def __init__(self, manifests: Mapping[tuple[str, int], PartitionManifest], piece_bytes: int = PIECE_BYTES) -> None:
        """``manifests`` has each partition that is read, by topic and number."""
        self._manifests = manifests
        self._piece_bytes = piece_bytes
        self._disk = ReadingDisk(Descriptors(MOST_FILES))

    def close(self) -> None:
        """Do nothing: nothing stays open."""

    def has(self, part: OffsetRange) -> bool:
        """Whether all files of a range are there, and those that were lent."""
        manifest = self._manifests.get(part.spot)
        return manifest is not None and all(
            self._is_there(each) for each in manifest.segments if part.overlaps(each.base_offset, each.next_offset)
        )

    def _is_there(self, segment: LentSegment) -> bool:
        status = self._disk.status(segment.path)
        return status is not None and status.inode == segment.inode and self._may_read(segment)

    def _may_read(self, segment: LentSegment) -> bool:
        return os.access(segment.path, os.R_OK)

    def pieces(self, part: OffsetRange, wanted: Projection) -> Iterator[FetchedPiece]:
        """The batches of a range; see `Transport`."""
        manifest = self._manifests.get((part.topic, part.partition))
        if manifest is None:
            raise ScanError(f"{part}: the partition is not lent")
        if manifest.topic_id != part.topic_id:
            raise OffsetsLost(f"{part}: topic {part.topic} was deleted and created again since the scan was planned")
        end_offset = manifest.last_stable_offset if wanted.committed_only else manifest.high_watermark
        if part.end_offset > end_offset:
            raise ScanError(f"{part}: the lease ends at offset {end_offset}")
        first_offset = manifest.log_start_offset
        if part.start_offset < first_offset and wanted.fails_on_data_loss:
            raise OffsetsLost(f"{part}: the log begins at {first_offset}")
        aborted = Aborted(
            (each.first_offset, each.producer_id)
            for each in (manifest.aborted if wanted.committed_only else ())
            if each.last_offset >= part.start_offset
        )
        for segment in manifest.segments:
            if part.overlaps(segment.base_offset, segment.next_offset):
                for data in self._read(segment, max(part.start_offset, segment.base_offset), part.end_offset):
                    yield FetchedPiece(data, aborted, first_offset)

    def _read(self, segment: LentSegment, start_offset: int, end_offset: int) -> Iterator[Buffer]:
        """The batches of a segment from the one that holds ``start_offset`` on, up to the end that is lent."""
        file = self._disk.file(segment.path)
        try:
            if not self._is_there(segment):
                raise _over(segment)
            index = self._disk.file(segment.index_path)
            position = position_near(index, file, segment.end_position, segment.base_offset, start_offset)
            end = segment.end_position
            yield from whole_batches(file, segment.path, position, end, end_offset, self._piece_bytes)
        except Malformed as error:
            raise ScanError(f"{segment.path}: {error}") from None
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise _over(segment) from None
            raise ScanError(f"{segment.path} cannot be read: {error.strerror}") from None
        finally:
            file.release()


def _over(segment: LentSegment) -> LeaseOver:
    return LeaseOver(f"{segment.path} is not there: the lease is over, or the volume is another one")
