"""What is on its way to one client: bytes, and slices of files that are read only when the socket can take them.

So a client that does not read costs the memory of its headers, not of its records. A slice near the end of its log is
in the page cache and goes by ``sendfile``; an older one may have to come from the disk, which must not stop the loop:
it is probed with ``RWF_NOWAIT`` where the file system has it, and read in a thread otherwise.
"""

import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

SMALL_SLICE_BYTES = 16 * 1024
COLD_CHUNK_BYTES = 256 * 1024
SENDFILE_BYTES = 1024 * 1024
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_SCRATCH = memoryview(bytearray(COLD_CHUNK_BYTES))
_BYTES = (bytes, bytearray, memoryview)


class FileSlice(Protocol):
    """A range of a file, kept readable for as long as it is held."""

    position: int
    length: int
    cold: bool

    def fileno(self) -> int: ...

    def read(self) -> bytes: ...


Item = bytes | bytearray | memoryview | FileSlice
Reply = bytes | list[Item]
"""One whole reply: its bytes, or bytes and slices in their order."""
ReadInThread = Callable[[int, int, int, Callable[[bytes | None], object]], object]
"""(descriptor, length, position, done): reads in a thread, then calls ``done(bytes)`` or ``done(None)`` on the loop."""


class Outbox:
    """The queue of one connection. `flush` sends what the socket takes now and says whether all is gone."""

    __slots__ = ("_fetching", "_queue", "_read_in_thread", "_resume", "_sent", "queued_bytes", "sent_bytes", "sock")

    def __init__(self, sock: socket.socket, read_in_thread: ReadInThread, resume: Callable[[], object]) -> None:
        self.sock = sock
        self.queued_bytes = 0
        """Put since the queue was last empty: a measure for when to flush, not for what is left."""
        self.sent_bytes = 0
        self._queue: deque[Item] = deque()
        self._sent = 0
        self._fetching = False
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
            self.queued_bytes += len(reply)
        else:
            self._put_parts(reply)

    def _put_parts(self, parts: list[Item]) -> None:
        joined: list[bytes | bytearray | memoryview] = []
        for part in parts:
            if isinstance(part, _BYTES):
                joined.append(part)
                self.queued_bytes += len(part)
                continue
            self.queued_bytes += part.length
            if part.fileno() < 0 or (part.length <= SMALL_SLICE_BYTES and not part.cold):
                joined.append(part.read())
            else:
                if joined:
                    self._queue.append(b"".join(joined))
                    joined = []
                self._queue.append(part)
        if joined:
            self._queue.append(joined[0] if len(joined) == 1 else b"".join(joined))

    def flush(self) -> bool:
        """Send as much as goes without waiting. True: everything is sent. Raises OSError when the peer is gone."""
        queue = self._queue
        while queue and not self._fetching:
            item = queue[0]
            try:
                if type(item) is bytes and len(queue) == 1 and self._sent == 0:
                    # Nearly always: one reply, which the socket takes at once.
                    sent = self.sock.send(item)
                    self.sent_bytes += sent
                    if sent == len(item):
                        queue.clear()
                        self.queued_bytes = 0
                        return True
                    self._sent = sent
                    return False
                if isinstance(item, _BYTES):
                    done = self._send_bytes(item)
                else:
                    done = self._send_slice(item)
            except (BlockingIOError, InterruptedError):
                return False
            if not done:
                return False
            queue.popleft()
            self._sent = 0
        if queue:
            return False
        self.queued_bytes = 0
        return True

    def _send_bytes(self, item: bytes | bytearray | memoryview) -> bool:
        more = socket.MSG_MORE if len(self._queue) > 1 else 0
        rest = item if self._sent == 0 else memoryview(item)[self._sent :]
        sent = self.sock.send(rest, more)
        self._sent += sent
        self.sent_bytes += sent
        return self._sent == len(item)

    def _send_slice(self, item: FileSlice) -> bool:
        if item.cold:
            return self._send_cold(item)
        while self._sent < item.length:
            count = min(item.length - self._sent, SENDFILE_BYTES)
            sent = os.sendfile(self.sock.fileno(), item.fileno(), item.position + self._sent, count)
            if sent == 0:
                raise ConnectionError("a file became shorter while it was being sent")
            self._sent += sent
            self.sent_bytes += sent
        return True

    def _send_cold(self, item: FileSlice) -> bool:
        while self._sent < item.length:
            count = min(item.length - self._sent, COLD_CHUNK_BYTES)
            chunk = _read_if_cached(item.fileno(), count, item.position + self._sent)
            if not chunk:
                self._fetching = True

                def fetched(chunk: bytes | None, _until_read: FileSlice = item) -> None:
                    # The slice stays held: its descriptor may not become another file's while the thread reads.
                    self._fetched(chunk)

                self._read_in_thread(item.fileno(), count, item.position + self._sent, fetched)
                return False
            sent = self.sock.send(chunk)
            self._sent += sent
            self.sent_bytes += sent
        return True

    def _fetched(self, chunk: bytes | None) -> None:
        """A thread has read the next piece of the slice at the head: it stands before the rest of it."""
        self._fetching = False
        if not self._queue:
            return
        if not chunk:
            self._queue[0] = _Unreadable()
        else:
            head = self._queue.popleft()
            assert not isinstance(head, bytes | bytearray | memoryview)
            done = self._sent + len(chunk)
            self._sent = 0
            if done < head.length:
                self._queue.appendleft(_Rest(head, done))
            self._queue.appendleft(chunk)
        self._resume()

    def held(self) -> tuple[int, int]:
        """(bytes in memory, slices of open files) that are not sent yet."""
        size_bytes = files = 0
        for item in self._queue:
            if isinstance(item, _BYTES):
                size_bytes += len(item)
            else:
                files += 1
        return size_bytes, files

    def clear(self) -> None:
        """Forget what was queued and let go of its files."""
        self._queue.clear()


class _Rest:
    """What follows the first ``skipped`` bytes of a slice."""

    __slots__ = ("cold", "length", "position", "whole")

    def __init__(self, whole: FileSlice, skipped: int) -> None:
        self.whole = whole
        self.position = whole.position + skipped
        self.length = whole.length - skipped
        self.cold = whole.cold

    def fileno(self) -> int:
        return self.whole.fileno()

    def read(self) -> bytes:
        return os.pread(self.whole.fileno(), self.length, self.position)


class _Unreadable:
    """Stands for a slice whose file could not be read; sending it ends the connection."""

    position = 0
    length = 1
    cold = False

    def fileno(self) -> int:
        raise OSError("a log file could not be read")

    def read(self) -> bytes:
        raise OSError("a log file could not be read")


def _read_if_cached(descriptor: int, count: int, position: int) -> memoryview:
    """As many bytes as the page cache has; none if a read might wait or the file system cannot tell.

    They lie in a buffer that the next call uses again: send them at once.
    """
    if not _NOWAIT:
        return _SCRATCH[:0]
    try:
        got = os.preadv(descriptor, [_SCRATCH[:count]], position, _NOWAIT)
    except OSError:
        return _SCRATCH[:0]
    return _SCRATCH[:got]
