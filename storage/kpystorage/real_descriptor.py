"""An open file of the operating system: reads, fsync, and the calls behind them.

Invariant: a descriptor is closed exactly once, when its last holder releases it.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

_CACHE_BYTES = 1 << 16
"""A multiple of all page sizes: parts of a page are not dropped from the cache."""
FULL_FSYNC = getattr(fcntl, "F_FULLFSYNC", 0)
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)


def flush_to_medium(fd: int) -> None:
    """Make a file durable down to the medium. On macOS fsync itself ends at the drive's cache, so F_FULLFSYNC is
    used."""
    if FULL_FSYNC:
        try:
            fcntl.fcntl(fd, FULL_FSYNC)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            return
    os.fsync(fd)


def copy_bytes(source: int, target: int, length: int) -> int:
    """Copy the first bytes of one file to the beginning of another, in the system: a file system that can share blocks
    copies none. Return how many were copied: fewer where the source ends, or where the system cannot do it."""
    copied = 0
    if sys.platform == "linux":
        with suppress(OSError):  # the caller copies the rest, and meets the error where it is one
            while copied < length and (count := os.copy_file_range(source, target, length - copied, copied, copied)):
                copied += count
    return copied


def flush_directory(path: str) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flush_to_medium(fd)
    finally:
        os.close(fd)


def _confirm(fd: int) -> None:
    """Wait for the writes in progress, and report failed ones."""
    from kpystorage.system_calls import wait_for_writes  # not of a plain start

    if not wait_for_writes(fd):
        flush_to_medium(fd)


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
        self._ask(flush_to_medium)

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
