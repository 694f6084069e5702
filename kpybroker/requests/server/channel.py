"""The byte channel of one client: what a connection and its outbox know of a socket.

A channel is a plain socket, or one with TLS (`kpybroker.requests.server.tls_channel`). Connections rely on these rules,
which hold for both:

- No call waits. ``BlockingIOError`` means that nothing can be done now; then ``on_event`` is called when it can.
- ``on_event`` follows the state of the channel, as a poller follows that of a socket: it is called again and again as
  long as an event that is wanted is there. So a channel that holds decrypted bytes calls it with ``READABLE`` although
  the poller sees no more of them. A channel that has to read before it can write, or the other way round, asks the
  poller for one event and calls ``on_event`` with the other.
- After a short count the rest is to be sent when the channel is writable. After ``BlockingIOError`` the same bytes are
  offered again.
- A handshake is over before the first byte is received. Its failure is an OSError of the call that follows.

Invariant: nothing reaches the descriptor after `close`, whose number may belong to another file then.
"""

import errno
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from kpybroker.requests.server.poller import READABLE, OnEvent, Poller
from kpybroker.runtime.calls.principal import Principal

MORE: Final = getattr(socket, "MSG_MORE", 0)
"""A flag of `Channel.send`: more bytes follow at once, so these need not leave alone."""
GONE_ERRNOS: Final = (
    errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTUNREACH, errno.EBADF,
)  # fmt: skip
"""The errors of a channel whose client is gone."""
_PEEK: Final = socket.MSG_PEEK


class Channel(Protocol):
    """A stream of bytes from and to one client."""

    def recv_into(self, buffer: Any, count: int = 0, /) -> int:
        """Receive at most ``count`` bytes (0: as many as the buffer holds). 0 means that the client has ended."""

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send the beginning of ``data``. The result is the number of bytes, at least one."""

    def send_file(self, descriptor: int, position: int, count: int, /) -> int:
        """Send the beginning of a range of a file. The result is the number of bytes; 0 means that the file ends."""

    def peek_into(self, buffer: memoryview) -> int:
        """Copy what can be received now, and keep it for `recv_into`. 0 means that the client has ended."""

    def expect(self, count: int) -> None:
        """Say that ``count`` bytes are awaited, and fewer are of no use. ``on_event`` may wait for more of them, but
        not once all have come or the client has ended. 0 or less: any byte is of use."""

    @property
    def held_bytes(self) -> int:
        """The memory for bytes that wait for the client, beside those that were not sent."""

    def identify(self, authenticated: Callable[[Principal], object]) -> None:
        """Call ``authenticated`` when the channel itself tells who the client is, by a certificate."""

    def watch(self, on_event: OnEvent, events: int = READABLE) -> None:
        """Call ``on_event`` from now on while one of these events is there."""

    def want(self, events: int) -> None:
        """Watch for these events from now on; 0 for none."""

    def unwatch(self) -> None:
        """Stop watching. To be called before `close`."""

    def close(self) -> None:
        """Say goodbye to the client as far as that takes no waiting, and close the descriptor."""

    def forsake(self) -> None:
        """Close the descriptor, and say nothing: another process goes on with the connection."""


OpenChannel = Callable[[socket.socket, Poller, Callable[..., object]], Channel]
"""(sock, poller, call_soon) -> the channel over a connected, non-blocking socket, which it owns. OSError: the client is
gone."""


class PlainChannel:
    """A socket without encryption. Calls for each request are those of the socket itself, bound once."""

    __slots__ = ("_poller", "_sock", "recv_into", "send", "send_file")

    held_bytes = 0

    def __init__(self, sock: socket.socket, poller: Poller) -> None:
        self._sock = sock
        self._poller = poller
        self.recv_into: Callable[..., int] = sock.recv_into
        self.send: Callable[..., int] = sock.send
        self.send_file: Callable[[int, int, int], int] = partial(_sendfile(), sock.fileno())

    def peek_into(self, buffer: memoryview) -> int:
        return self._sock.recv_into(buffer, 0, _PEEK)

    def expect(self, count: int) -> None:
        """Do nothing: a socket brings as much as it has."""

    def identify(self, authenticated: Callable[[Principal], object]) -> None:
        """Do nothing: a socket knows nobody."""

    def watch(self, on_event: OnEvent, events: int = READABLE) -> None:
        self._poller.add(self._sock.fileno(), on_event, events)

    def want(self, events: int) -> None:
        self._poller.change(self._sock.fileno(), events)

    def unwatch(self) -> None:
        self._poller.remove(self._sock.fileno())

    def close(self) -> None:
        self.send_file = _closed
        self._sock.close()

    def forsake(self) -> None:
        self.close()


def plain_channel(sock: socket.socket, poller: Poller, _call_soon: Callable[..., object]) -> Channel:
    """An `OpenChannel` for sockets without encryption."""
    return PlainChannel(sock, poller)


def has_ended(channel: Channel, peeked: memoryview) -> bool:
    """Whether the client has ended, and all that it sent was received."""
    try:
        return channel.peek_into(peeked) == 0
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True


def _sendfile() -> Callable[..., int]:
    """The system's call; where it has none, slices have no descriptor and it is never used."""
    return getattr(os, "sendfile", _closed)


def _closed(*_range: int) -> int:
    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
