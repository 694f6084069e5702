"""The identity of the current mount of a path's file system. If it differs from before, the page cache of then is lost.

For ext4, XFS and F2FS the kernel keeps an object in ``/sys/fs`` from the mount to the last unmount, whose inode number
is not given twice; containers see it, and it outlives their own mounts. For other file systems the unique id of a mount
is used (Linux 6.8), which a restarted container does not keep. Caches outside this kernel (NFS, FUSE, 9p, ...) are not
known here at all.

Invariant: two answers are equal only if the file system was not unmounted in between; an empty one says nothing.
"""

import os
import sys

SYSFS = "/sys"
WITH_OBJECTS = ("ext4", "xfs", "f2fs")
LOCAL = frozenset({"ext4", "ext3", "ext2", "xfs", "f2fs", "btrfs", "bcachefs", "zfs", "overlay", "tmpfs", "ramfs"})


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
    from kpystorage.system_calls import unique_mount_id  # not of a plain start

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        mount = unique_mount_id(fd)
        if mount is None:
            return ""
        kind = _kind_of_mount(fd)
    finally:
        os.close(fd)
    return f"{kind} mount {mount}" if kind in LOCAL else ""


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
