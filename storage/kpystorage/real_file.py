"""A file of the operating system by its path, opened on demand. Every append to a log passes it.

Not here: the descriptors and how many may be open (`kpystorage.real_disk`).
"""

import os
import weakref
from collections.abc import Callable
from typing import Protocol, final

from kpywire.varint import Buffer


class Opened(Protocol):
    """An open file, which is closed when its last holder releases it."""

    fd: int
    used: bool
    """Whether it was used since the sweep last looked."""
    dirty: bool
    """Whether it was written through since its last fsync began."""

    @property
    def is_closed(self) -> bool:
        """Whether its last holder has released it."""

    def fileno(self) -> int: ...

    def pread(self, length: int, position: int) -> bytes: ...

    def fsync(self) -> None: ...

    def confirm(self) -> None: ...

    def drop_cache(self, position: int, end: int) -> None: ...


class OpenFiles(Protocol):
    """The open files, which may be closed for others."""

    def open(self, path: str, flags: int) -> int:
        """The descriptor of a file. DescriptorsExhausted, OSError."""

    def admit(self, file: "RealFile") -> None:
        """Count ``file`` among the open ones."""

    def forget(self, file: "RealFile") -> None:
        """Count it no more."""


@final
class RealFile:
    """A file by its path, opened on demand. It belongs to one thread; other threads use its ``descriptor()``."""

    __slots__ = ("_descriptor", "_descriptors", "_last", "_made", "is_given_up", "path")

    def __init__(self, path: str, descriptors: OpenFiles, made: Callable[[int], Opened]) -> None:
        """``made`` makes the open file of a descriptor."""
        self.path = path
        self.is_given_up = False
        self._descriptors = descriptors
        self._made = made
        self._descriptor: Opened | None = None
        self._last: weakref.ref[Opened] | None = None

    def descriptor(self) -> Opened:
        descriptor = self._descriptor
        if descriptor is None:
            return self._open(0)
        descriptor.used = True
        return descriptor

    def pread(self, length: int, position: int) -> bytes:
        return self.descriptor().pread(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._open(0)
        descriptor.used = descriptor.dirty = True
        written = os.pwrite(descriptor.fd, data, position)
        length = len(data)
        while written < length:  # a signal, or the disk is full: the next call says which
            written += os.pwrite(descriptor.fd, memoryview(data)[written:], position + written)
        if self._descriptor is not descriptor:  # a thread that needed one took it meanwhile
            self.is_given_up = True

    def size(self) -> int:
        descriptor = self._descriptor
        return os.stat(self.path).st_size if descriptor is None else os.fstat(descriptor.fd).st_size

    def truncate(self, length: int) -> None:
        descriptor = self.descriptor()
        descriptor.dirty = True
        os.ftruncate(descriptor.fd, length)
        if self._descriptor is not descriptor:
            self.is_given_up = True

    def reserve(self, length: int) -> None:
        self.truncate(length)

    def fsync(self) -> None:
        self.descriptor().fsync()

    def release(self) -> None:
        if self._descriptor is not None:
            self._descriptors.forget(self)
            self.drop()

    def create(self) -> None:
        """Make the file, empty."""
        self.release()
        self._open(os.O_CREAT | os.O_TRUNC)

    def spare(self) -> bool:
        """Give up the descriptor unless it was used since the last call, or written through. Return whether it was
        given up."""
        descriptor = self._descriptor
        if descriptor is not None and (descriptor.used or descriptor.dirty):
            descriptor.used = False
            return False
        self._descriptor = None
        return True

    def drop(self) -> None:
        """Give up the descriptor."""
        if self._descriptor is not None and self._descriptor.dirty:
            self.is_given_up = True
        self._descriptor = None

    def _open(self, flags: int) -> Opened:
        held = self._last() if self._last is not None and not flags else None
        if held is None or held.is_closed:
            held = self._made(self._descriptors.open(self.path, flags | os.O_RDWR))
            self._last = weakref.ref(held)
        held.used = True
        self._descriptor = held
        self._descriptors.admit(self)
        return held
