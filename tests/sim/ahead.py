"""In some worlds a leader dies often while one of its followers in sync has more than another.

Looked for every few events, and whenever a record is acknowledged or a log is cut.
"""

from collections.abc import Set
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .machine import Machine
    from .misfortune import Misfortune

EVERY_EVENTS = 8


class Ahead:
    """Kills leaders, as often as the world wants."""

    def __init__(self, misfortune: "Misfortune", spared: Set[str]) -> None:
        """``spared``: topics whose leaders are left alone."""
        self.world = misfortune.world
        self._misfortune = misfortune
        self._spared = spared
        self._rng = self.world.stream("who is ahead")
        self.often = self._rng.choice((0.0, 0.0, 0.0005, 0.005))
        self._is_due = False
        self.world.is_decided = self._decided

    def _decided(self) -> None:
        self._is_due = True

    def look(self) -> None:
        """After an event."""
        if self.world.events % EVERY_EVENTS and not self._is_due:
            return
        self._is_due = False
        for machine in self._misfortune.machines:
            self.look_at(machine)

    def look_at(self, machine: "Machine") -> None:
        """One that may die of it; also one that is about to die anyway."""
        misfortune, node = self._misfortune, machine.node
        if not self.often or not misfortune.is_on or misfortune.is_fragile or node is None:
            return
        broker = node.broker
        for topic in broker.replicas.topics.values() if broker is not None and hasattr(broker, "replicas") else ():
            for replica in topic.replicas.values() if topic.name not in self._spared else ():
                leader = replica.leader
                is_at_work = leader is not None and replica.is_here and leader.log.is_open
                if is_at_work and _is_ahead(leader) and self._rng.random() < self.often:
                    self.world.later(0.0, machine.kill)


def _is_ahead(leader: Any) -> bool:
    """Whether the followers in sync do not all end at the same offset."""
    followers = leader.in_sync.followers
    return len({followers[each].log_end.offset for each in leader.in_sync.isr if each in followers}) > 1
