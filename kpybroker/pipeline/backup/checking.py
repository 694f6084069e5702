"""The check of a backup: every object of every run is read, and compared with its checksum and its batches."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kpybroker.hosts.remote_log.remote_storage import StoreFailed
from kpybroker.machines.backup.manifest import BadManifest, RunManifest, StoredPiece, partitions_of
from kpybroker.pipeline.backup.restoring import checked_batches
from kpybroker.pipeline.backup.store import BackupStore, DamagedPiece


class CheckedBackup(NamedTuple):
    """The result of a check."""

    runs: int
    pieces: int
    size_bytes: int
    damages: list[str]
    """One line for each."""


def check(store: BackupStore, progress: Callable[[int], object]) -> CheckedBackup:
    """Read all pieces that the manifests name, each once. Raises StoreFailed if the store does not answer at all."""
    damages: list[str] = []
    pieces: dict[str, StoredPiece] = {}
    runs = store.runs()
    for run in runs:
        try:
            manifest = store.manifest(run)
        except (BadManifest, StoreFailed) as error:
            damages.append(f"run {run}: {error}")
            continue
        damages += [f"run {run}: {line}" for line in _gaps(manifest)]
        pieces |= {piece.key: piece for _, _, part in partitions_of(manifest) for piece in part.pieces}
    size_bytes = 0
    for key in sorted(pieces):
        try:
            for found in _sizes(store, pieces[key]):
                size_bytes += found
                progress(found)
        except (DamagedPiece, StoreFailed) as error:
            damages.append(str(error))
    return CheckedBackup(len(runs), len(pieces), size_bytes, damages)


def _sizes(store: BackupStore, piece: StoredPiece) -> Iterator[int]:
    """The sizes of the parts of a piece, once each is checked. Raises DamagedPiece, StoreFailed."""
    offset: int | None = None
    for headers, found in checked_batches(store, [piece]):
        for header in headers:
            if offset is not None and header.base_offset < offset:
                raise DamagedPiece(f"{piece.key}: a batch begins at offset {header.base_offset} before offset {offset}")
            offset = header.next_offset
        yield len(found)
    if offset is not None and offset > piece.end_offset:
        raise DamagedPiece(f"{piece.key} ends at offset {offset}, and its manifest says {piece.end_offset}")


def _gaps(manifest: RunManifest) -> Iterator[str]:
    """The partitions whose pieces do not follow one another."""
    for topic, index, part in partitions_of(manifest):
        for piece, following in zip(part.pieces, part.pieces[1:], strict=False):
            if piece.end_offset != following.start_offset:
                yield f"{topic.name}-{index} lacks offsets {piece.end_offset} to {following.start_offset}"
