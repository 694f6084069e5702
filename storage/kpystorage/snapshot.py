"""Snapshots of the metadata log: ``<20-digit end offset>-<10-digit epoch>.checkpoint`` files of record batches.

Not here: the contents of the batches (a SNAPSHOT_HEADER control batch first, a SNAPSHOT_FOOTER last; Kafka's
RecordsSnapshotWriter) and when a snapshot is made. ``bootstrap.checkpoint`` has the same content under its own name.

Invariant: a file with a snapshot's name is complete and flushed; one being written ends in ``.part``.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from kpystorage.disk import Disk
from kpystorage.file import File
from kpywire.varint import Buffer

SUFFIX = ".checkpoint"
PARTIAL = ".part"
DELETED = ".deleted"
BOOTSTRAP = "bootstrap.checkpoint"

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_UNFINISHED = re.compile(r"\d{20}-\d{10}\.checkpoint.*(\.part|\.deleted)")


class SnapshotId(NamedTuple):
    """The log a snapshot stands for: everything below ``end_offset``, whose last record has ``epoch``."""

    end_offset: int
    epoch: int


BOOTSTRAP_ID = SnapshotId(0, 0)
"""The snapshot that formatting writes. It names the voters, and from Kafka 4.4 on it holds the records that the first
leader writes to the log (KIP-1170). It stands for no part of the log."""


def snapshot_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def parse_name(name: str) -> SnapshotId | None:
    match = _NAME.fullmatch(name)
    return SnapshotId(int(match[1]), int(match[2])) if match else None


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """The complete snapshots of a log's directory, ascending. May raise OSError."""
    return sorted([parsed for name in disk.list_directory(directory) if (parsed := parse_name(name)) is not None])


def remove_unfinished(disk: Disk, directory: str) -> None:
    """Remove the files that a stop left half-written or half-removed. Called at start. May raise OSError."""
    for name in disk.list_directory(directory):
        if _UNFINISHED.fullmatch(name):
            disk.unlink(f"{directory}/{name}")


def write_batches(disk: Disk, path: str, batches: Iterable[Buffer]) -> None:
    """Write a file of batches under ``path``: complete and flushed, or not there. May run in a thread; OSError."""
    writer = RawSnapshotWriter(disk, path)
    for batch in batches:
        writer.append(batch)
    writer.freeze()


def write(disk: Disk, directory: str, snapshot: SnapshotId, batches: Iterable[Buffer]) -> None:
    """Write a snapshot into a log's directory. May run in a thread; OSError."""
    write_batches(disk, f"{directory}/{snapshot_name(snapshot)}", batches)


def read(disk: Disk, directory: str, snapshot: SnapshotId) -> bytes:
    """All batches of a snapshot. FileNotFoundError if it is not there."""
    return disk.read(f"{directory}/{snapshot_name(snapshot)}")


def open_snapshot(disk: Disk, directory: str, snapshot: SnapshotId) -> File:
    """The file of a snapshot, to be sent in pieces."""
    return disk.file(f"{directory}/{snapshot_name(snapshot)}")


def remove(disk: Disk, directory: str, snapshot: SnapshotId) -> None:
    """Remove a snapshot that is not needed any more. OSError."""
    disk.unlink(f"{directory}/{snapshot_name(snapshot)}")


class RawSnapshotWriter:
    """A file of batches that is being written, from the leader's own state or from pieces that a leader sends."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file = disk.create(path + PARTIAL)
        self._descriptor = self._file.descriptor()  # it stays open until its fsync tells of all writes
        self.size = 0

    def append(self, data: Buffer) -> None:
        """Write the next bytes. OSError."""
        self._file.pwrite(data, self.size)
        self.size += len(data)

    def read(self) -> bytes:
        """The bytes written so far. OSError."""
        return self._disk.read(self._path + PARTIAL)

    def freeze(self) -> None:
        """Complete the file: flush it and give it its name. OSError."""
        self._descriptor.fsync()
        self._file.release()
        self._disk.rename(self._path + PARTIAL, self._path)
        self._disk.synchronize_directory(self._path.rpartition("/")[0])

    def abandon(self) -> None:
        """Give up and remove the file. OSError."""
        self._file.release()
        self._disk.unlink(self._path + PARTIAL)
