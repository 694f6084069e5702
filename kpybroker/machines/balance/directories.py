"""The balance of one broker's log directories: which replicas move from full disks to emptier ones of the same broker.

Directories with the same capacity and the same free space are one disk, and nothing moves between them. Each replica
moves once at most. Cordoned directories (KIP-1066) get nothing, and keep what they have.

Invariant: no move fills a disk above the limit, and none leaves the target fuller than the source was.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kpybroker.machines.balance.executing import Place
from kpybroker.machines.balance.words import size_words


class DirectoryLoad(NamedTuple):
    """A log directory: its disk, and the bytes of its replicas."""

    path: str
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    sizes: Mapping[Place, int]

    @property
    def disk(self) -> tuple[int, int]:
        """Directories that are equal in this are on one disk."""
        return self.total_bytes, self.usable_bytes


class DirectoryMove(NamedTuple):
    """The move of a replica to another directory of its broker."""

    topic: str
    partition: int
    source: str
    target: str
    size_bytes: int
    text: str


class _Disk:
    def __init__(self, total_bytes: int, used_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.used_bytes = used_bytes
        self.target: str | None = None
        """The directory that takes replicas; None if all of them are cordoned or become empty."""
        self.replicas: list[tuple[int, Place, str]] = []
        """The replicas that have not moved: their bytes, and their directories."""

    def filled(self, more_bytes: int = 0) -> float:
        return (self.used_bytes + more_bytes) / self.total_bytes


def plan_directories(
    directories: Iterable[DirectoryLoad],
    emptied: Iterable[str] = (),
    *,
    tolerance: float = 0.1,
    disk_limit: float = 0.85,
) -> list[DirectoryMove]:
    """The moves after which no disk is filled more than the mean by ``tolerance``, as far as replicas can be found for
    that. Directories in ``emptied`` lose all replicas first. Directories of unknown capacity are left alone."""
    paths = set(emptied)
    disks: dict[tuple[int, int], _Disk] = {}
    for each in sorted(directories):
        if each.total_bytes <= 0:
            continue
        disk = disks.setdefault(each.disk, _Disk(each.total_bytes, each.total_bytes - each.usable_bytes))
        disk.replicas += [(size, place, each.path) for place, size in each.sizes.items()]
        if disk.target is None and not each.is_cordoned and each.path not in paths:
            disk.target = each.path
    every = list(disks.values())
    moves = list(_emptied(every, paths, disk_limit))
    mean = sum(each.used_bytes for each in every) / max(1, sum(each.total_bytes for each in every))
    ceiling = mean * (1 + tolerance)
    while True:
        move = next(
            (
                found
                for disk in sorted(every, key=_Disk.filled, reverse=True)
                if disk.filled() > ceiling and (found := _relief(disk, every, disk_limit)) is not None
            ),
            None,
        )
        if move is None:
            return moves
        moves.append(move)


def _emptied(disks: list[_Disk], paths: set[str], disk_limit: float) -> Iterable[DirectoryMove]:
    for disk in disks:
        for replica in sorted(disk.replicas, reverse=True):
            size, _, path = replica
            fits = [each for each in disks if each.target and each.filled(size * (each is not disk)) <= disk_limit]
            if path in paths and fits:
                yield _moved(replica, disk, min(fits, key=_Disk.filled), f"{path} is to be empty")


def _relief(disk: _Disk, disks: list[_Disk], disk_limit: float) -> DirectoryMove | None:
    """The move after which the fuller of two disks is the least full; None if none makes this disk less full so."""
    found = []
    for replica in disk.replicas:
        size = replica[0]
        for number, other in enumerate(disks):
            fuller = max(disk.filled(-size), other.filled(size))
            if size and other is not disk and other.target and other.filled(size) <= disk_limit:
                found.append((fuller, replica, number))
    if not found or min(found)[0] >= disk.filled():
        return None
    _, replica, number = min(found)
    reason = f"its disk is filled by {disk.filled():.0%}, falls to {disk.filled(-replica[0]):.0%}"
    return _moved(replica, disk, disks[number], reason)


def _moved(replica: tuple[int, Place, str], source: _Disk, target: _Disk, reason: str) -> DirectoryMove:
    size, (topic, partition), path = replica
    assert target.target is not None
    source.replicas.remove(replica)
    source.used_bytes -= size
    target.used_bytes += size
    text = f"{topic}-{partition}: {path} → {target.target}, {size_words(size)}: {reason}"
    return DirectoryMove(topic, partition, path, target.target, size, text)
