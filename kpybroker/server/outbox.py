"""What is on its way to one client: bytes, and slices of files that are read only when the socket can take them.

So a client that does not read costs the memory of its headers, not of its records. A slice near the end of its log is
in the page cache and goes by ``sendfile``; an older one may have to come from the disk, which must not stop the loop:
it is probed with ``RWF_NOWAIT``, and where it is missing, or the file system cannot tell, a thread reads it first. And
what no thread has read yet is read anyhow, since only then its checksums are compared: a damaged batch ends the
connection, and whoever comes back for it is told.
"""

import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

SMALL_SLICE_BYTES = 16 * 1024
COLD_CHUNK_BYTES = 1024 * 1024
"""What a thread reads at a time. The system is asked for as much behind it, which comes while this is sent."""
SENDFILE_BYTES = 1024 * 1024
PROBE_EVERY_BYTES = 128 * 1024
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_MORE = getattr(socket, "MSG_MORE", 0)
_PROBE = [bytearray(1)]
_BYTES = (bytes, bytearray, memoryview)


Checked = tuple[int, str, int]
"""Where what was read ends, what is wrong with what follows there (nothing if it is right), and how far it is whole."""


class FileSlice(Protocol):
    """A range of a file, kept readable for as long as it is held."""

    position: int
    length: int
    cold: bool

    def fileno(self) -> int: ...

    def read(self) -> bytes: ...

    def whole_until(self, position: int) -> int: ...

    def check(self, position: int, most_bytes: int) -> Checked: ...

    def note(self, position: int, checked: Checked) -> None: ...


Item = bytes | bytearray | memoryview | FileSlice
Reply = bytes | list[Item]
"""One whole reply: its bytes, or bytes and slices in their order."""
ReadInThread = Callable[[Callable[[], Checked], Callable[[Checked | None], object]], object]
"""(read, done): runs ``read`` in a thread, then calls ``done`` on the loop with what it found, None if it failed."""


