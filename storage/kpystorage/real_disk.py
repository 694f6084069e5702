"""The operating system's files behind the file protocol: descriptors, locks and whole files.

Invariant: a descriptor is closed exactly once, when its last holder releases it.
"""

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cache
from threading import Lock

from kpystorage.disk import File, FileStatus
from kpystorage.gathering import Gathering
from kpystorage.mounts import mount_id
from kpystorage.real_file import Descriptors, RealFile
from kpywire.varint import Buffer

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
_SMALL_FILE_BYTES = 1 << 16
_CACHE_BYTES = 1 << 16
"""A multiple of all page sizes: parts of a page are not dropped from the cache."""
_FULL_FSYNC = getattr(fcntl, "F_FULLFSYNC", 0)
_WAIT_BEFORE = 1
"""``SYNC_FILE_RANGE_WAIT_BEFORE``: wait for the writes in progress, and report failed ones, as fsync does (both end
in ``file_check_and_advance_wb_err`` of the kernel's ``mm/filemap.c``), without a flush of the drive for every file."""
_NOT_THERE = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ESPIPE, errno.EOPNOTSUPP)
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)


def _synchronize(fd: int) -> None:
    """Make a file durable down to the medium. On macOS fsync itself ends at the drive's cache, so F_FULLFSYNC is
    used."""
    if _FULL_FSYNC:
        try:
            fcntl.fcntl(fd, _FULL_FSYNC)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            return
    os.fsync(fd)


@cache
def _library_call(name: str) -> Callable[..., int] | None:
    """A system call of Linux that the standard library does not have; None elsewhere."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return getattr(library, name, None)


def _confirm(fd: int) -> None:
    """Wait for the writes in progress, and report failed ones."""
    confirm = _library_call("sync_file_range")
    if confirm is None:
        _synchronize(fd)
    elif confirm(fd, ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_uint(_WAIT_BEFORE)):
        error = ctypes.get_errno()
        if error not in _NOT_THERE:
            raise OSError(error, os.strerror(error))
        _synchronize(fd)


class RealDescriptor:
    """An open file of the operating system. Usable from any thread. It is closed when its last holder releases it.

    The system reports a failed write once. So one thread at a time asks, and every later question gets the same answer.
    """

    __slots__ = ("__weakref__", "_asking", "_failure", "_fd", "dirty", "used")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._asking = Lock()
        self._failure: OSError | None = None
        self.used = True  # since the sweep last looked
        self.dirty = False  # written through since its last fsync began

    def fileno(self) -> int:
        return self._fd

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        pieces = [data]  # a signal or a page limit cut the read: go on to the end of the file
        got = len(data)
        while got < length and (data := os.pread(self._fd, length - got, position + got)):
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def fsync(self) -> None:
        self._ask(_synchronize)

    def confirm(self) -> None:
        self._ask(_confirm)

    def _ask(self, question: Callable[[int], object]) -> None:
        with self._asking:
            if self._failure is not None:
                raise OSError(self._failure.errno, self._failure.strerror)
            self.dirty = False  # first: what is written meanwhile may not be covered
            try:
                question(self._fd)
            except OSError as error:
                self._failure = error
                raise

    def drop_cache(self, position: int, end: int) -> None:
        if sys.platform == "linux":
            begin = position - position % _CACHE_BYTES
            with suppress(OSError):  # a file system may not know it
                os.posix_fadvise(self._fd, begin, end - begin + _CACHE_BYTES, os.POSIX_FADV_DONTNEED)

    @property
    def is_closed(self) -> bool:
        """Whether its last holder has released it. Weak references still lead to it while it is being closed."""
        return self._fd < 0

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        fd, self._fd = self._fd, -1  # first: other threads go on while it is being closed
        if fd >= 0:
            close(fd)  # bound early: at the interpreter's end the module may be gone before the last descriptor


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
                _synchronize(fd)
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
            _synchronize(fd)
        finally:
            os.close(fd)

    def synchronize_all(self, path: str) -> bool:
        syncfs = _library_call("syncfs")
        if syncfs is None:
            return False
        fd = self.descriptors.open(path, os.O_RDONLY)
        try:
            if syncfs(fd):
                raise OSError(ctypes.get_errno(), "syncfs failed", path)
        finally:
            os.close(fd)
        return True

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
