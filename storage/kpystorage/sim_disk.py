"""A simulated disk: it can fail or lose power at any call, and then keeps what was promised and a random part of the
rest.

Promised are the content of a file as of its last fsync, and the names in a directory as of its last fsync. After a
power failure, or a remount of the file system under a running machine, chance adds: for each directory the changes of
names since then up to some point; for each file any selection of the writes and cuts since then, a write possibly in
part. After the death of the process alone everything stays, but the call in progress may have been done in part. A
failed fsync of a file loses for good what was written since the last one, except for a random part.

A flush may be slow: ``before_sync`` is called before each sync, and a simulated thread lets others go on there.

Invariant: the same random numbers give the same faults.
"""

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock
from typing import Protocol

from kpystorage.memory_disk import Folder, Inode, MemoryDisk
from kpywire.varint import Buffer


class FaultRandomness(Protocol):
    """The methods of ``random.Random`` that are needed."""

    def random(self) -> float: ...
    def randint(self, a: int, b: int, /) -> int: ...


class SimulatedCrash(BaseException):
    """The machine or the process died at this call. Storage code never catches it."""


class SimDisk(MemoryDisk):
    """A disk that fails on demand. Set ``crash_at`` or ``fail_at`` to the number of a call, counted from 1."""

    reserves = True

    def __init__(self, rng: FaultRandomness, boot: int = 1, mount: int = 1) -> None:
        super().__init__()
        self._rng = rng
        self._boot = boot
        self._mount = mount
        self.calls = 0
        """The number of changing calls so far."""
        self.crash_at = 0
        self.fail_at = 0
        self.failure: Callable[[], OSError] = lambda: OSError(errno.EIO, "simulated")
        self.loses_pages: Callable[[], bool] = lambda: False
        """Asked at each fsync of a file that was written to: whether it fails."""
        self.before_sync: Callable[[], object] = lambda: None
        self.lock_of: Callable[[], AbstractContextManager[object]] = Lock
        self._dead = False
        self._names: dict[int, tuple[dict[str, Inode | Folder], list[dict[str, Inode | Folder | None]]]] = {}
        self._contents: dict[int, tuple[bytes, list[tuple[bytes | None, int]]]] = {}

    # Faults.

    def _fault(self) -> str:
        """Count a call. Return what happens to it, ``""`` if nothing."""
        if self._dead:
            raise SimulatedCrash
        self.calls += 1
        if self.calls == self.crash_at:
            self._dead = True
            return "crash"
        return "failure" if self.calls == self.fail_at else ""

    def _raise(self, fault: str) -> None:
        if fault:
            raise SimulatedCrash if fault == "crash" else self.failure()

    def rename_entries(self, folder: Folder, changes: dict[str, Inode | Folder | None]) -> None:
        fault = self._fault()
        if not fault or (fault == "crash" and self._rng.random() < 0.5):
            self._names.setdefault(folder.number, ({}, []))[1].append(changes)
            super().rename_entries(folder, changes)
        self._raise(fault)

    def change(self, inode: Inode, data: Buffer | None, position: int) -> None:
        fault = self._fault()
        if fault and data is not None:
            data = bytes(data)[: self._rng.randint(0, len(data))]
        elif fault and self._rng.random() < 0.5:
            self._raise(fault)
        copy = None if data is None else bytes(data)
        self._contents.setdefault(inode.number, (b"", []))[1].append((copy, position))
        super().change(inode, copy, position)
        self._raise(fault)

    def synchronize(self, node: Inode | Folder) -> None:
        self.before_sync()
        self._raise(self._fault())
        if isinstance(node, Folder):
            self._names[node.number] = (dict(node.entries), [])
        elif self._contents.get(node.number, (b"", []))[1] and self.loses_pages():
            node.data = self._surviving_file(node, self._rng.random()).data
            self._contents[node.number] = (bytes(node.data), [])
            raise OSError(errno.EIO, "simulated")
        else:
            self._contents[node.number] = (bytes(node.data), [])

    def synchronize_directory(self, path: str) -> None:
        self.before_sync()  # also before the path is followed
        super().synchronize_directory(path)

    def synchronize_all(self, path: str) -> bool:
        self._raise(self._fault())
        self._synchronize_tree(self._folder(path))
        return True

    def _synchronize_tree(self, folder: Folder) -> None:
        self._names[folder.number] = (dict(folder.entries), [])
        for node in folder.entries.values():
            if isinstance(node, Folder):
                self._synchronize_tree(node)
            else:
                self._contents[node.number] = (bytes(node.data), [])

    def new_lock(self) -> AbstractContextManager[object]:
        return self.lock_of()

    def boot_id(self) -> str:
        return f"boot {self._boot}"

    def mount_id(self, path: str) -> str:
        del path
        return f"mount {self._mount}"

    # What is left.

    def after_process_death(self) -> "SimDisk":
        """The disk as the next process finds it: nothing that was written is lost."""
        disk = SimDisk(self._rng, self._boot, self._mount)
        disk.root, disk._numbers, disk._time_ns = self.root, self._numbers, self._time_ns
        disk._names, disk._contents = self._names, self._contents
        return disk

    def after_power_failure(self) -> "SimDisk":
        """The disk as the machine finds it when it is back."""
        return self._survivor(SimDisk(self._rng, self._boot + 1))

    def after_remount(self) -> "SimDisk":
        """The disk as the next process finds it when the file system went down and was remounted in between."""
        return self._survivor(SimDisk(self._rng, self._boot, self._mount + 1))

    def _survivor(self, disk: "SimDisk") -> "SimDisk":
        disk._numbers, disk._time_ns = self._numbers, self._time_ns
        luck = self._rng.random()
        kept: dict[int, Inode | Folder] = {}
        disk.root = self._surviving_folder(self.root, luck, kept)
        for number, node in kept.items():
            disk.synchronize(node)
            assert number == node.number
        disk.calls = 0
        return disk

    def _surviving_folder(self, folder: Folder, luck: float, kept: dict[int, Inode | Folder]) -> Folder:
        survivor = Folder(folder.number)
        survivor.modified_ns = folder.modified_ns
        kept[folder.number] = survivor
        durable, changes = self._names.get(folder.number, ({}, []))
        entries = dict(durable)
        for change in changes[: self._lucky(len(changes), luck)]:
            for name, node in change.items():
                if node is None:
                    entries.pop(name, None)
                else:
                    entries[name] = node
        for name, node in entries.items():
            if node.number not in kept:
                if isinstance(node, Folder):
                    self._surviving_folder(node, luck, kept)
                else:
                    kept[node.number] = self._surviving_file(node, luck)
            survivor.entries[name] = kept[node.number]
        return survivor

    def _surviving_file(self, inode: Inode, luck: float) -> Inode:
        survivor = Inode(inode.number)
        survivor.modified_ns = inode.modified_ns
        durable, changes = self._contents.get(inode.number, (b"", []))
        survivor.data = bytearray(durable)
        for data, position in changes:
            if self._rng.random() < luck:
                if data is None:
                    survivor.truncate(position)
                else:
                    whole = self._rng.random() < luck
                    survivor.write(data if whole else data[: self._rng.randint(0, len(data))], position)
        return survivor

    def _lucky(self, count: int, luck: float) -> int:
        """The number of ``count`` changes of names that survive."""
        return count if self._rng.random() < luck else self._rng.randint(0, count)
