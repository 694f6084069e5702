"""The producer snapshots of one log on disk: listing, writing, reading and removing them.

One belongs to every segment (of its base offset), so that a truncation or a rebuild need not begin at the log's start;
one more may lie behind them all. A snapshot that is not whole is recognised by its checksum.

Invariant: ``offsets`` are those of the files there are, ascending.
"""

from collections.abc import Collection, Iterable

from kpystorage import names, producer_snapshot
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpystorage.producer_snapshot import SnapshotEntry


class SnapshotFiles:
    """The snapshot files in a log's directory. Everything that touches a file may raise OSError."""

    __slots__ = ("_directory", "_disk", "_passing", "offsets", "unflushed")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = sorted(offsets)
        self._passing = -1
        self.unflushed: list[int] = []
        """Offsets of the files that have not been flushed since they were written."""

    def path(self, offset: int) -> str:
        return f"{self._directory}/{names.segment_file(offset, names.PRODUCER_SNAPSHOT)}"

    def moved(self, directory: str) -> None:
        """Use another path of the log's directory."""
        self._directory = directory

    def last_or(self, default: int) -> int:
        """The offset of the last snapshot, ``default`` if there is none."""
        return self.offsets[-1] if self.offsets else default

    def write(self, offset: int, entries: Iterable[SnapshotEntry], *, passing: bool = False) -> None:
        """Write a snapshot behind all others, unflushed. A ``passing`` one before it is removed."""
        self._disk.write(self.path(offset), producer_snapshot.render(entries), synchronize=False)
        self.offsets.append(offset)
        self.unflushed.append(offset)
        self.drop(self._passing)
        self._passing = offset if passing else -1

    def keep(self, offset: int, content: bytes) -> None:
        """Write the only snapshot there is, durably, as it came from another replica, if it is not there yet."""
        path = self.path(offset)
        try:
            is_there = self._disk.read(path) == content
        except FileNotFoundError:
            is_there = False
        if not is_there:
            self._disk.write(path, content, synchronize=True)
        self.offsets = [offset]
        self.unflushed.append(offset)  # its name

    def read(self, offset: int) -> list[SnapshotEntry]:
        """The producers in a snapshot. CorruptFile if it is not whole."""
        path = self.path(offset)
        return producer_snapshot.parse(self._disk.read(path), path)

    def content(self, offset: int) -> bytes | None:
        """The bytes of a snapshot; None if there is none at this offset, or it is not whole."""
        if offset not in self.offsets:
            return None
        path = self.path(offset)
        data = self._disk.read(path)
        try:
            producer_snapshot.parse(data, path)
        except CorruptFile:
            return None
        return data

    def drop(self, offset: int) -> None:
        """Remove a snapshot if there is one at this offset."""
        if offset in self.offsets:
            self.forget(offset)
            self._disk.unlink(self.path(offset))

    def forget(self, offset: int) -> None:
        """Forget the file at this offset: it is no longer one of this log's."""
        self.offsets.remove(offset)
        if offset in self.unflushed:
            self.unflushed.remove(offset)

    def drop_outside(self, local_log_start_offset: int, end_offset: int) -> None:
        """Remove the snapshots that no replay of this log can begin with."""
        for offset in self.offsets[::-1]:
            if offset > end_offset or offset <= local_log_start_offset:
                self.drop(offset)

    def drop_strays(self, base_offsets: Collection[int]) -> None:
        """Keep the snapshots of the segments, and the last one."""
        for offset in self.offsets[:-1]:
            if offset not in base_offsets:
                self.drop(offset)
