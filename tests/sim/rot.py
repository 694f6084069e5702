"""Bits of old files that turn over while a machine is off, and what its operator does about it in the end.

Kafka promises little here: what is damaged is found by its checksum, by its reader. So this must hold: nobody is
ever sent a damaged batch, neither a client nor a replica; a damaged index or snapshot misleads nobody; and when the
partition's directory is removed and the node started again, the replica is rebuilt from those that have everything. It
happens only where another replica in sync is whole, as a wiped disk does. That one may leave later, when a partition
moves to brokers of which each has damage somewhere: then the operator puts back a copy of the files that were kept.

(Not to time and transaction indexes, which have no checksums and say what is deleted and what was aborted, nor to
checkpoints, nor to a batch's offset and epoch, which its checksum leaves out since leaders assign them: nobody could
tell.)
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kpystorage.disk import remove_tree
from kpystorage.memory_disk import Folder
from kpystorage.names import CLEAN_SHUTDOWN
from kpywire.batch import ATTRIBUTES_POSITION, HEADER_BYTES, LENGTH_END, MAGIC_POSITION, batch_headers
from kpywire.crc import crc32c
from kpywire.errors import Malformed

from .layout import DIRECTORY

if TYPE_CHECKING:
    from .machine import Machine
    from .world import World

SEGMENT = ".log"
BASE_OFFSET_BYTES = 8
DERIVED = (".index", ".snapshot")
"""The files that can be rebuilt from the segments."""


class Turned(NamedTuple):
    """A bit of a partition's segment that turned over."""

    partition: str
    file: str
    at: int
    bit: int


class Rot:
    """The rot of all disks."""

    def __init__(self, world: "World", often: float, may_be_lost: "Callable[[Machine], bool]") -> None:
        """``often``: how likely it is each time that a process has died."""
        self.world = world
        self.rng = world.stream("rot")
        self.often = often
        self.may_be_lost = may_be_lost
        self._repairs: dict[Machine, Callable[[Machine], None]] = {}
        """The repairs that operators make when the process has ended that they wait for."""
        self._turned: dict[Machine, list[Turned]] = {}

    def repair(self, machine: "Machine") -> None:
        """Stop a machine's node, if it runs, and remove what is damaged before it starts again."""
        self._do(machine, self._remove)

    def restore(self, machine: "Machine") -> None:
        """The same, but put back what the files were before they were damaged."""
        self._do(machine, self._put_back)

    def _do(self, machine: "Machine", repair: "Callable[[Machine], None]") -> None:
        if machine.is_alive:
            self._repairs[machine] = repair
            machine.stop()
        else:
            repair(machine)

    def died(self, machine: "Machine") -> None:
        """A machine's process is gone, and it will start again."""
        repair = self._repairs.pop(machine, None)
        if repair is not None:
            repair(machine)
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
            self._turned.setdefault(machine, []).append(Turned(name, file, at, bit))

    def _remove(self, machine: "Machine") -> None:
        """The operator removes what is damaged, and that the stop was clean: who lacks records is no heir (KIP-966)."""
        for name in sorted(machine.damaged & set(_partitions(machine).entries)):
            self.world.tell(f"{name} is removed from {machine}")
            for _path in remove_tree(machine.disk, f"{DIRECTORY}/{name}"):
                pass
        with suppress(FileNotFoundError):
            machine.disk.unlink(f"{DIRECTORY}/{CLEAN_SHUTDOWN}")
        machine.disk.synchronize_directory(DIRECTORY)
        self._is_whole(machine)

    def _put_back(self, machine: "Machine") -> None:
        """The operator has a copy of what is damaged, unless that is gone or was rewritten by now."""
        for name, file, at, bit in self._turned.get(machine, ()):
            folder: Any = _partitions(machine).entries.get(name)
            inode = None if folder is None else folder.entries.get(file)
            if inode is not None and at < len(inode.data):
                before = bytes(inode.data)
                inode.data[at] ^= bit
                if _wrong(bytes(inode.data)) < _wrong(before):
                    self.world.tell(f"{name}/{file} on {machine} is put back")
                    machine.disk.synchronize(inode)
                else:
                    inode.data[at] ^= bit
        self._is_whole(machine)

    def _is_whole(self, machine: "Machine") -> None:
        machine.damaged.clear()
        self._turned.pop(machine, None)


def _wrong(data: bytes) -> int:
    """How many bytes of a segment are in no batch that is whole."""
    wrong = len(data)
    with suppress(Malformed):
        for position, header in batch_headers(data):
            if crc32c(data[position + ATTRIBUTES_POSITION : position + header.size]) == header.crc:
                wrong -= header.size
    return wrong


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
