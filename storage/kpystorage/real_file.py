"""One file of the operating system, and the bound on how many are open at once.

This is no cache of data; the page cache is. Files are opened at first use. When more than ``limit`` are open, those not
used lately give up their descriptor and get a new one at their next use.

A file with a second name (a hard link) belongs to somebody else, too: a fork, or a reader that it is lent to. It is
never cut, and never emptied: the file of this name becomes a copy first. Appends go to the file itself, since a segment
that is written to may be lent, and a closed one is cut before it is written to again.

Invariant: a file whose descriptor was closed before an fsync had confirmed its writes is marked (`is_given_up`): the
system reports a failed write only to descriptors that were open at that time.
"""

import errno
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from threading import Lock
from typing import Final, TypeVar

from kpystorage.disk import DescriptorsExhausted
from kpystorage.modes import PRIVATE, Modes
from kpystorage.names import DELETED
from kpystorage.real_descriptor import RealDescriptor, copy_bytes, flush_directory
from kpywire.varint import Buffer

T = TypeVar("T")
NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
DEFAULT_DESCRIPTOR_LIMIT: Final = 512
_COPIED_BYTES: Final = 1 << 20
_GIVEN_UP_AT_ONCE: Final = 16
"""The number of files closed at once, as a part (1 in ...), where no file can be spared: finding that out took a look
at each of them."""


class Descriptors:
    """The open files that may be closed for others: a ring that is swept for those not used since the last sweep."""

    def __init__(self, limit: int = DEFAULT_DESCRIPTOR_LIMIT, modes: Modes = PRIVATE) -> None:
        self.limit = limit
        self.modes = modes
        self._ring: dict[RealFile, None] = {}
        self._lock = Lock()  # whole-file calls, which may need room, run in any thread

    def __len__(self) -> int:
        return len(self._ring)

    def admit(self, file: "RealFile") -> None:
        """Count ``file`` among the open ones and close others for it beyond the limit."""
        with self._lock:
            while self._ring and len(self._ring) >= self.limit:
                self._drop_one()
            self._ring[file] = None

    def forget(self, file: "RealFile") -> None:
        with self._lock:
            self._ring.pop(file, None)

    def make_room(self) -> bool:
        """Close half of the open files, since the process has no descriptor left; False if there was none to close."""
        with self._lock:
            count = (len(self._ring) + 1) // 2
            for _nth in range(count):
                self._drop_one()
        return count > 0

    def with_room(self, call: Callable[[], T], path: str) -> T:
        """Make a call that needs a descriptor, and repeat it after others were closed for it. DescriptorsExhausted,
        OSError."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
                if not self.make_room():
                    raise DescriptorsExhausted(error.errno, error.strerror, path) from error

    def open(self, path: str, flags: int) -> int:
        """The descriptor of a file or directory. DescriptorsExhausted, OSError."""
        return self.with_room(lambda: os.open(path, flags | os.O_CLOEXEC, self.modes.of_file(path)), path)

    def _drop_one(self) -> None:
        for _nth in range(2 * len(self._ring)):  # all may have been used since the last time
            file = next(iter(self._ring))
            del self._ring[file]
            if file.spare():
                return
            self._ring[file] = None
        for file in list(islice(self._ring, len(self._ring) // _GIVEN_UP_AT_ONCE + 1)):  # the oldest go
            del self._ring[file]
            file.drop()


class RealFile:
    """A file by its path, opened on demand. It belongs to one thread; other threads use its ``descriptor()``."""

    __slots__ = ("_descriptor", "_descriptor_of", "_descriptors", "_last", "is_given_up", "path")

    def __init__(self, path: str, descriptors: Descriptors, descriptor_of: "Callable[[int], RealDescriptor]") -> None:
        """``descriptor_of`` gives a descriptor of the system its owner."""
        self.path = path
        self.is_given_up = False
        self._descriptors = descriptors
        self._descriptor_of = descriptor_of
        self._descriptor: RealDescriptor | None = None
        self._last: weakref.ref[RealDescriptor] | None = None

    def descriptor(self) -> "RealDescriptor":
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
        written = os.pwrite(descriptor._fd, data, position)
        length = len(data)
        while written < length:  # a signal, or the disk is full: the next call says which
            written += os.pwrite(descriptor._fd, memoryview(data)[written:], position + written)
        if self._descriptor is not descriptor:  # a thread that needed one took it meanwhile
            self.is_given_up = True

    def size(self) -> int:
        descriptor = self._descriptor
        return os.stat(self.path).st_size if descriptor is None else os.fstat(descriptor._fd).st_size

    def truncate(self, length: int) -> None:
        descriptor = self.descriptor()
        if os.fstat(descriptor._fd).st_nlink > 1:
            descriptor = self._copied(descriptor, length)
        descriptor.dirty = True
        os.ftruncate(descriptor._fd, length)
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
        with suppress(FileNotFoundError):
            if os.stat(self.path).st_nlink > 1:
                os.unlink(self.path)
        self._open(os.O_CREAT | os.O_TRUNC)

    def _copied(self, shared: "RealDescriptor", length: int) -> "RealDescriptor":
        """Make this name that of a copy of the first ``length`` bytes, durably. Return its descriptor."""
        copy_path = f"{self.path}.{os.urandom(16).hex()}{DELETED}"  # a start after a crash removes a file of that name
        copy = self._descriptor_of(self._descriptors.open(copy_path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        try:
            position = copy_bytes(shared._fd, copy._fd, length)
            while position < length and (data := shared.pread(min(_COPIED_BYTES, length - position), position)):
                position += os.pwrite(copy._fd, data, position)
            copy.fsync()
            os.rename(copy_path, self.path)
        except BaseException:
            os.unlink(copy_path)
            raise
        flush_directory(os.path.dirname(self.path))
        self._last = weakref.ref(copy)
        self._descriptor = copy
        return copy

    def spare(self) -> bool:
        """Give up the descriptor unless it was used since the last call, or written through. Return whether it was
        given up."""
        descriptor = self._descriptor
        if descriptor is not None and (descriptor.used or descriptor.dirty):
            descriptor.used = False
            return False
        self._let_go()
        return True

    def drop(self) -> None:
        """Give up the descriptor."""
        if self._descriptor is not None and self._descriptor.dirty:
            self.is_given_up = True
        self._let_go()

    def _let_go(self) -> "RealDescriptor | None":
        """Forget the descriptor. The caller releases it: other threads use the file while it is being closed.

        A compiled attribute that is set releases its old value first.
        """
        held = self._descriptor
        self._descriptor = None
        return held

    def _open(self, flags: int) -> "RealDescriptor":
        held = self._last() if self._last is not None and not flags else None
        if held is None or held.is_closed:
            held = self._descriptor_of(self._descriptors.open(self.path, flags | os.O_RDWR))
            self._last = weakref.ref(held)
        held.used = True
        self._descriptor = held
        self._descriptors.admit(self)
        return held
