"""All nodes that this one asks, each over one connection; by where they listen."""

import asyncio
from collections.abc import Callable, Container
from typing import Any

from kpybroker.io.scheduler import Scheduler
from kpybroker.network.peer import MAX_RESPONSE_BYTES, Connect, Done, Link, Peer
from kpybroker.server.outgoing import Outgoing


class Peers:
    """The connections of one purpose, such as the quorum's: one that waits delays nobody else's requests."""

    def __init__(self, scheduler: Scheduler, connect: Connect, client_id: str, request_timeout_ms: float) -> None:
        self._scheduler = scheduler
        self._connect = connect
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._peers: dict[tuple[str, int], Peer] = {}
        self._once: set[Peer] = set()

    def at(self, host: str, port: int) -> Peer:
        """The node that listens there."""
        peer = self._peers.get((host, port))
        if peer is None:
            peer = Peer(self._scheduler, self._connect, host, port, self._client_id, self._timeout_ms)
            self._peers[host, port] = peer
        return peer

    def ask_once(self, host: str, port: int, request: Any, done: Done) -> None:
        """Ask a node over a connection of its own, which ends with the answer."""
        peer = Peer(self._scheduler, self._connect, host, port, self._client_id, self._timeout_ms)

        def answered(answer: Any) -> None:
            self._once.discard(peer)
            peer.close()
            done(answer)

        self._once.add(peer)
        peer.send(request, answered)

    def __contains__(self, address: tuple[str, int]) -> bool:
        """Whether a node that listens there was asked."""
        return address in self._peers

    def keep(self, addresses: Container[tuple[str, int] | None]) -> None:
        """End the connections to where nobody of these listens."""
        for address in [each for each in self._peers if each not in addresses]:
            self._peers.pop(address).close()

    def close(self) -> None:
        """End all connections."""
        peers = [*self._peers.values(), *self._once]
        self._peers.clear()
        self._once.clear()
        for peer in peers:
            peer.close()


def connect_over(loop: asyncio.AbstractEventLoop, receive_buffer_bytes: int = -1) -> Connect:
    """Links that are real connections; the system chooses how much of what comes it keeps, if the size is negative."""

    def connect(
        host: str,
        port: int,
        opened: Callable[[], object],
        taken: Callable[[bytes | memoryview], object],
        lost: Callable[[str], object],
    ) -> Link:
        link = Outgoing(opened, taken, lost, MAX_RESPONSE_BYTES, receive_buffer_bytes)
        link.connect(loop, host, port)
        return link

    return connect
