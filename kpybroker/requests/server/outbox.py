"""The replies on their way to one client: bytes, and slices of files that are read only when the channel accepts them.

So a client that does not read costs the memory of its reply headers, not of its records. A slice near the end of its
log is in the page cache and is sent at once. An older one may have to be read from the disk, which must not
stop the loop. So it is probed with ``RWF_NOWAIT``; if it is not cached, or the file system does not support the probe,
a thread reads it first. A thread also reads each old slice that was not checked before, to compare its checksums. A
damaged batch ends the connection, and a client that asks for it again gets an error.
"""

from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, Protocol

from kpybroker.requests.server import page_cache
from kpybroker.requests.server.channel import MORE, Channel
from kpybroker.runtime.counters import Due, count_sent

SMALL_SLICE_BYTES: Final = 16 * 1024
LARGE_PART_BYTES: Final = 256 * 1024
"""Larger bytes are not copied to send them with others."""
COLD_CHUNK_BYTES: Final = 1024 * 1024
"""The bytes that a thread reads at a time. The system is asked to read ahead as many more while these are sent."""
SENDFILE_BYTES: Final = 1024 * 1024
_BYTES: Final = (bytes, bytearray, memoryview)


Checked = tuple[int, str, int]
"""(end of what was read, what is wrong with the data behind it or "", position up to which the data is undamaged)."""


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
"""One whole reply: its bytes, or a list of bytes and file slices in their order."""
ReadInThread = Callable[[Callable[[], Checked], Callable[[Checked | None], object]], object]
"""(read, done): runs ``read`` in a thread, then calls ``done`` on the loop with its result, or None if it failed."""


class Outbox:
    """The queue of one connection. `flush` sends what the channel accepts now, and returns whether that is all."""

    __slots__ = (
        "_began_ns",
        "_fetching",
        "_queue",
        "_read_in_thread",
        "_resume",
        "_sent",
        "_unreadable",
        "_unsent",
        "_warm_end",
        "channel",
        "held_bytes",
        "held_files",
        "queued_bytes",
    )

    def __init__(self, channel: Channel, read_in_thread: ReadInThread, resume: Callable[[], object]) -> None:
        self.channel = channel
        self.queued_bytes = 0
        """The bytes queued since the queue was last empty: a measure for when to flush, not for how much is left."""
        self.held_bytes = 0
        """The bytes in memory that are not sent yet; ``held_files`` counts the slices of open files."""
        self.held_files = 0
        self._queue: deque[Item] = deque()
        self._unsent: list[Due] = []
        """The counters and times of the replies in the queue, which are counted once all of them are sent."""
        self._began_ns = 0  # the time at which sending these began
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
        """Whether a thread is reading a slice; until it is done there is no point in waiting for the client."""
        return self._fetching

    def put(self, reply: Reply, due: Due) -> None:
        """Queue one reply, with the counters and times of its request. Small parts are joined, so that most replies
        take one system call."""
        self._unsent.append(due)
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
                size = len(part)
                self.held_bytes += size
                self.queued_bytes += size
                if size < LARGE_PART_BYTES:
                    joined.append(part)
                    continue
                if joined:
                    self._queue.append(b"".join(joined))
                    joined = []
                self._queue.append(part)
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
        """Send as much as the channel accepts without waiting. Return whether everything was sent. Raises OSError when
        the peer has closed the connection."""
        if self._unsent and not self._began_ns:
            self._began_ns = perf_counter_ns()
        if not self._send_queued():
            return False
        if self._unsent:
            count_sent(self._unsent, self._began_ns)
            self._began_ns = 0
            self._unsent.clear()
        return True

    def _send_queued(self) -> bool:
        queue = self._queue
        if self._unreadable:
            raise OSError("a log file could not be read")
        while queue and not self._fetching:
            item = queue[0]
            try:
                if type(item) is bytes and len(queue) == 1 and self._sent == 0:
                    # Nearly always: one reply, which the channel takes at once.
                    sent = self.channel.send(item)
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
        more = MORE if len(self._queue) > 1 else 0
        rest = item if self._sent == 0 else memoryview(item)[self._sent :]
        sent = self.channel.send(rest, more)
        self._sent += sent
        return self._sent == len(item)

    def _send_slice(self, item: FileSlice) -> bool:
        while self._sent < item.length:
            position = item.position + self._sent
            count = min(item.length - self._sent, SENDFILE_BYTES)
            if item.cold:
                count = self._warm(item, position, count)
                if count == 0:
                    return False
            sent = self.channel.send_file(item.fileno(), position, count)
            if sent == 0:
                raise ConnectionError("a file became shorter while it was being sent")
            self._sent += sent
            if sent < count:
                return False  # the channel is full
        return True

    def _warm(self, item: FileSlice, position: int, count: int) -> int:
        """The number of these bytes that are in the page cache. If it is 0, a thread is reading them."""
        if position < self._warm_end:
            return min(count, self._warm_end - position)
        whole_end = item.whole_until(position)
        count = min(count, whole_end - position)
        if count and page_cache.is_cached(item.fileno(), position, count):
            self._warm_end = position + count
            return count
        self._fetching = True

        def read() -> Checked:
            page_cache.ask_for(item.fileno(), position, 2 * COLD_CHUNK_BYTES)
            if not count:
                return item.check(position, COLD_CHUNK_BYTES)
            end = position + page_cache.read(item.fileno(), position, min(count, COLD_CHUNK_BYTES))
            return end, "", position  # it was whole

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
        """Empty the queue, and drop the references to its files and to the connection."""
        self._queue.clear()
        self._unsent.clear()
        self.held_bytes = self.held_files = 0
        self._resume = _nothing


def _nothing() -> None:
    """Do nothing: the callback in place of a closed connection's."""
