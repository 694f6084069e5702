"""The sources of the image in ``kpybroker metadata``: a metadata log with its snapshots, or one file of either.

Reading changes nothing and takes no lock, so a running node's directory can be read. Records that it has appended and
not committed yet are included.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import InvalidMetadata, MetadataImage
from kpystorage import meta_properties, names, snapshot
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile, CorruptRecord
from kpystorage.reading import ReadableLog
from kpystorage.scan import batches
from kpywire.batch import BatchHeader
from kpywire.errors import Malformed
from kpywire.metadata_records import decode_record
from kpywire.record import read_batch

METADATA_DIRECTORY = "__cluster_metadata-0"


class NoMetadata(Exception):
    """The metadata does not exist or cannot be read. The text is one line for people."""


def read_image(disk: Disk, path: Path) -> MetadataImage:
    """The image that a log directory, a metadata log's directory, or one file of it describes. Raises NoMetadata."""
    try:
        return _read_image(disk, path.absolute())
    except (Malformed, InvalidMetadata, CorruptFile, CorruptRecord) as error:
        raise NoMetadata(f"{path}: {error}") from None
    except OSError as error:
        raise NoMetadata(f"{path}: {error.strerror}") from None


def _read_image(disk: Disk, path: Path) -> MetadataImage:
    if not path.is_dir():
        image = MetadataImage("")
        _apply(image, _records_of_file(disk, path), from_offset=0)
        return image
    directory = path / METADATA_DIRECTORY if (path / METADATA_DIRECTORY).is_dir() else path
    has_segments = any(each.suffix == names.LOG for each in directory.iterdir())
    snapshots = snapshot.list_snapshots(disk, str(directory))
    if not has_segments and not snapshots:
        raise NoMetadata(f"{path} holds no metadata log")
    properties = meta_properties.read(disk, str(directory.parent))
    image = MetadataImage((properties.cluster_id if properties else None) or "")
    start = 0
    if snapshots and snapshots[-1] != snapshot.BOOTSTRAP_ID:
        start = snapshots[-1].end_offset
        _apply(image, _records_of_file(disk, directory / snapshot.snapshot_name(snapshots[-1])), from_offset=0)
        image.next_offset = start
    if has_segments:
        log = ReadableLog(disk, str(directory))
        end = log.log_end_offset
        offset = min(max(start, log.start_offset), end)
        _apply(image, _records(log.batches(offset, end)), from_offset=start)
    return image


def _apply(image: MetadataImage, records: Iterable[tuple[int, int, Any]], *, from_offset: int) -> None:
    delta = MetadataDelta(from_snapshot=True)
    for offset, epoch, record in records:
        if offset >= from_offset:
            image.apply(record, offset, delta)
            image.epoch = epoch


def _records(found: Iterable[tuple[BatchHeader, memoryview]]) -> Iterator[tuple[int, int, Any]]:
    """(offset, epoch, record) of the metadata records in batches."""
    for header, data in found:
        if not header.is_control:
            for record in read_batch(data, header):
                yield record.offset, header.partition_leader_epoch, decode_record(record.value or b"")


def _records_of_file(disk: Disk, path: Path) -> Iterator[tuple[int, int, Any]]:
    """The records of a snapshot, or of one segment by itself."""
    file = disk.file(str(path))
    try:
        yield from _records((header, data) for _, header, data in batches(file, 0, file.size()))
    finally:
        file.release()
