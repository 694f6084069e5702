"""All nodes that this one asks, each over one connection; by where they listen."""

import asyncio
from collections.abc import Callable

from kpybroker.io.scheduler import Scheduler
from kpybroker.network.peer import MAX_RESPONSE_BYTES, Connect, Link, Peer
from kpybroker.server.outgoing import Outgoing


class Peers:
    """The connections of one purpose, such as the quorum's: one that waits delays nobody else's requests."""

    def __init__(self, scheduler: Scheduler, connect: Connect, client_id: str, request_timeout_ms: float) -> None:
        self._scheduler = scheduler
        self._connect = connect
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._peers: dict[tuple[str, int], Peer] = {}

    def at(self, host: str, port: int) -> Peer:
        """The node that listens there."""
        peer = self._peers.get((host, port))
        if peer is None:
            peer = Peer(self._scheduler, self._connect, host, port, self._client_id, self._timeout_ms)
            self._peers[host, port] = peer
        return peer

    def close(self) -> None:
        """End all connections."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()


def connect_over(loop: asyncio.AbstractEventLoop) -> Connect:
    """Links that are real connections."""

    def connect(
        host: str,
        port: int,
        opened: Callable[[], object],
        taken: Callable[[bytes | memoryview], object],
        lost: Callable[[str], object],
    ) -> Link:
        link = Outgoing(opened, taken, lost, MAX_RESPONSE_BYTES)
        link.connect(loop, host, port)
        return link

    return connect
