"""What must hold at every moment, read from inside the nodes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .machine import Machine
    from .world import World

EVERY_EVENTS = 8


class Invariants:
    """Looks at all nodes every few events."""

    def __init__(self, world: "World", machines: "list[Machine]") -> None:
        self.world = world
        self.machines = machines
        self.expects_liveness = False
        self._high_watermarks: dict[tuple[int, int, str], int] = {}
        self._partition_leaders: dict[tuple[str, int, int], int] = {}

    def look(self) -> None:
        """After an event."""
        if self.world.events % EVERY_EVENTS == 0:
            for machine in self.machines:
                node = machine.node
                if node is not None and node.broker is not None and hasattr(node.broker, "replicas"):
                    self._look_at_replicas(machine, node.broker.replicas)

    def _look_at_replicas(self, machine: "Machine", replicas: Any) -> None:
        for topic in replicas.topics.values():
            for replica in topic.replicas.values():
                leader = replica.leader
                if leader is None or replica.gone:
                    continue
                key = (topic.name, replica.index, leader.epoch)
                known = self._partition_leaders.setdefault(key, machine.node_id)
                if known != machine.node_id:
                    self.world.violated(f"n{known} and {machine} lead {replica} in epoch {leader.epoch}")
                high_watermark = leader.high_watermark.offset
                place = (machine.node_id, machine.lives, str(replica))
                if high_watermark < self._high_watermarks.get(place, 0):
                    self.world.violated(f"the high watermark of {replica} on {machine} went back to {high_watermark}")
                self._high_watermarks[place] = high_watermark
                if high_watermark > leader.log.log_end_offset:
                    self.world.violated(f"the high watermark of {replica} on {machine} is above its log")
