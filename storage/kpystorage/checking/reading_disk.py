"""The file system, for looking only: files are opened for reading, so what belongs to others can be checked."""

import os

from kpystorage.real_disk import RealDescriptor, RealDisk, RealFile


class ReadingFile(RealFile):
    """A file that is only read; one descriptor, opened at the first read."""

    def descriptor(self) -> RealDescriptor:
        if self._descriptor is None:
            self._descriptor = RealDescriptor(os.open(self.path, os.O_RDONLY))
        return self._descriptor

    def release(self) -> None:
        self._descriptor = None


class ReadingDisk(RealDisk):
    """Whoever writes by it writes by mistake: its files are not open for that."""

    def file(self, path: str) -> ReadingFile:
        return ReadingFile(path, self.descriptors)
