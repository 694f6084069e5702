"""Clusters in KRaft mode whose controllers are processes of their own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from oracle import BrokerProcess, free_port
from support.clusters import SHARED, NodeOf, Nodes, Place

FIRST_CONTROLLER: Final = 101


class SeparateCluster(Nodes):
    """Brokers with the ids 1, 2 and 3, and controllers with 101, 102 and 103, which are static voters."""

    def __init__(
        self, broker_of: NodeOf, controller_of: NodeOf, directory: Path, properties: Mapping[str, str] | None = None
    ) -> None:
        places = [Place(node_id, free_port(), free_port()) for node_id in (1, 2, 3)]
        ports = {FIRST_CONTROLLER + index: free_port() for index in range(3)}
        voters = ",".join(f"{node_id}@{places[0].host}:{port}" for node_id, port in ports.items())
        shared = {**SHARED, **(properties or {}), "controller.quorum.voters": voters}
        self.controllers: dict[int, BrokerProcess] = {}
        for node_id, port in ports.items():
            place = Place(node_id, port, port)
            address = f"CONTROLLER://{place.host}:{port}"
            own = {
                "process.roles": "controller",
                "node.id": str(node_id),
                "listeners": address,
                "advertised.listeners": address,
            }
            controller = controller_of(place, {**shared, **own}, directory / f"node-{node_id}")
            controller.is_broker = False
            self.controllers[node_id] = controller
        nodes: dict[int, BrokerProcess] = {}
        for place in places:
            address = f"PLAINTEXT://{place.host}:{place.port}"
            own = {
                "process.roles": "broker",
                "node.id": str(place.node_id),
                "listeners": address,
                "advertised.listeners": address,
            }
            nodes[place.node_id] = broker_of(place, {**shared, **own}, directory / f"node-{place.node_id}")
        super().__init__(nodes)

    @property
    def processes(self) -> list[BrokerProcess]:
        return [*self.controllers.values(), *self.nodes.values()]
