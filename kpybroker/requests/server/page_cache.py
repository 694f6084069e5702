"""Ranges of files and the page cache: whether they are in it, and how they come into it."""

import os
import sys
from contextlib import suppress

PROBE_EVERY_BYTES = 128 * 1024
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_PROBE = [bytearray(1)]


def is_cached(descriptor: int, position: int, count: int) -> bool:
    """Whether these bytes can be read without waiting. Only some of them are probed, since the kernel reads ahead."""
    if not _NOWAIT:
        return False
    try:
        for place in range(position, position + count, PROBE_EVERY_BYTES):
            os.preadv(descriptor, _PROBE, place, _NOWAIT)
    except OSError:
        return False
    return True


def ask_for(descriptor: int, position: int, count: int) -> None:
    """Ask the system to read these bytes ahead, where it supports that. Does not wait for them."""
    if descriptor >= 0 and hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(descriptor, position, count, os.POSIX_FADV_WILLNEED)


def read(descriptor: int, position: int, count: int) -> int:
    """Read these bytes into the page cache, and return how many there are. On Linux nothing is copied to user space."""
    if not sys.platform.startswith("linux"):
        return len(os.pread(descriptor, count, position))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        return os.sendfile(nowhere, descriptor, position, count)
    finally:
        os.close(nowhere)
