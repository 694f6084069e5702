"""A client that describes a streams group again and again (StreamsGroupDescribe).

Rules: no process has a task in two roles, neither now nor by its target. The target of a group whose topics are there
has all tasks, unless a new one is due. The members of a stable group have their targets.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kpybroker.machines.groups.epochs.epoch_members import RECONCILING, STABLE
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest

from .client import GROUP, Client, NoAnswer, Refused
from .grouping import NAME, Place

PAUSE_MS = 400

Roles = tuple[frozenset[Place], frozenset[Place]]
"""Active tasks and standbys."""


class Describer:
    """Describes it now and then, for as long as the simulation goes on."""

    def __init__(self, client: Client, tasks: Iterable[Place]) -> None:
        """``tasks``: all that there are."""
        self.client = client
        self.tasks = frozenset(tasks)
        self.ids: set[str] = set()
        """The members, as they were described last."""

    async def describe(self) -> None:
        """Once every while."""
        client = self.client
        while not client.is_over:
            try:
                node_id = await client.coordinator(NAME, GROUP)
                answer = await client.ask(
                    node_id, StreamsGroupDescribeRequest(group_ids=[NAME], include_authorized_operations=False)
                )
                (group,) = answer.groups
                if not group.error_code:
                    self.ids = {member.member_id for member in group.members}
                    self._check(group)
            except (NoAnswer, Refused):
                pass
            await client.pause(PAUSE_MS)

    def _check(self, group: Any) -> None:
        world, members = self.client.world, group.members
        for what, of in _ASSIGNMENTS.items():
            for process_id in sorted({member.process_id for member in members}):
                roles = [_roles(of(member)) for member in members if member.process_id == process_id]
                both = frozenset().union(*(active for active, _ in roles)) & frozenset().union(
                    *(standby for _, standby in roles)
                )
                if both:
                    world.violated(f"{process_id} has {sorted(both)} as active tasks and as standbys {what}")
        if group.group_state in (STABLE, RECONCILING):
            targets = [_roles(member.target_assignment)[0] for member in members]
            missing = self.tasks.difference(*targets)
            if missing:
                world.violated(f"no member is to have {sorted(missing)}, and {NAME} are {group.group_state}")
        if group.group_state == STABLE:
            for member in members:
                if _roles(member.assignment) != _roles(member.target_assignment):
                    world.violated(f"{member.member_id} does not have its target, and {NAME} are {STABLE}")


_ASSIGNMENTS: dict[str, Callable[[Any], Any]] = {
    "now": lambda member: member.assignment,
    "by its target": lambda member: member.target_assignment,
}


def _roles(assignment: Any) -> Roles:
    return _listed(assignment.active_tasks), _listed(assignment.standby_tasks)


def _listed(tasks: Iterable[Any]) -> frozenset[Place]:
    return frozenset((each.subtopology_id, index) for each in tasks for index in each.partitions)
