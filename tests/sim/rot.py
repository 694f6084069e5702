"""Bits of old files that turn over while a machine is off, and what its operator does about it in the end.

Kafka promises little here: what is damaged is found by its checksum, by whoever reads it. So this must hold: nobody is
ever sent a damaged batch, neither a client nor a replica; a damaged index or snapshot misleads nobody; and when the
partition's directory is removed and the node started again, the replica is rebuilt from those that have everything. It
happens only where another replica in sync is whole, as a wiped disk does. (Not to time and transaction indexes,
which have no checksums and say what is deleted and what was aborted, nor to checkpoints, nor to a batch's offset and
epoch, which its checksum leaves out since leaders assign them: nobody could tell.)
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kpystorage.disk import remove_tree
from kpystorage.memory_disk import Folder
from kpywire.batch import HEADER_BYTES, LENGTH_END, MAGIC_POSITION

from .layout import DIRECTORY

if TYPE_CHECKING:
    from .machine import Machine
    from .world import World

SEGMENT = ".log"
BASE_OFFSET_BYTES = 8
DERIVED = (".index", ".snapshot")
"""What can be made anew from the segments."""


class Rot:
    """Of all disks."""

    def __init__(self, world: "World", often: float, may_be_lost: "Callable[[Machine], bool]") -> None:
        """``often``: how likely it is each time that a process has died."""
        self.world = world
        self.rng = world.stream("rot")
        self.often = often
        self.may_be_lost = may_be_lost
        self._repaired: set[Machine] = set()
        """Those whose operators wait for the end of the process, to remove what is damaged."""

    def repair(self, machine: "Machine") -> None:
        """Stop a machine's node, if it runs, and remove what is damaged before it starts again."""
        if machine.is_alive:
            self._repaired.add(machine)
            machine.stop()
        else:
            self._remove(machine)

    def died(self, machine: "Machine") -> None:
        """A machine's process is gone, and it will start again."""
        if machine in self._repaired:
            self._repaired.discard(machine)
            self._remove(machine)
        elif self.rng.random() < self.often and not machine.is_suspect and self.may_be_lost(machine):
            self._turn_over(machine)

    def _turn_over(self, machine: "Machine") -> None:
        rng = self.rng
        folders = {
            name: segments
            for name, node in sorted(_partitions(machine).entries.items())
            if isinstance(node, Folder) and not name.startswith("__") and "." not in name
            if (segments := sorted(each for each in node.entries if each.endswith(SEGMENT))[:-1])
        }
        if not folders:
            return
        name = rng.choice(list(folders))
        file = rng.choice(folders[name])
        if rng.random() < 0.4:
            file = file.removesuffix(SEGMENT) + rng.choice(DERIVED)
        folder: Any = _partitions(machine).entries[name]
        inode = folder.entries.get(file)
        if inode is None or not inode.data:
            return
        at, bit = rng.randrange(len(inode.data)), 1 << rng.randrange(8)
        if file.endswith(SEGMENT) and _is_without_checksum(bytes(inode.data), at):
            return
        inode.data[at] ^= bit
        machine.disk.synchronize(inode)
        self.world.tell(f"bit {bit} of byte {at} of {name}/{file} on {machine} turns over")
        if file.endswith(SEGMENT):
            machine.damaged.add(name)

    def _remove(self, machine: "Machine") -> None:
        """The operator removes what is damaged."""
        for name in sorted(machine.damaged & set(_partitions(machine).entries)):
            self.world.tell(f"{name} is removed from {machine}")
            for _path in remove_tree(machine.disk, f"{DIRECTORY}/{name}"):
                pass
            machine.disk.synchronize_directory(DIRECTORY)
        machine.damaged.clear()


def _is_without_checksum(data: bytes, at: int) -> bool:
    """Whether a byte of a segment belongs to the offset or the epoch of a batch."""
    position = 0
    while position <= at and position + HEADER_BYTES <= len(data):
        size = LENGTH_END + int.from_bytes(data[position + BASE_OFFSET_BYTES : position + LENGTH_END])
        if at < position + size:
            return at < position + BASE_OFFSET_BYTES or position + LENGTH_END <= at < position + MAGIC_POSITION
        position += size
    return False


def _partitions(machine: "Machine") -> Folder:
    """The log directory of a machine."""
    folder: Any = machine.disk.root
    for name in DIRECTORY.strip("/").split("/"):
        folder = folder.entries.get(name, Folder(0))
    assert isinstance(folder, Folder)
    return folder
