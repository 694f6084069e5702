"""The operating system's files without ``fsync``, for a broker in a test that keeps its data in a directory.

The data survives the death of the broker and of the process, since the system has every write. It does not survive that
of the machine, which no test causes. Without waiting for the disk a broker needs no threads, and an hour passes in a
moment.
"""

from kpystorage.real_descriptor import RealDescriptor
from kpystorage.real_disk import RealDisk
from kpywire.varint import Buffer


class UnsyncedDescriptor(RealDescriptor):
    """An open file."""

    __slots__ = ()

    def fsync(self) -> None:
        """Do nothing: the system has every write."""
        self.dirty = False

    def confirm(self) -> None:
        """Do nothing: the system has every write."""
        self.dirty = False

    def drop_cache(self, position: int, end: int) -> None:
        """Do nothing: the system has every write."""


class UnsyncedDisk(RealDisk):
    """The file system."""

    descriptor_class = UnsyncedDescriptor

    def write(self, path: str, data: Buffer, *, synchronize: bool) -> None:
        del synchronize
        super().write(path, data, synchronize=False)

    def synchronize_directory(self, path: str) -> None:
        """Do nothing: the system has every write."""

    def synchronize_all(self, path: str) -> bool:
        """Return True: the system has every write."""
        del path
        return True
