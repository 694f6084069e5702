"""The other brokers of the cluster by their ids, where the metadata say that they listen for brokers."""

from collections.abc import Callable
from typing import Any

from kpybroker.metadata.image import MetadataImage
from kpybroker.network.peer import Done, Unanswered
from kpybroker.network.peers import Peers


class Nodes:
    """How this broker asks others, over one connection each. Those to where no broker listens any more end when the
    next one is made."""

    def __init__(self, image: Callable[[], MetadataImage], listener_name: str, peers: Peers) -> None:
        """``listener_name`` is ``inter.broker.listener.name``."""
        self._image = image
        self._listener_name = listener_name
        self._peers = peers

    def address(self, node_id: int) -> tuple[str, int] | None:
        """Where a broker listens for other brokers; None for one that is not registered, or not there."""
        broker = self._image().brokers.get(node_id)
        point = None if broker is None else broker.listeners.get(self._listener_name)
        return None if point is None else (point.host, point.port)

    def send(self, node_id: int, request: Any, done: Done, *, newest: int | None = None) -> None:
        """Ask a broker; ``done`` gets the response or `Unanswered`, perhaps at once."""
        address = self.address(node_id)
        if address is None:
            done(Unanswered(f"broker {node_id} is not known"))
            return
        if address not in self._peers:
            self._peers.keep([self.address(each) for each in self._image().brokers])
        self._peers.at(*address).send(request, done, newest=newest)

    def close(self) -> None:
        """End all connections."""
        self._peers.close()
