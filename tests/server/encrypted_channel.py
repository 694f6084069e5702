"""A channel with real TLS, by Python's ``ssl``: what a broker would have in ``server/secure.py``, in short."""

import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kpybroker.server.channel import Channel, OpenChannel
from kpybroker.server.poller import GONE, READABLE, WRITABLE, OnEvent, Poller

COPIED_BYTES = 64 * 1024


class EncryptedChannel:
    """A TLS connection. The names of its events are those of the decrypted side."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, poller: Poller, call_soon: Callable[..., object]
    ) -> None:
        self._tls = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._poller = poller
        self._call_soon = call_soon
        self._on_event: OnEvent | None = None
        self._wanted = 0
        self._read_needs, self._write_needs = READABLE, WRITABLE
        """The events of the socket that let the next receive, or the next send, go on."""
        self._ahead = bytearray()
        """Decrypted bytes that were looked at."""
        self._is_open = self._is_due = False
        self._asked = 0
        self._error: OSError | None = None

    # What a connection calls

    def recv_into(self, buffer: Any, count: int = 0, /) -> int:
        if self._ahead:
            size = min(count or len(buffer), len(buffer), len(self._ahead))
            buffer[:size] = self._ahead[:size]
            del self._ahead[:size]
        else:
            size = self._reading(lambda: self._tls.recv_into(buffer, count or len(buffer)))
        self._look_again()
        return size

    def peek_into(self, buffer: memoryview) -> int:
        if not self._ahead:
            self._ahead += self._reading(lambda: self._tls.recv(len(buffer)))
        size = min(len(buffer), len(self._ahead))
        buffer[:size] = self._ahead[:size]
        self._look_again()
        return size

    def send(self, data: Any, _flags: int = 0, /) -> int:
        self._check()
        self._write_needs = WRITABLE
        try:
            return self._tls.send(data)
        except ssl.SSLWantReadError:
            self._write_needs = READABLE
            self._look_again()
            raise BlockingIOError from None
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None

    def send_file(self, descriptor: int, position: int, count: int, /) -> int:
        data = os.pread(descriptor, min(count, COPIED_BYTES), position)
        return self.send(data) if data else 0

    def watch(self, on_event: OnEvent, events: int = READABLE) -> None:
        self._on_event, self._wanted = on_event, events
        self._asked = self._needs()
        self._poller.add(self._tls.fileno(), self._found, self._asked)
        self._look_again()

    def want(self, events: int) -> None:
        self._wanted = events
        self._look_again()

    def unwatch(self) -> None:
        self._on_event = None
        self._poller.remove(self._tls.fileno())

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        self._tls.close()

    def forsake(self) -> None:
        self._tls.close()

    # What happens inside

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if not self._is_open:
            raise BlockingIOError

    def _reading(self, receive: Callable[[], Any]) -> Any:
        self._check()
        self._read_needs = READABLE
        try:
            return receive()
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except ssl.SSLWantWriteError:
            self._read_needs = WRITABLE
            raise BlockingIOError from None

    def _needs(self) -> int:
        """The events of the socket to wait for."""
        if not self._is_open:
            return self._read_needs
        reads = self._read_needs if self._wanted & READABLE else 0
        return reads | (self._write_needs if self._wanted & WRITABLE else 0)

    def _look_again(self) -> None:
        """Ask the poller for what is needed now, and call soon if decrypted bytes wait that it does not see."""
        if self._on_event is None:
            return
        if self._asked != self._needs():
            self._asked = self._needs()
            self._poller.change(self._tls.fileno(), self._asked)
        is_pending = self._is_open and (self._ahead or self._tls.pending() or self._error is not None)
        if is_pending and self._wanted & READABLE and not self._is_due:
            self._is_due = True
            self._call_soon(self._tell)

    def _tell(self) -> None:
        self._is_due = False
        if self._on_event is not None and self._wanted & READABLE:
            self._on_event(READABLE)
            self._look_again()

    def _found(self, events: int) -> None:
        if not self._is_open:
            self._shake_hands()
        else:
            found = READABLE if events & self._read_needs and self._wanted & READABLE else 0
            found |= WRITABLE if events & self._write_needs and self._wanted & WRITABLE else 0
            if self._on_event is not None and (found or events & GONE):
                self._on_event((found or READABLE) | events & GONE)
        self._look_again()

    def _shake_hands(self) -> None:
        self._read_needs = READABLE
        try:
            self._tls.do_handshake()
            self._is_open = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            self._read_needs = WRITABLE
        except OSError as error:
            self._is_open, self._error = True, error


def encrypted_channels(context: ssl.SSLContext) -> OpenChannel:
    """The factory that a listener gets."""

    def open_channel(sock: socket.socket, poller: Poller, call_soon: Callable[..., object]) -> Channel:
        return EncryptedChannel(sock, context, poller, call_soon)

    return open_channel
