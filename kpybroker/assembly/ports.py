"""The ports of a node that starts: bound before anything is written, so that a refused start leaves nothing behind.

Not here: the servers on these ports. A socket has its port from `bind` on and listens only when clients can be answered
soon; until then a client that connects is refused and tries again.
"""

import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kpybroker.config.endpoints import Listener
from kpybroker.quorum.recovery import StartRefused
from kpybroker.server.system_sockets import SYSTEM_SOCKETS, Sockets


@contextmanager
def listening_on(listener: Listener) -> Iterator[None]:
    """Raise StartRefused in one line for anything that keeps a listener from its port."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise StartRefused(f"cannot listen on {listener}: {why}; --listen HOST:PORT names another address") from None


class BoundPorts:
    """A socket for each listener of a node, by the listener's name."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}

    def bind(self, listeners: Iterable[Listener], sockets: Sockets, receive_buffer_bytes: int) -> None:
        """Bind their ports. Raises StartRefused."""
        for listener in listeners:
            with listening_on(listener):
                self._sockets[listener.name] = sockets.bind(listener.host, listener.port, receive_buffer_bytes)

    @property
    def numbers(self) -> dict[str, int]:
        """The ports by the names of the listeners."""
        return {name: int(sock.getsockname()[1]) for name, sock in self._sockets.items()}

    def __getitem__(self, listener: Listener) -> socket.socket:
        return self._sockets[listener.name]

    def close(self) -> None:
        """Release the ports."""
        for sock in self._sockets.values():
            sock.close()


def check_free(listeners: Iterable[Listener]) -> None:
    """Raise StartRefused if one of the ports is in use at this moment."""
    for listener in listeners:
        with listening_on(listener):
            SYSTEM_SOCKETS.bind(listener.host, listener.port, -1).close()
