"""Where ``kpybroker metadata`` gets its image from: a metadata log with its snapshots, or one file of either.

Reading changes nothing and takes no lock, so a running node's directory can be looked at. What it has appended and not
committed yet is seen too.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import InvalidMetadata, MetadataImage
from kpystorage import meta_properties, names, snapshot
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpystorage.scan import batches
from kpywire.errors import Malformed
from kpywire.metadata_records import decode_record
from kpywire.record import read_batch

METADATA_DIRECTORY = "__cluster_metadata-0"


class NoMetadata(Exception):
    """There is no metadata to read, or it cannot be read; the text is one line for people."""


def read_image(disk: Disk, path: Path) -> MetadataImage:
    """The image that a log directory, a metadata log's directory, or one file of it describes. Raises NoMetadata."""
    try:
        return _read_image(disk, path.absolute())
    except (Malformed, InvalidMetadata, CorruptFile) as error:
        raise NoMetadata(f"{path}: {error}") from None
    except OSError as error:
        raise NoMetadata(f"{path}: {error.strerror}") from None


def _read_image(disk: Disk, path: Path) -> MetadataImage:
    if not path.is_dir():
        image = MetadataImage("")
        _apply(image, disk, path, from_offset=0)
        return image
    directory = path / METADATA_DIRECTORY if (path / METADATA_DIRECTORY).is_dir() else path
    segments = sorted(each for each in directory.iterdir() if each.suffix == names.LOG)
    snapshots = snapshot.list_snapshots(disk, str(directory))
    if not segments and not snapshots:
        raise NoMetadata(f"{path} holds no metadata log")
    properties = meta_properties.read(disk, str(directory.parent))
    image = MetadataImage((properties.cluster_id if properties else None) or "")
    start = 0
    if snapshots:
        start = snapshots[-1].end_offset
        _apply(image, disk, directory / snapshot.snapshot_name(snapshots[-1]), from_offset=0)
        image.next_offset = start
    for segment in segments:
        _apply(image, disk, segment, from_offset=start)
    return image


def _apply(image: MetadataImage, disk: Disk, path: Path, *, from_offset: int) -> None:
    delta = MetadataDelta(from_snapshot=True)
    for offset, epoch, record in _records(disk, path):
        if offset >= from_offset:
            image.apply(record, offset, delta)
            image.epoch = epoch


def _records(disk: Disk, path: Path) -> Iterator[tuple[int, int, Any]]:
    file = disk.file(str(path))
    try:
        for _, header, data in batches(file, 0, file.size()):
            if not header.is_control:
                for record in read_batch(data, header):
                    yield record.offset, header.partition_leader_epoch, decode_record(record.value or b"")
    finally:
        file.release()
