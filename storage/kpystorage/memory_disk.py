"""A disk in memory behind the file protocol: for brokers inside tests, and under the simulated disk.

It has no descriptors for ``sendfile`` (``fileno()`` is -1) and no clock: times of change just grow.

Invariant: as with a real disk, an open file outlives its name.
"""

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager
from threading import Lock

from kpystorage.disk import FileStatus
from kpystorage.gathering import Gathering
from kpywire.varint import Buffer

_NANOSECONDS_PER_MS = 1_000_000


class Inode:
    """The content of a file."""

    __slots__ = ("data", "modified_ns", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.modified_ns = 0
        self.data = bytearray()

    def read(self, length: int, position: int) -> bytes:
        """At most ``length`` bytes from ``position`` on. A negative position is refused, as by the operating system."""
        if position < 0:
            raise OSError(errno.EINVAL, "Invalid argument")
        return bytes(self.data[position : position + length])

    def write(self, data: Buffer, position: int) -> None:
        """Put ``data`` at ``position``; a gap before it is filled with zeros."""
        content = self.data
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data

    def truncate(self, length: int) -> None:
        """Cut or extend (with zeros) to ``length`` bytes."""
        if length <= len(self.data):
            self.data = self.data[:length]
        else:
            self.data.extend(bytes(length - len(self.data)))


class Folder:
    """The names in a directory."""

    __slots__ = ("entries", "modified_ns", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.modified_ns = 0
        self.entries: dict[str, Inode | Folder] = {}


class MemoryDescriptor:
    """An open file in memory."""

    __slots__ = ("_disk", "_inode")

    def __init__(self, disk: "MemoryDisk", inode: Inode) -> None:
        self._disk = disk
        self._inode = inode

    def fileno(self) -> int:
        return -1

    def pread(self, length: int, position: int) -> bytes:
        return self._inode.read(length, position)

    def fsync(self) -> None:
        self._disk.synchronize(self._inode)

    def confirm(self) -> None:
        """Do nothing: no write fails silently here."""

    def drop_cache(self, position: int, end: int) -> None:
        """Do nothing: there is no cache."""


class MemoryFile:
    """A file in memory by its path."""

    __slots__ = ("_disk", "_inode", "is_given_up", "path")

    def __init__(self, disk: "MemoryDisk", path: str, inode: Inode | None = None) -> None:
        self.path = path
        self.is_given_up = False
        self._disk = disk
        self._inode = inode

    def _open(self) -> Inode:
        if self._inode is None:
            self._inode = self._disk.inode(self.path)
        return self._inode

    def descriptor(self) -> MemoryDescriptor:
        return MemoryDescriptor(self._disk, self._open())

    def pread(self, length: int, position: int) -> bytes:
        return self._open().read(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._disk.change(self._open(), data, position)

    def size(self) -> int:
        return len(self._open().data)

    def truncate(self, length: int) -> None:
        self._disk.change(self._open(), None, length)

    def reserve(self, length: int) -> None:
        if self._disk.reserves:
            self.truncate(length)

    def fsync(self) -> None:
        self._disk.synchronize(self._open())

    def release(self) -> None:
        self._inode = None


class MemoryLock:
    """A lock within this process."""

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class MemoryDisk:
    """A file system in memory. ``capacity_bytes`` is what it says it has; nothing enforces it."""

    reserves = False
    """Whether reserving space makes a file longer, as on a real disk: here it would only cost memory."""

    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.capacity_bytes = capacity_bytes
        self.gathering = Gathering()
        self._numbers = 0
        self._time_ns = 0
        self._locked: set[str] = set()
        self.root = Folder(self._next_number())

    # Looking names up.

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _now_ns(self) -> int:
        self._time_ns += _NANOSECONDS_PER_MS
        return self._time_ns

    def _node(self, path: str) -> Inode | Folder:
        node: Inode | Folder = self.root
        for name in path.split("/"):
            if name:
                if not isinstance(node, Folder) or name not in node.entries:
                    raise FileNotFoundError(path)
                node = node.entries[name]
        return node

    def _folder(self, path: str) -> Folder:
        node = self._node(path)
        if not isinstance(node, Folder):
            raise NotADirectoryError(path)
        return node

    def inode(self, path: str) -> Inode:
        """The content of the file at ``path``."""
        node = self._node(path)
        if isinstance(node, Folder):
            raise IsADirectoryError(path)
        return node

    def _place(self, path: str) -> tuple[Folder, str]:
        directory, _, name = path.rpartition("/")
        return self._folder(directory), name

    # What a disk with faults watches: every change of names, of a file, every fsync.

    def rename_entries(self, folder: Folder, changes: dict[str, Inode | Folder | None]) -> None:
        """Set (or, with None, remove) names of a directory, all at once."""
        folder.modified_ns = self._now_ns()
        for name, node in changes.items():
            if node is None:
                del folder.entries[name]
            else:
                folder.entries[name] = node

    def change(self, inode: Inode, data: Buffer | None, position: int) -> None:
        """Write ``data`` at ``position``, or without data cut the file there."""
        inode.modified_ns = self._now_ns()
        if data is None:
            inode.truncate(position)
        else:
            inode.write(data, position)

    def synchronize(self, node: Inode | Folder) -> None:
        """Make a file's content or a directory's names durable."""

    # The protocol.

    def file(self, path: str) -> MemoryFile:
        return MemoryFile(self, path)

    def create(self, path: str) -> MemoryFile:
        folder, name = self._place(path)
        node = folder.entries.get(name)
        if isinstance(node, Folder):
            raise IsADirectoryError(path)
        if node is None:
            node = Inode(self._next_number())
            self.rename_entries(folder, {name: node})
        elif node.data:
            self.change(node, None, 0)
        return MemoryFile(self, path, node)

    def read(self, path: str) -> bytes:
        return bytes(self.inode(path).data)

    def write(self, path: str, data: Buffer, *, synchronize: bool) -> None:
        file = self.create(path)
        file.pwrite(data, 0)
        if synchronize:
            file.fsync()

    def rename(self, source: str, target: str) -> None:
        folder, name = self._place(source)
        target_folder, target_name = self._place(target)
        if name not in folder.entries:
            raise FileNotFoundError(source)
        if folder is not target_folder:
            raise OSError(f"{source} and {target} are not in one directory")
        replaced = folder.entries.get(target_name)
        if isinstance(replaced, Folder) and replaced.entries:
            raise FileExistsError(target)
        self.rename_entries(folder, {name: None, target_name: folder.entries[name]})

    def link(self, source: str, target: str) -> None:
        inode = self.inode(source)
        folder, name = self._place(target)
        if name in folder.entries:
            raise FileExistsError(target)
        self.rename_entries(folder, {name: inode})

    def unlink(self, path: str) -> None:
        self.inode(path)
        folder, name = self._place(path)
        self.rename_entries(folder, {name: None})

    def list_directory(self, path: str) -> list[str]:
        return list(self._folder(path).entries)

    def make_directory(self, path: str) -> None:
        folder, name = self._place(path)
        if name in folder.entries:
            raise FileExistsError(path)
        self.rename_entries(folder, {name: Folder(self._next_number())})

    def remove_directory(self, path: str) -> None:
        if self._folder(path).entries:
            raise OSError(f"{path} is not empty")
        folder, name = self._place(path)
        self.rename_entries(folder, {name: None})

    def status(self, path: str) -> FileStatus | None:
        try:
            node = self._node(path)
        except FileNotFoundError:
            return None
        is_directory = isinstance(node, Folder)
        size = 0 if isinstance(node, Folder) else len(node.data)
        return FileStatus(size, node.modified_ns, node.number, 1, is_directory)

    def set_modified(self, path: str, modified_ms: int) -> None:
        self.inode(path).modified_ns = modified_ms * _NANOSECONDS_PER_MS

    def synchronize_directory(self, path: str) -> None:
        self.synchronize(self._folder(path))

    def synchronize_all(self, path: str) -> bool:
        del path
        return True

    def lock(self, path: str) -> MemoryLock | None:
        if path in self._locked:
            return None
        if self.status(path) is None:
            self.create(path)
        self._locked.add(path)
        return MemoryLock(self._locked, path)

    def free_bytes(self, path: str) -> int:
        del path
        return max(self.capacity_bytes - sum([len(inode.data) for inode in self._inodes(self.root)]), 0)

    def total_bytes(self, path: str) -> int:
        del path
        return self.capacity_bytes

    def boot_id(self) -> str:
        return ""

    def new_lock(self) -> AbstractContextManager[object]:
        return Lock()

    def mount_id(self, path: str) -> str:
        del path
        return ""

    def _inodes(self, folder: Folder) -> Iterator[Inode]:
        for node in list(folder.entries.values()):  # a thread may ask while the owner of a log makes files
            if isinstance(node, Folder):
                yield from self._inodes(node)
            else:
                yield node
