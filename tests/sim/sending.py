"""Numbers of simulated files, and the system's calls that nodes make with these: ``sendfile``, ``pread``, ``preadv``.

So replies leave as in production: slices of closed segments are compared with their checksums in a thread before they
are sent first, and what is not in the page cache is waited for.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kpystorage.memory_disk import Inode, MemoryDescriptor

if TYPE_CHECKING:
    from .network import Network

FIRST = 1 << 20
"""The numbers of sockets are smaller."""


class Files:
    """All files that somebody has open, of one simulation."""

    def __init__(self) -> None:
        self.network: Network | None = None
        self._numbers: dict[Inode, int] = {}
        self._inodes: list[Inode] = []

    def reset(self, network: "Network") -> None:
        """A new simulation begins, whose files have numbers that the system's calls know."""
        MemoryDescriptor.fileno = lambda descriptor: self.number(descriptor)  # type: ignore[method-assign]
        os.pread, os.preadv, os.sendfile = self.pread, self.preadv, self.sendfile  # type: ignore[assignment]
        self.network = network
        self._numbers.clear()
        self._inodes.clear()

    def number(self, descriptor: MemoryDescriptor) -> int:
        """The number that the system gives a file."""
        inode = descriptor._inode
        number = self._numbers.get(inode)
        if number is None:
            number = self._numbers[inode] = FIRST + len(self._inodes)
            self._inodes.append(inode)
        return number

    def pread(self, number: int, length: int, position: int) -> bytes:
        """The simulation's ``os.pread``."""
        return self._inodes[number - FIRST].read(length, position)

    def preadv(self, number: int, _buffers: Sequence[Any], position: int, _flags: int = 0) -> int:
        """The simulation's ``os.preadv`` that must not wait: many old bytes are not in the page cache."""
        assert self.network is not None
        if self.network.world.stream("page cache").random() < 0.3:
            raise BlockingIOError
        return len(self.pread(number, 1, position))

    def sendfile(self, socket_number: int, number: int, position: int, count: int) -> int:
        """The simulation's ``os.sendfile``; a descriptor that is no socket of the simulation is the null device."""
        assert self.network is not None
        data = self.pread(number, count, position)
        sock: Any = self.network.descriptors.get(socket_number)
        if sock is None:
            return len(data)
        return int(sock.send(data)) if data else 0


FILES = Files()
