"""The other brokers of the cluster by their ids, at the addresses that the metadata have for them."""

from typing import Any

from kpybroker.hosts.network.peer import Done, NoResponse
from kpybroker.hosts.network.peers import Peers
from kpybroker.machines.metadata.image import MetadataImage


class Nodes:
    """The connections of this broker to others, one for each. When a new one is opened, those to addresses where no
    broker listens any more are closed."""

    def __init__(self, image: MetadataImage, listener_name: str, peers: Peers) -> None:
        """``listener_name`` is ``inter.broker.listener.name``."""
        self._image = image
        self._listener_name = listener_name
        self._peers = peers

    def address(self, node_id: int) -> tuple[str, int] | None:
        """The address where a broker listens for other brokers; None if it is not registered or lacks that listener."""
        broker = self._image.brokers.get(node_id)
        point = None if broker is None else broker.listeners.get(self._listener_name)
        return None if point is None else (point.host, point.port)

    def ask_once(self, node_id: int, request: Any, done: Done) -> None:
        """Send a request over a connection of its own, since the answer may take long: others come in order."""
        address = self.address(node_id)
        if address is None:
            done(_unknown(node_id))
        else:
            self._peers.ask_once(*address, request, done)

    def send(self, node_id: int, request: Any, done: Done, *, newest: int | None = None) -> None:
        """Send a request to a broker. ``done`` gets the response or `NoResponse`, perhaps at once."""
        address = self.address(node_id)
        if address is None:
            done(_unknown(node_id))
            return
        if address not in self._peers:
            self._peers.keep([self.address(each) for each in self._image.brokers])
        self._peers.at(*address).send(request, done, newest=newest)

    def close(self) -> None:
        """Close all connections."""
        self._peers.close()


def _unknown(node_id: int) -> NoResponse:
    return NoResponse(f"broker {node_id} is not known")
