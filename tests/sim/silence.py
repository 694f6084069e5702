"""Two trials of patience where all else is well: a broker that says nothing is fenced, and a follower that cannot
fetch leaves the in-sync sets and comes back.
"""

from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .machine import Machine
    from .simulation import Simulation

SESSION_MS = 1_000.0
LAG_MS = 800.0
SLACK_MS = 4_000.0


def _brokers(simulation: "Simulation") -> "list[Machine]":
    """The brokers that are not the active controller."""
    return [each for each in simulation.machines if each.node_id in simulation.node_ids and not each.is_controller]


def _is_needed(simulation: "Simulation", machine: "Machine") -> bool:
    """Whether the quorum has no majority without it."""
    hosts = [each.node.quorum for each in simulation.machines if each.is_controller and each.node is not None]
    voters = [set(host._quorum.history.voters) for host in hosts if host is not None]
    return any(2 * len(each - {machine.node_id}) <= len(each) for each in voters)


def a_silent_broker_is_fenced(simulation: "Simulation") -> None:
    """One without which there is a controller still, and which is not it, stands still for longer than its session."""
    silent = next((each for each in _brokers(simulation) if not _is_needed(simulation, each)), None)
    if silent is None:
        return
    assert silent.loop is not None
    simulation.world.tell(f"{silent} falls silent")
    silent.loop.pause(2 * SESSION_MS + SLACK_MS)

    def is_fenced() -> bool:
        hosts = [each.node.quorum for each in simulation.machines if each.is_controller and each.node is not None]
        return any(host is not None and host.image.brokers[silent.node_id].fenced for host in hosts)

    simulation.within(2 * SESSION_MS + SLACK_MS, is_fenced, f"{silent} is fenced, which says nothing")


def a_follower_without_its_leader_leaves(simulation: "Simulation") -> None:
    """Two that are not the active controller cannot reach each other, and the controller can both."""
    controllers = [each for each in simulation.machines if each.is_controller]
    others = _brokers(simulation)[:2]
    for leader, follower in permutations(others, 2):
        node = leader.node
        led = [
            replica
            for topic in (node.broker.replicas.topics.values() if node is not None and node.broker is not None else ())
            if topic.name in simulation.topics
            for replica in topic.replicas.values()
            if replica.leader is not None and {leader.node_id, follower.node_id} < set(replica.leader.isr)
        ]
        if led:
            break
    else:
        return
    simulation.world.tell(f"{follower} cannot reach {leader}")
    for one, other in ((leader, follower), (follower, leader)):
        simulation.network.isolate(one.host.name, other.host.name)

    def has_left() -> bool:
        # Under another controller one of the two may be cut off from that as well, and learns of nothing.
        if not all(each.is_controller for each in controllers):
            return True
        return all(each.leader is None or follower.node_id not in each.leader.isr for each in led)

    def is_back() -> bool:
        return all(
            each.leader is None
            or follower.node_id in each.leader.isr
            or follower.node_id not in each.partition.replicas
            for each in led
        )

    simulation.within(3 * LAG_MS + SLACK_MS, has_left, f"{follower} leaves the in-sync sets of {leader}")
    simulation.network.heal()
    simulation.within(3 * LAG_MS + 2 * SLACK_MS, is_back, f"{follower} is in sync again")
