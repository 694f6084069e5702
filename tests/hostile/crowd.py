"""A crowd of connections that keep their places: each sends a few bytes and stops, and comes again if it is closed."""

import socket
import threading
from contextlib import suppress

from support.waiting import eventually


class Crowd:
    """``count`` connections from one address, as long as the context lasts. Some may wait to be accepted."""

    def __init__(self, port: int, sent: bytes, count: int) -> None:
        self._port, self._sent, self._count = port, sent, count
        self._is_over = threading.Event()
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._hold)

    def __enter__(self) -> "Crowd":
        self._thread.start()
        eventually(lambda: len(self._held) >= self._count, "the crowd is there")
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()
        for sock in self._held:
            sock.close()

    def _hold(self) -> None:
        while not self._is_over.is_set():
            while len(self._held) < self._count and not self._is_over.is_set():
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.settimeout(1)
                with suppress(OSError):
                    sock.connect(("127.0.0.1", self._port))
                    sock.send(self._sent)
                sock.setblocking(False)
                self._held.append(sock)
            for sock in [each for each in self._held if _is_closed(each)]:
                sock.close()
                self._held.remove(sock)
            self._is_over.wait(0.01)


def _is_closed(sock: socket.socket) -> bool:
    """Whether the broker has closed it; what it has sent before stays unread."""
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
