"""The port of a server that runs in no process: connections of the simulated network, cut into frames."""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from .network import End, Host, Listening, Network

if TYPE_CHECKING:
    from .ensemble_tree import Tree

MOST_READ_BYTES = 1 << 20
_SIZE = Struct(">i")


class Port(Listening):
    """Hands over each connection as soon as it is there."""

    def __init__(self, network: Network, host: Host, port: int, accepted: Callable[[End], object]) -> None:
        super().__init__(network, host, port)
        self._accepted = accepted
        network.take_port(self)

    def changed(self) -> None:
        while self.backlog:
            self._accepted(self.backlog.popleft())


class Wire:
    """One connection: bytes on one side, frames on the other."""

    def __init__(self, end: End, tree: "Tree") -> None:
        self._end = end
        self._unread = bytearray()
        self._unsent = bytearray()
        self._connection = tree.open(self._send, self._close)
        end.on_change = self._changed
        self._changed()

    def _send(self, frame: bytes) -> None:
        self._unsent += _SIZE.pack(len(frame)) + frame
        self._push()

    def _push(self) -> None:
        end = self._end
        while self._unsent and end.error is None and not end.is_closed and end.room_bytes:
            piece = bytes(self._unsent[: end.room_bytes])
            del self._unsent[: len(piece)]
            end.send(piece)

    def _close(self) -> None:
        self._push()
        self._end.close()

    def _changed(self) -> None:
        end, connection = self._end, self._connection
        self._push()
        self._unread += end.take(MOST_READ_BYTES)
        while len(self._unread) >= _SIZE.size and not connection.is_over:
            last = _SIZE.size + _SIZE.unpack_from(self._unread)[0]
            if len(self._unread) < last:
                break
            frame = bytes(self._unread[_SIZE.size : last])
            del self._unread[:last]
            connection.received(frame)
        if not connection.is_over and (end.error is not None or end.is_ended):
            connection.gone()
            end.close()
