"""The operating system's files without ``fsync``: what a broker in a test keeps in a directory.

It survives the death of the broker and of the process, since the system has every write; not that of the machine, which
no test causes. Without waiting for the disk a broker needs no threads, and an hour passes in a moment.
"""

from kpystorage.real_disk import RealDescriptor, RealDisk, RealFile
from kpywire.varint import Buffer


class UnsyncedDescriptor(RealDescriptor):
    """An open file."""

    __slots__ = ()

    def fsync(self) -> None:
        """The system has it."""


class UnsyncedFile(RealFile):
    """A file by its path."""

    __slots__ = ()

    descriptor_class = UnsyncedDescriptor

    def fsync(self) -> None:
        """The system has it."""


class UnsyncedDisk(RealDisk):
    """The file system."""

    def file(self, path: str) -> UnsyncedFile:
        return UnsyncedFile(path, self.descriptors)

    def create(self, path: str) -> UnsyncedFile:
        file = UnsyncedFile(path, self.descriptors)
        file.create()
        return file

    def write(self, path: str, data: Buffer, *, synchronize: bool) -> None:
        del synchronize
        super().write(path, data, synchronize=False)

    def synchronize_directory(self, path: str) -> None:
        """The system has it."""

    def synchronize_all(self, path: str) -> bool:
        """The system has it."""
        del path
        return True
