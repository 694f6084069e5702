"""A member of a group parts with it, once all is well: others go on without it, and it gets its share when it is back.

It leaves, or it falls silent just before the coordinator's process dies: then only the next one can end its session.
What it commits afterwards is refused. Other members stay, so that nobody's coming or going hides what becomes of the
group. Nobody writes any more.
"""

from typing import TYPE_CHECKING

from .beating import BeatingMember, Owners
from .grouping import Group, Parting, Place

if TYPE_CHECKING:
    from .simulation import Simulation

PATIENCE_MS = 30_000.0
"""Longer than the rebalance timeout: a streams member whose answer is lost hears only then what it has to give up, as
on Apache Kafka."""


def part(
    simulation: "Simulation", group: Group, members: list[BeatingMember], owners: Owners, wanted: set[Place]
) -> None:
    """Let one member go and come back. ``wanted``: what members own together. Raises Violation."""
    rng, has = simulation.world.stream("parting"), owners.owners
    within = simulation.within
    group.is_calm = True
    within(PATIENCE_MS, lambda: has.keys() == wanted, "every partition has a member that reads it")
    member = rng.choice(members)
    member.parting = rng.choice((Parting.LEAVES, Parting.SILENT))
    simulation.world.tell(f"{member.client.name} {member.parting.value}")
    if member.parting is Parting.SILENT and not simulation.misfortune.is_fragile:
        _kill_coordinator(simulation, members)
    within(
        PATIENCE_MS,
        lambda: not member.member_id and has.keys() == wanted and member.life not in has.values(),
        "others read everything that a member has read that is gone",
    )
    tasks = member.client.tasks
    member.client.run(member.commit_when_gone())
    within(PATIENCE_MS, lambda: member.client.tasks == tasks, "a member that is gone hears that it is")
    before, member.parting = member.life, Parting.NONE
    within(
        PATIENCE_MS,
        lambda: has.keys() == wanted and member.life is not before and member.life in has.values(),
        "a member that joins a group at rest gets its share",
    )


def _kill_coordinator(simulation: "Simulation", members: list[BeatingMember]) -> None:
    """The process that members take for the coordinator's dies, and its node comes back."""
    last = max(members, key=lambda member: member.life.heard_ms).life.heard_by
    machine = next(each for each in simulation.machines if each.node_id == last)
    machine.kill()
    simulation.within(PATIENCE_MS, lambda: all(each.is_up for each in simulation.machines), "the node is back")
