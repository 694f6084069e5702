"""A fork of a log directory that a broker goes on using: closed segments get second names (hard links), everything else
is copied.

The files of a log are those of some moment, as a crash could have left them: what belongs to a log is copied before its
batches, so it says nothing that the batches do not bear out. The batches end where the active segment did.

Neither side changes a file of the other. A closed segment is written to again only after it was cut, and a file with a
second name becomes a copy before it is cut (`kpystorage.real_file`).

Not here: which logs, identity and metadata of the fork.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from kpystorage import names, partition_metadata
from kpystorage.disk import Disk

CHECKPOINTS: Final = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_OFFSETS)
BESIDE_BATCHES: Final = (names.PRODUCER_SNAPSHOT, *names.INDEXES)
PIECE_BYTES: Final = 1 << 20
ATTEMPTS: Final = 20


class ForkBusy(Exception):
    """The segments of a log changed again and again while it was forked. The text is one line."""


class ForkedBytes(NamedTuple):
    """The bytes of segments that a fork shares with its original, and those that were copied."""

    linked: int
    copied: int

    def plus(self, other: "ForkedBytes") -> "ForkedBytes":
        return ForkedBytes(self.linked + other.linked, self.copied + other.copied)


class _Changed(Exception):
    """A segment was removed, replaced or added at the front meanwhile."""


def fork_checkpoints(disk: Disk, source: str, target: str) -> None:
    """Copy the checkpoints of a log directory, which have to be older than the logs. OSError."""
    for name in CHECKPOINTS:
        with suppress(FileNotFoundError):
            disk.write(f"{target}/{name}", disk.read(f"{source}/{name}"), synchronize=False)


def topic_id(disk: Disk, path: str) -> bytes | None:
    """The topic id of the log at ``path``; None if it has none. CorruptFile, OSError."""
    try:
        return partition_metadata.parse(disk.read(f"{path}/{names.PARTITION_METADATA}"), path)
    except FileNotFoundError:
        return None


def fork_log(disk: Disk, source: str, target: str) -> ForkedBytes:
    """Fork the log in the directory ``source`` to ``target``, which does not exist. FileNotFoundError if the log is
    gone; OSError, ForkBusy."""
    disk.make_directory(target)
    for _ in range(ATTEMPTS):
        try:
            return _forked(disk, source, target)
        except _Changed:
            for name in disk.list_directory(target):
                disk.unlink(f"{target}/{name}")
    raise ForkBusy(f"the segments of {source} change too often: try again")


def _forked(disk: Disk, source: str, target: str) -> ForkedBytes:
    before = disk.list_directory(source)
    if any(_is_swap(name) for name in before):
        raise _Changed
    for name in (names.PARTITION_METADATA, names.LEADER_EPOCHS):
        with suppress(FileNotFoundError):
            disk.write(f"{target}/{name}", disk.read(f"{source}/{name}"), synchronize=False)
    bases = _bases(before)
    for name in before:
        parsed = names.parse_segment_file(name)
        if parsed is not None and parsed[1] in BESIDE_BATCHES:
            with suppress(FileNotFoundError):  # a snapshot may be removed at any time
                _copy(disk, f"{source}/{name}", f"{target}/{name}")
    linked = copied = 0
    inodes = {}
    for base_offset in bases[:-1]:
        name = names.segment_file(base_offset, names.LOG)
        linked += _link(disk, f"{source}/{name}", f"{target}/{name}")
        inodes[name] = _inode(disk, f"{target}/{name}")
    if bases:
        name = names.segment_file(bases[-1], names.LOG)
        try:
            copied += _copy(disk, f"{source}/{name}", f"{target}/{name}")
        except FileNotFoundError:
            raise _Changed from None
    after = disk.list_directory(source)
    _check_unchanged(disk, source, bases, inodes, after)
    return ForkedBytes(linked, copied)


def _check_unchanged(disk: Disk, source: str, bases: list[int], inodes: dict[str, int], after: Iterable[str]) -> None:
    """Raise _Changed if the segments are not those of before, apart from new ones at the end. So each one that is
    linked was closed, and stays closed until it is cut."""
    present = list(after)
    if any(_is_swap(name) for name in present) or _bases(present)[: len(bases)] != bases:
        raise _Changed
    for name, inode in inodes.items():
        if _inode(disk, f"{source}/{name}") != inode:
            raise _Changed


def _bases(found: Iterable[str]) -> list[int]:
    """The base offsets of segments, ascending."""
    parsed = map(names.parse_segment_file, found)
    return sorted(each[0] for each in parsed if each is not None and each[1] == names.LOG)


def _is_swap(name: str) -> bool:
    parsed = names.parse_temporary_file(name)
    return parsed is not None and parsed[2] == names.SWAP


def _link(disk: Disk, source: str, target: str) -> int:
    """Give a file a second name; its size."""
    try:
        disk.link(source, target)
    except FileNotFoundError:
        raise _Changed from None
    status = disk.status(target)
    return 0 if status is None else status.size


def _inode(disk: Disk, path: str) -> int:
    status = disk.status(path)
    return -1 if status is None else status.inode


def _copy(disk: Disk, source: str, target: str) -> int:
    """Copy a file as far as it goes now; its size. FileNotFoundError."""
    status = disk.status(source)
    if status is None:
        raise FileNotFoundError(source)
    original, copy, position = disk.file(source), disk.create(target), 0
    try:
        while position < status.size and (data := original.pread(min(PIECE_BYTES, status.size - position), position)):
            copy.pwrite(data, position)
            position += len(data)
    finally:
        original.release()
        copy.release()
    return position
