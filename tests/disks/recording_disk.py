"""A disk in memory that keeps a list of all that changed it, and what clients learned meanwhile.

`cut` makes the disk as it was after a number of entries, to die as the machine or only the process would.
"""

from random import Random
from typing import Any

from kpystorage.memory_disk import Folder, Inode, MemoryDisk
from kpystorage.sim_disk import SimDisk
from kpywire.varint import Buffer

Entry = tuple[Any, ...]


class RecordingDisk(MemoryDisk):
    """Changes of names and contents, and syncs, in their order."""

    reserves = True

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def promise(self, *fact: Any) -> None:
        """A client has learned something."""
        self.entries.append(("promise", fact))

    def rename_entries(self, folder: Folder, changes: dict[str, Inode | Folder | None]) -> None:
        noted = {
            name: None if node is None else (node.number, isinstance(node, Folder)) for name, node in changes.items()
        }
        self.entries.append(("names", folder.number, noted))
        super().rename_entries(folder, changes)

    def change(self, inode: Inode, data: Buffer | None, position: int) -> None:
        copy = None if data is None else bytes(data)
        self.entries.append(("change", inode.number, copy, position))
        super().change(inode, copy, position)

    def synchronize(self, node: Inode | Folder) -> None:
        self.entries.append(("sync", node.number))

    def synchronize_all(self, path: str) -> bool:
        del path
        self.entries.append(("sync all",))
        return True

    def boot_id(self) -> str:
        return "boot 1"

    def mount_id(self, path: str) -> str:
        del path
        return "mount 1"


def cut(entries: list[Entry], count: int, seed: int) -> tuple[SimDisk, list[Any]]:
    """(the disk after the first ``count`` entries, what had been promised by then)."""
    disk = SimDisk(Random(seed))
    nodes: dict[int, Inode | Folder] = {disk.root.number: disk.root}
    promised = []
    for entry in entries[:count]:
        match entry:
            case "promise", fact:
                promised.append(fact)
            case "names", number, noted:
                changes: dict[str, Inode | Folder | None] = {}
                for name, node in noted.items():
                    if node is None:
                        changes[name] = None
                    else:
                        kind = Folder if node[1] else Inode
                        changes[name] = nodes.setdefault(node[0], kind(node[0]))
                folder = nodes[number]
                assert isinstance(folder, Folder)
                disk.rename_entries(folder, changes)
            case "change", number, data, position:
                inode = nodes[number]
                assert isinstance(inode, Inode)
                disk.change(inode, data, position)
            case "sync", number:
                disk.synchronize(nodes[number])
            case _:
                disk.synchronize_all("/")
    disk._numbers = max(nodes)
    return disk, promised
