"""System calls of Linux that the standard library does not have, by ``ctypes``. A plain start does without them."""

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache

_WAIT_BEFORE = 1
"""``SYNC_FILE_RANGE_WAIT_BEFORE``: wait for the writes in progress, and report failed ones, as fsync does (both end
in ``file_check_and_advance_wb_err`` of the kernel's ``mm/filemap.c``), without a flush of the drive for every file."""
_NOT_THERE = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ESPIPE, errno.EOPNOTSUPP)
_STATX_MNT_ID_UNIQUE = 0x4000
_AT_EMPTY_PATH = 0x1000
_STATX_BYTES = 256
_MASK_END = 4
_MOUNT_ID = slice(144, 152)


@cache
def library_call(name: str) -> Callable[..., int] | None:
    """A function of the C library; None where it is not there, and on other systems than Linux."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), name, None)


def wait_for_writes(fd: int) -> bool:
    """Wait for a file's writes in progress; False if the system cannot. OSError: one of them failed."""
    sync_file_range = library_call("sync_file_range")
    if sync_file_range is None:
        return False
    if sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_uint(_WAIT_BEFORE)):
        number = ctypes.get_errno()
        if number not in _NOT_THERE:
            raise OSError(number, os.strerror(number))
        return False
    return True


def flush_file_system(fd: int, path: str) -> bool:
    """Make everything durable that the file system of an open file has; False if the system cannot. OSError: a write
    failed."""
    syncfs = library_call("syncfs")
    if syncfs is None:
        return False
    if syncfs(fd):
        raise OSError(ctypes.get_errno(), "syncfs failed", path)
    return True


def unique_mount_id(fd: int) -> int | None:
    """The id that no other mount since boot has, of the mount of an open file; None where statx does not know it."""
    statx = library_call("statx")
    if statx is None:
        return None
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    if statx(ctypes.c_int(fd), b"", ctypes.c_int(_AT_EMPTY_PATH), ctypes.c_uint(_STATX_MNT_ID_UNIQUE), buffer):
        return None
    if not int.from_bytes(buffer.raw[:_MASK_END], sys.byteorder) & _STATX_MNT_ID_UNIQUE:
        return None
    return int.from_bytes(buffer.raw[_MOUNT_ID], sys.byteorder)
