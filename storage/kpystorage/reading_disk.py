"""The file system, read-only: files are opened for reading only, so that those of another owner can be read."""

import errno
import os
from typing import Any, NoReturn

from kpystorage.real_descriptor import RealDescriptor
from kpystorage.real_disk import RealDisk


class ReadingFile:
    """A file that is only read; one descriptor, opened at the first read. A write is an OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_given_up = False
        self._descriptor: RealDescriptor | None = None

    def descriptor(self) -> RealDescriptor:
        if self._descriptor is None:
            self._descriptor = RealDescriptor(os.open(self.path, os.O_RDONLY))
        return self._descriptor

    def pread(self, length: int, position: int) -> bytes:
        return self.descriptor().pread(length, position)

    def size(self) -> int:
        descriptor = self._descriptor
        return os.stat(self.path if descriptor is None else descriptor.fileno()).st_size

    def _refuse(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise _read_only(self.path)

    pwrite = truncate = reserve = fsync = _refuse

    def release(self) -> None:
        self._descriptor = None


class ReadingDisk(RealDisk):
    """The file system, read-only. To change something through it is a mistake, and an OSError."""

    def file(self, path: str) -> ReadingFile:
        return ReadingFile(path)

    def _refuse(self, *arguments: Any, **_options: Any) -> NoReturn:
        raise _read_only(str(arguments[0]))

    create = write = rename = link = unlink = make_directory = remove_directory = set_modified = lock = _refuse


def _read_only(path: str) -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS), path)
