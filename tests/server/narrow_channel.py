"""A channel with everything that encryption brings, and no encryption.

It has a handshake before the first byte, receives few bytes at a time, holds others that the poller does not see, has
to hear from its client before it can send on, and copies what it sends of files.
"""

import os
import socket
from collections.abc import Callable
from typing import Any

from kpybroker.requests.server.channel import Channel
from kpybroker.requests.server.poller import GONE, READABLE, WRITABLE, OnEvent, Poller

SHORT_BYTES = 1000
HELD_BYTES = 64 * 1024
COPIED_BYTES = 50_000
SENDS_IN_A_ROW = 3


class NarrowChannel:
    """A plain socket, used as if it were another."""

    def __init__(self, sock: socket.socket, poller: Poller, call_soon: Callable[..., object]) -> None:
        self._sock = sock
        self._poller = poller
        self._call_soon = call_soon
        self._held = bytearray()
        self._has_ended = False
        self._on_event: OnEvent | None = None
        self._wanted = 0
        self._is_due = False
        self._is_open = False
        self._sends = SENDS_IN_A_ROW
        """How often it may still send before it has to hear from its client; -1 while it waits for that."""

    # What a connection calls

    held_bytes = 0

    def expect(self, count: int) -> None:
        pass

    def identify(self, _authenticated: Callable[..., object]) -> None:
        pass

    def recv_into(self, buffer: Any, count: int = 0, /) -> int:
        size = self._look(buffer, min(count or len(buffer), SHORT_BYTES))
        del self._held[:size]
        self._announce()
        return size

    def peek_into(self, buffer: memoryview) -> int:
        size = self._look(buffer, len(buffer))
        self._announce()
        return size

    def send(self, data: Any, _flags: int = 0, /) -> int:
        if not self._is_open or self._sends < 0:
            raise BlockingIOError
        if self._sends == 0:
            self._sends = -1
            self._call_soon(self._heard)
            raise BlockingIOError
        self._sends -= 1
        return self._sock.send(data)

    def send_file(self, descriptor: int, position: int, count: int, /) -> int:
        data = os.pread(descriptor, min(count, COPIED_BYTES), position)
        return self.send(data) if data else 0

    def watch(self, on_event: OnEvent, events: int = READABLE) -> None:
        self._on_event, self._wanted = on_event, events
        self._poller.add(self._sock.fileno(), self._found, self._asked)
        self._announce()

    def want(self, events: int) -> None:
        self._wanted = events
        self._poller.change(self._sock.fileno(), self._asked)
        self._announce()

    def unwatch(self) -> None:
        self._on_event = None
        self._poller.remove(self._sock.fileno())

    def close(self) -> None:
        self._sock.close()

    def forsake(self) -> None:
        self._sock.close()

    # What happens inside

    def _look(self, buffer: Any, most: int) -> int:
        """Copy the first bytes that are held, and take more from the socket before that."""
        if not self._is_open:
            raise BlockingIOError
        if not self._has_ended and len(self._held) < HELD_BYTES:
            try:
                received = self._sock.recv(HELD_BYTES)
            except BlockingIOError:
                received = None
            if received is not None:
                self._held += received
                self._has_ended = not received
        if not self._held and not self._has_ended:
            raise BlockingIOError
        size = min(len(self._held), len(buffer), most)
        buffer[:size] = self._held[:size]
        return size

    @property
    def _asked(self) -> int:
        """The events that the poller is asked for: to send, it may have to read."""
        return self._wanted if self._sends >= 0 else self._wanted & ~WRITABLE

    def _found(self, events: int) -> None:
        if not self._is_open:
            self._poller.change(self._sock.fileno(), 0)
            self._call_soon(self._shake_hands)
            return
        found = events & (self._asked | GONE)
        if found and self._on_event is not None:
            self._on_event(found)

    def _shake_hands(self) -> None:
        self._is_open = True
        if self._on_event is not None:
            self._poller.change(self._sock.fileno(), self._asked)

    def _heard(self) -> None:
        self._sends = SENDS_IN_A_ROW
        if self._on_event is not None:
            self._poller.change(self._sock.fileno(), self._asked)

    def _announce(self) -> None:
        """Tell of what the poller does not see, soon and again and again."""
        if self._held and self._wanted & READABLE and self._on_event is not None and not self._is_due:
            self._is_due = True
            self._call_soon(self._tell)

    def _tell(self) -> None:
        self._is_due = False
        if self._held and self._wanted & READABLE and self._on_event is not None:
            self._on_event(READABLE)
            self._announce()


def narrow_channel(sock: socket.socket, poller: Poller, call_soon: Callable[..., object]) -> Channel:
    return NarrowChannel(sock, poller, call_soon)
