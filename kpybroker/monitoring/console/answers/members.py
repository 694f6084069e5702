"""The members of a group of any kind, with what each has, and since when it is silent."""

from collections.abc import Iterable, Mapping
from typing import Final

from kpybroker.client.consumer_protocol import assigned_spots
from kpybroker.machines.console import stuck
from kpybroker.machines.console.groups import MemberRow
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.facts import MemberFacts
from kpybroker.machines.groups.group import Group
from kpybroker.monitoring.console.node_parts import NodeParts
from kpywire.errors import Malformed

ROLES: Final = ("", " (standby)", " (warm-up)")
"""The roles of tasks, in the order of their lists."""


def members_of(node: NodeParts, group: Group) -> tuple[MemberRow, ...]:
    """The members of a group of any kind."""
    return tuple(
        MemberRow(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host.removeprefix("/"),
            (*_sent(each.assignment), *_spots(node, each.partitions), *_tasks(each)),
            each.state,
        )
        for each in group.membership.member_facts()
    )


def _sent(assignment: bytes) -> tuple[str, ...]:
    """The partitions of an assignment that the leader of a classic group sent, if they can be read."""
    try:
        return tuple(map(str, assigned_spots(assignment) or ())) if assignment else ()
    except Malformed:
        return ()


def _spots(node: NodeParts, partitions: Mapping[bytes, Iterable[int]]) -> tuple[str, ...]:
    """The partitions of topics that exist."""
    topics = node.broker.image.topics_by_id
    named = ((topics[topic_id].name, indexes) for topic_id, indexes in partitions.items() if topic_id in topics)
    return tuple(f"{name}-{index}" for name, indexes in named for index in sorted(indexes))


def _tasks(member: MemberFacts) -> tuple[str, ...]:
    return tuple(
        f"{stuck.TASK}{name}_{index}{role}"
        for role, tasks in zip(ROLES, member.tasks, strict=False)
        for name, indexes in tasks.items()
        for index in sorted(indexes)
    )


def silence_of(coordinator: GroupCoordinator, group: Group, now_ms: int) -> dict[str, float]:
    """How long each member has sent no heartbeat, in seconds, on the clock of the coordinator's timers."""
    settings = coordinator.settings_of(group.group_id)
    sessions = group.membership.sessions(coordinator.shard.member_timers, settings)
    return {
        each: max(0, now_ms + timeout_ms - timer.deadline_ms) / 1000
        for each, (timer, timeout_ms) in sessions.items()
        if timer.deadline_ms is not None
    }
