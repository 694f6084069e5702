"""The lines of an input, read ahead by a thread, so that the sender can wait for a broker at the same time.

Invariant: at most `MOST_CHUNKS` chunks are read ahead: a full queue makes the input wait, and so the program that
writes it.
"""

import io
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple

CHUNK_BYTES: Final = 64 * 1024
MOST_CHUNKS: Final = 16
LONGEST_LINE_BYTES: Final = 100 * 1024 * 1024
"""The longest line: a longer one fits no request by default (``socket.request.max.bytes``)."""


class LineTooLong(ValueError):
    """A line that fits no request."""


class Lines(NamedTuple):
    """Lines that arrived together. ``first`` is the number of the first, ``came_s`` their time of
    ``time.monotonic``."""

    first: int
    came_s: float
    time_ms: int
    lines: list[bytes]


class Intake:
    """Reads ``source`` to its end."""

    def __init__(self, source: BinaryIO) -> None:
        self.is_over = False
        """Whether all lines have been taken."""
        self._queue: queue.Queue[Lines | Exception | None] = queue.Queue(MOST_CHUNKS)
        threading.Thread(target=self._read, args=(source,), daemon=True).start()

    def take(self, wait_s: float) -> Lines | None:
        """The next lines; None if none come in that time, or there are no more. Raises LineTooLong, OSError of the
        input."""
        if self.is_over:
            return None
        try:
            found = self._queue.get(timeout=wait_s) if wait_s > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, Lines):
            return found
        self.is_over = True
        if found is not None:
            raise found
        return None

    def _read(self, source: BinaryIO) -> None:
        first = 1
        try:
            for lines in batches_of_lines(source):
                self._queue.put(Lines(first, time.monotonic(), time.time_ns() // 1_000_000, lines))
                first += len(lines)
        except (LineTooLong, OSError) as error:
            self._queue.put(error)
        else:
            self._queue.put(None)


def batches_of_lines(source: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a stream without their ends, as many at a time as are available, without waiting for a full batch.

    Raises LineTooLong, OSError.
    """
    rest = bytearray()
    read = _read_of(source)
    while chunk := read(CHUNK_BYTES):
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(rest) + lines[0]
            rest.clear()
            yield [line.removesuffix(b"\r") for line in lines]
        rest += last
        if len(rest) > LONGEST_LINE_BYTES:
            raise LineTooLong(f"a line of the input is longer than {LONGEST_LINE_BYTES >> 20} MiB")
    if rest:
        yield [bytes(rest)]


def _read_of(source: BinaryIO) -> Callable[[int], bytes]:
    """The read function that bypasses the stream's own buffer if there is a file: a thread in it would hold the lock
    that the exit needs."""
    try:
        number = source.fileno()
    except (AttributeError, OSError, io.UnsupportedOperation):
        read: Callable[[int], bytes] = getattr(source, "read1", source.read)
        return read
    return lambda count: os.read(number, count)
