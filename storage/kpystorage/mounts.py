"""The identity of the current mount of a path's file system. If it differs from before, the page cache of then is lost.

For ext4, XFS and F2FS the kernel keeps an object in ``/sys/fs`` from the mount to the last unmount, whose inode number
is not given twice; containers see it, and it outlives their own mounts. For other file systems the unique id of a mount
is used (Linux 6.8), which a restarted container does not keep. Caches outside this kernel (NFS, FUSE, 9p, ...) are not
known here at all.

Invariant: two answers are equal only if the file system was not unmounted in between; an empty one says nothing.
"""

import ctypes
import os
import sys
from functools import cache
from typing import Any

SYSFS = "/sys"
WITH_OBJECTS = ("ext4", "xfs", "f2fs")
LOCAL = frozenset({"ext4", "ext3", "ext2", "xfs", "f2fs", "btrfs", "bcachefs", "zfs", "overlay", "tmpfs", "ramfs"})
_STATX_MNT_ID_UNIQUE = 0x4000
_AT_EMPTY_PATH = 0x1000
_STATX_BYTES = 256
_MASK_END = 4
_MOUNT_ID = slice(144, 152)


def mount_id(path: str) -> str:
    """The identity of the current mount of the file system of the directory ``path``; empty where it is not known."""
    if sys.platform != "linux":
        return ""
    try:
        return _object_of(os.stat(path).st_dev) or _unique_mount(path)
    except (OSError, ValueError):
        return ""


def _object_of(device: int) -> str:
    """The kernel's object of the file system on a block device."""
    try:
        link = os.readlink(f"{SYSFS}/dev/block/{os.major(device)}:{os.minor(device)}")
    except OSError:
        return ""  # of no device, or of none that is seen here
    name = link.rpartition("/")[2]
    for kind in WITH_OBJECTS:
        try:
            return f"{kind} {name} {os.stat(f'{SYSFS}/fs/{kind}/{name}').st_ino}"
        except OSError:
            continue
    return ""


def _unique_mount(path: str) -> str:
    """The unique id of the mount, for a file system whose cache is in this kernel."""
    statx = _statx()
    if statx is None:
        return ""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        buffer = ctypes.create_string_buffer(_STATX_BYTES)
        if statx(fd, b"", _AT_EMPTY_PATH, _STATX_MNT_ID_UNIQUE, buffer) != 0:
            return ""
        if not int.from_bytes(buffer.raw[:_MASK_END], sys.byteorder) & _STATX_MNT_ID_UNIQUE:
            return ""
        kind = _kind_of_mount(fd)
    finally:
        os.close(fd)
    return f"{kind} mount {int.from_bytes(buffer.raw[_MOUNT_ID], sys.byteorder)}" if kind in LOCAL else ""


def _kind_of_mount(fd: int) -> str:
    """The type of the file system that an open file is on, from ``/proc``; empty if it is not listed."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as info:
        number = next((line.split()[1] for line in info if line.startswith("mnt_id:")), "")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            mount, _, source = line.partition(" - ")
            if mount.split(" ", 1)[0] == number:
                return source.split(" ", 1)[0]
    return ""


@cache
def _statx() -> Any:
    """Linux's statx, which the standard library does not have; None where the C library does not have it either."""
    statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if statx is not None:
        statx.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p]
    return statx