class Outbox:
    """The queue of one connection. `flush` sends what the socket takes now and says whether all is gone."""

    __slots__ = (
        "_fetching",
        "_queue",
        "_read_in_thread",
        "_resume",
        "_sent",
        "_unreadable",
        "_warm_end",
        "held_bytes",
        "held_files",
        "queued_bytes",
        "sent_bytes",
        "sock",
    )

    def __init__(self, sock: socket.socket, read_in_thread: ReadInThread, resume: Callable[[], object]) -> None:
        self.sock = sock
        self.queued_bytes = 0
        """Put since the queue was last empty: a measure for when to flush, not for what is left."""
        self.sent_bytes = 0
        self.held_bytes = 0
        """In memory, not sent yet; ``held_files`` are slices of open files."""
        self.held_files = 0
        self._queue: deque[Item] = deque()
        self._sent = 0
        self._warm_end = 0
        self._fetching = False
        self._unreadable = False
        self._read_in_thread = read_in_thread
        self._resume = resume

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def waits_for_disk(self) -> bool:
        """A thread is reading for us: waiting for the socket would be pointless."""
        return self._fetching

    def put(self, reply: Reply) -> None:
        """Queue one reply. Small pieces are joined, so that most replies are one system call."""
        if isinstance(reply, bytes):
            self._queue.append(reply)
            self.held_bytes += len(reply)
            self.queued_bytes += len(reply)
        else:
            self._put_parts(reply)

    def _put_parts(self, parts: list[Item]) -> None:
        joined: list[bytes | bytearray | memoryview] = []
        for part in parts:
            if isinstance(part, _BYTES):
                joined.append(part)
                size = len(part)
                self.held_bytes += size
                self.queued_bytes += size
                continue
            self.queued_bytes += part.length
            if part.fileno() < 0 or (part.length <= SMALL_SLICE_BYTES and not part.cold):
                joined.append(part.read())
                self.held_bytes += part.length
            else:
                if joined:
                    self._queue.append(b"".join(joined))
                    joined = []
                self._queue.append(part)
                self.held_files += 1
        if joined:
            self._queue.append(joined[0] if len(joined) == 1 else b"".join(joined))

    def flush(self) -> bool:
        """Send as much as goes without waiting. True: everything is sent. Raises OSError when the peer is gone."""
        queue = self._queue
        if self._unreadable:
            raise OSError("a log file could not be read")
        while queue and not self._fetching:
            item = queue[0]
            try:
                if type(item) is bytes and len(queue) == 1 and self._sent == 0:
                    # Nearly always: one reply, which the socket takes at once.
                    sent = self.sock.send(item)
                    self.sent_bytes += sent
                    if sent == len(item):
                        queue.clear()
                        self.queued_bytes = self.held_bytes = 0
                        return True
                    self._sent = sent
                    return False
                if isinstance(item, _BYTES):
                    if not self._send_bytes(item):
                        return False
                    self.held_bytes -= len(item)
                else:
                    if not self._send_slice(item):
                        return False
                    self.held_files -= 1
            except (BlockingIOError, InterruptedError):
                return False
            queue.popleft()
            self._sent = self._warm_end = 0
        if queue:
            return False
        self.queued_bytes = 0
        return True

    def _send_bytes(self, item: bytes | bytearray | memoryview) -> bool:
        more = _MORE if len(self._queue) > 1 else 0
        rest = item if self._sent == 0 else memoryview(item)[self._sent :]
        sent = self.sock.send(rest, more)
        self._sent += sent
        self.sent_bytes += sent
        return self._sent == len(item)

    def _send_slice(self, item: FileSlice) -> bool:
        while self._sent < item.length:
            position = item.position + self._sent
            count = min(item.length - self._sent, SENDFILE_BYTES)
            if item.cold:
                count = self._warm(item, position, count)
                if count == 0:
                    return False
            sent = os.sendfile(self.sock.fileno(), item.fileno(), position, count)
            if sent == 0:
                raise ConnectionError("a file became shorter while it was being sent")
            self._sent += sent
            self.sent_bytes += sent
            if sent < count:
                return False  # the socket is full
        return True

    def _warm(self, item: FileSlice, position: int, count: int) -> int:
        """How many of these bytes are in the page cache; with 0, a thread is fetching them."""
        if position < self._warm_end:
            return min(count, self._warm_end - position)
        whole_end = item.whole_until(position)
        count = min(count, whole_end - position)
        if count and _is_cached(item.fileno(), position, count):
            self._warm_end = position + count
            return count
        self._fetching = True

        def read() -> Checked:
            _ask_for(item.fileno(), position, 2 * COLD_CHUNK_BYTES)
            if not count:
                return item.check(position, COLD_CHUNK_BYTES)
            return position + _read(item.fileno(), position, min(count, COLD_CHUNK_BYTES)), "", position  # it was whole

        def fetched(checked: Checked | None) -> None:
            self._fetching = False
            self._unreadable = checked is None or checked[0] <= position
            if checked is not None:
                self._warm_end = checked[0]
                item.note(position, checked)
            if self._queue:
                self._resume()

        self._read_in_thread(read, fetched)
        return 0

    def clear(self) -> None:
        """Forget what was queued, let go of its files and of the connection."""
        self._queue.clear()
        self.held_bytes = self.held_files = 0
        self._resume = _nobody


def _nobody() -> None:
    """In the place of a connection that is closed."""


def _ask_for(descriptor: int, position: int, count: int) -> None:
    """Have the system read these bytes, if it can be told, without waiting for them."""
    if descriptor >= 0 and hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(descriptor, position, count, os.POSIX_FADV_WILLNEED)


def _read(descriptor: int, position: int, count: int) -> int:
    """Have so many bytes come into the page cache; how many there are. Nobody looks at them, so nothing is copied."""
    if not sys.platform.startswith("linux"):
        return len(os.pread(descriptor, count, position))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        return os.sendfile(nowhere, descriptor, position, count)
    finally:
        os.close(nowhere)


def _is_cached(descriptor: int, position: int, count: int) -> bool:
    """Whether reading these bytes will not wait, as far as looking at some of them tells (the kernel reads ahead)."""
    if not _NOWAIT:
        return False
    try:
        for place in range(position, position + count, PROBE_EVERY_BYTES):
            os.preadv(descriptor, _PROBE, place, _NOWAIT)
    except OSError:
        return False
    return True
