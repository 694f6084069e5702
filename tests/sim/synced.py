"""Whether a disk would still have what a log holds below an offset, if the power failed now and luck added nothing."""

from typing import Any

from kpystorage.memory_disk import Folder, Inode
from kpystorage.sim_disk import SimDisk


def is_synced(disk: SimDisk, log: Any, offset: int) -> bool:
    """Whether all batches below ``offset`` are, with the names of their files; an empty log has only its name."""
    end = log.position_of(offset)
    folder, is_named = _folder(disk, log.path)
    for segment in log.segments:
        if segment.base_offset > end.segment_base_offset:
            break
        is_last = segment.base_offset == end.segment_base_offset
        size = end.position if is_last else segment.size
        if (size or segment is log.segments[0]) and not _has(disk, folder, segment, size):
            return False
    return is_named


def _folder(disk: SimDisk, path: str) -> tuple[Folder, bool]:
    """The one of that path, and whether its name in the one above it is synced. (The data directory's is.)"""
    above: Any = disk.root
    names = path.strip("/").split("/")
    for name in names[:-1]:
        above = above.entries[name]
    durable, _ = disk._names.get(above.number, ({}, []))
    found = above.entries[names[-1]]
    assert isinstance(found, Folder)
    return found, durable.get(names[-1]) is found


def _has(disk: SimDisk, folder: Folder, segment: Any, size: int) -> bool:
    name = segment.log.path.rpartition("/")[2]
    inode = folder.entries[name]
    assert isinstance(inode, Inode)
    names, _ = disk._names.get(folder.number, ({}, []))
    content, _ = disk._contents.get(inode.number, (b"", []))
    return names.get(name) is inode and content[:size] == inode.data[:size]
