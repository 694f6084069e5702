"""The operating system's files behind the file protocol: locks and whole files."""

import fcntl
import os
from contextlib import AbstractContextManager
from threading import Lock

from kpystorage.disk import FileStatus
from kpystorage.file import File
from kpystorage.gathering import Gathering
from kpystorage.mounts import mount_id
from kpystorage.real_descriptor import RealDescriptor, flush_to_medium
from kpystorage.real_file import Descriptors, RealFile
from kpywire.varint import Buffer

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
_SMALL_FILE_BYTES = 1 << 16
_LOCKED_HERE: set[str] = set()
"""The locks of this process. To the system they all have one owner, so a second node in this process would not be kept
out."""


class RealLock:
    """A POSIX lock, which Java's FileChannel.lock respects. Closing any other descriptor of the file would free it."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        _LOCKED_HERE.add(path)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _LOCKED_HERE.discard(self._path)


class RealDisk:
    """The file system of the operating system."""

    descriptor_class = RealDescriptor

    def __init__(self, descriptors: Descriptors | None = None) -> None:
        self.descriptors = Descriptors() if descriptors is None else descriptors
        self.gathering = Gathering()

    def file(self, path: str) -> File:
        return RealFile(path, self.descriptors, self.descriptor_class)

    def create(self, path: str) -> File:
        file = RealFile(path, self.descriptors, self.descriptor_class)
        file.create()
        return file

    def read(self, path: str) -> bytes:
        fd = self.descriptors.open(path, os.O_RDONLY)
        try:
            data = os.read(fd, _SMALL_FILE_BYTES)
            if len(data) < _SMALL_FILE_BYTES:
                return data
            pieces = [data]
            while data := os.read(fd, _SMALL_FILE_BYTES):
                pieces.append(data)
            return b"".join(pieces)
        finally:
            os.close(fd)

    def write(self, path: str, data: Buffer, *, synchronize: bool) -> None:
        fd = self.descriptors.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if synchronize:
                flush_to_medium(fd)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def list_directory(self, path: str) -> list[str]:
        return self.descriptors.with_room(lambda: os.listdir(path), path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path, self.descriptors.modes.of_directory(path))

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def status(self, path: str) -> FileStatus | None:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return None
        is_directory = status.st_mode & 0o170000 == 0o040000
        return FileStatus(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev, is_directory)

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def synchronize_directory(self, path: str) -> None:
        fd = self.descriptors.open(path, os.O_RDONLY)
        try:
            flush_to_medium(fd)
        finally:
            os.close(fd)

    def synchronize_all(self, path: str) -> bool:
        from kpystorage.system_calls import flush_file_system  # not of a plain start

        fd = self.descriptors.open(path, os.O_RDONLY)
        try:
            return flush_file_system(fd, path)
        finally:
            os.close(fd)

    def lock(self, path: str) -> RealLock | None:
        real_path = os.path.realpath(path)
        if real_path in _LOCKED_HERE:
            return None
        fd = self.descriptors.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return RealLock(fd, real_path)

    def free_bytes(self, path: str) -> int:
        statistics = os.statvfs(path)
        return statistics.f_bavail * statistics.f_frsize

    def total_bytes(self, path: str) -> int:
        statistics = os.statvfs(path)
        return statistics.f_blocks * statistics.f_frsize

    def boot_id(self) -> str:
        try:
            return self.read(BOOT_ID_PATH).decode().strip()
        except OSError:
            return ""

    def new_lock(self) -> AbstractContextManager[object]:
        return Lock()

    def mount_id(self, path: str) -> str:
        return mount_id(path)
