"""Whether a disk would still have what a log holds below an offset, if the power failed now and luck added nothing."""

from contextlib import suppress
from typing import Any

from kpystorage import names
from kpystorage.memory_disk import Folder, Inode
from kpystorage.sim_disk import SimDisk
from kpywire.batch import batch_headers
from kpywire.errors import Malformed


def is_synced(disk: SimDisk, log: Any, offset: int) -> bool:
    """Whether all batches below ``offset`` are, with the names of their files; an empty log has only its end."""
    end = log.position_of(offset)
    folder, is_named = _folder(disk, log.path)
    for segment in log.segments:
        if segment.base_offset > end.segment_base_offset:
            break
        is_last = segment.base_offset == end.segment_base_offset
        size = end.position if is_last else segment.size
        if size and not _has(disk, folder, segment, size):
            return False
        if segment is log.segments[0] and not size and not _ends_behind(disk, folder, segment.base_offset):
            return False
    return is_named


def _folder(disk: SimDisk, path: str) -> tuple[Folder, bool]:
    """The one of that path, and whether its name in the one above it is synced. (The data directory's is.)"""
    above: Any = disk.root
    *parents, last = path.strip("/").split("/")
    for name in parents:
        above = above.entries[name]
    durable, _ = disk._names.get(above.number, ({}, []))
    found = above.entries[last]
    assert isinstance(found, Folder)
    return found, durable.get(last) is found


def _has(disk: SimDisk, folder: Folder, segment: Any, size: int) -> bool:
    name = segment.log.path.rpartition("/")[2]
    inode = folder.entries[name]
    assert isinstance(inode, Inode)
    durable, _ = disk._names.get(folder.number, ({}, []))
    content, _ = disk._contents.get(inode.number, (b"", []))
    return durable.get(name) is inode and content[:size] == inode.data[:size]


def _ends_behind(disk: SimDisk, folder: Folder, offset: int) -> bool:
    """Whether the log ends there at least, whichever change of names survives last: a segment begins there, or one that
    ends there is not removed yet."""
    durable, changes = disk._names.get(folder.number, ({}, []))
    entries = dict[str, Any](durable)
    for change in ({}, *changes):
        entries.update(change)
        if max((_end(disk, name, node) for name, node in entries.items()), default=-1) < offset:
            return False
    return True


def _end(disk: SimDisk, name: str, inode: Inode | None) -> int:
    """The end of a segment of which only what is synced survives; -1 for another file, or none."""
    parsed = names.parse_segment_file(name)
    if inode is None or parsed is None or parsed[1] != names.LOG:
        return -1
    end_offset, _ = parsed
    content, _ = disk._contents.get(inode.number, (b"", []))
    with suppress(Malformed):  # space that was reserved
        for _, header in batch_headers(content if inode.data.startswith(content) else b""):
            end_offset = header.next_offset
    return end_offset
