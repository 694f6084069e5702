"""The nodes that this one sends requests to, by address, with one connection each."""

import asyncio
from collections.abc import Callable, Container
from typing import Any

from kpybroker.hosts.network.outgoing import OpenStream, Outgoing, plain_stream
from kpybroker.hosts.network.peer import MAX_RESPONSE_BYTES, Connect, Done, Link, Peer
from kpybroker.runtime.io.scheduler import Scheduler


class Peers:
    """The connections for one purpose, such as the quorum's. Its long requests delay no requests of other purposes."""

    def __init__(self, scheduler: Scheduler, connect: Connect, client_id: str, request_timeout_ms: float) -> None:
        self._scheduler = scheduler
        self._connect = connect
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._peers: dict[tuple[str, int], Peer] = {}
        self._once: set[Peer] = set()

    def at(self, host: str, port: int) -> Peer:
        """The node that listens at this address."""
        peer = self._peers.get((host, port))
        if peer is None:
            peer = Peer(self._scheduler, self._connect, host, port, self._client_id, self._timeout_ms)
            self._peers[host, port] = peer
        return peer

    def ask_once(self, host: str, port: int, request: Any, done: Done) -> None:
        """Send a request over a separate connection, which is closed after the answer."""
        peer = Peer(self._scheduler, self._connect, host, port, self._client_id, self._timeout_ms)

        def answered(answer: Any) -> None:
            self._once.discard(peer)
            peer.close()
            done(answer)

        self._once.add(peer)
        peer.send(request, answered)

    def __contains__(self, address: tuple[str, int]) -> bool:
        """Whether there is a `Peer` for this address."""
        return address in self._peers

    def keep(self, addresses: Container[tuple[str, int] | None]) -> None:
        """Close the connections to all other addresses than these."""
        for address in [each for each in self._peers if each not in addresses]:
            self._peers.pop(address).close()

    def close(self) -> None:
        """Close all connections."""
        peers = [*self._peers.values(), *self._once]
        self._peers.clear()
        self._once.clear()
        for peer in peers:
            peer.close()


def connect_over(
    loop: asyncio.AbstractEventLoop, receive_buffer_bytes: int = -1, open_stream: OpenStream = plain_stream
) -> Connect:
    """A `Connect` for real connections, whose bytes go over streams of one kind. If the size is negative, the system
    chooses the receive buffer."""

    def connect(
        host: str,
        port: int,
        opened: Callable[[], object],
        taken: Callable[[bytes | memoryview], object],
        lost: Callable[[str], object],
    ) -> Link:
        link = Outgoing(opened, taken, lost, MAX_RESPONSE_BYTES, receive_buffer_bytes)
        link.connect(loop, host, port, open_stream)
        return link

    return connect
