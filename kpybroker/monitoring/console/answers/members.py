"""The members of a group of any kind, with what each has, and since when it is silent."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kpybroker.client.consumer_protocol import assigned_spots
from kpybroker.machines.console import stuck
from kpybroker.machines.console.groups import MemberRow
from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.member import ConsumerMember
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.epochs.timeouts import SESSION
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.share.member import ShareMember
from kpybroker.machines.groups.share.share_group import ShareGroup
from kpybroker.machines.groups.share.timeouts import SESSION as SHARE_SESSION
from kpybroker.machines.groups.streams.member import StreamsMember
from kpybroker.machines.groups.streams.streams_group import StreamsGroup
from kpybroker.monitoring.console.node_parts import NodeParts
from kpywire.errors import Malformed

ROLES: Final = ("", " (standby)", " (warm-up)")
"""The roles of tasks, in the order of their lists."""


def members_of(node: NodeParts, group: Group) -> tuple[MemberRow, ...]:
    """The members of a group of any kind."""
    membership = group.membership
    if isinstance(membership, ClassicGroup):
        return tuple(_classic_member(membership, each) for each in list(membership.members))
    if isinstance(membership, ConsumerGroup):
        return tuple(_consumer_member(node, membership, each) for each in list(membership.members.values()))
    if isinstance(membership, StreamsGroup):
        return tuple(_streams_member(membership, each) for each in list(membership.members.values()))
    if isinstance(membership, ShareGroup):
        return tuple(_share_member(node, membership, each) for each in list(membership.members.values()))
    return ()


def _classic_member(group: ClassicGroup, member_id: str) -> MemberRow:
    member = group.members[member_id]
    state = ""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        state = stuck.WAITS if member.awaiting_join is not None else stuck.OWES_JOIN
    elif group.state is ClassicGroupState.COMPLETING_REBALANCE:
        state = stuck.WAITS if member.awaiting_sync is not None else stuck.OWES_SYNC
    try:
        spots = assigned_spots(member.assignment) or () if member.assignment else ()
    except Malformed:
        spots = ()
    host = member.client_host.removeprefix("/")
    assigned = tuple(map(str, spots))
    return MemberRow(member_id, member.group_instance_id, member.client_id, host, assigned, state)


def _consumer_member(node: NodeParts, group: ConsumerGroup, member: ConsumerMember) -> MemberRow:
    is_settled = member.is_reconciled_to(group.assignment_epoch)
    state = "" if is_settled else f"is at epoch {member.member_epoch} of {group.assignment_epoch}"
    host = member.client_host.removeprefix("/")
    assigned = _spots(node, member.assigned)
    return MemberRow(member.member_id, member.instance_id, member.client_id, host, assigned, state)


def _share_member(node: NodeParts, group: ShareGroup, member: ShareMember) -> MemberRow:
    is_settled = member.member_epoch == group.assignment_epoch
    state = "" if is_settled else f"is at epoch {member.member_epoch} of {group.assignment_epoch}"
    host = member.client_host.removeprefix("/")
    return MemberRow(member.member_id, None, member.client_id, host, _spots(node, member.assigned), state)


def _spots(node: NodeParts, partitions: Mapping[bytes, Iterable[int]]) -> tuple[str, ...]:
    """The partitions of topics that exist."""
    topics = node.broker.image.topics_by_id
    named = ((topics[topic_id].name, indexes) for topic_id, indexes in partitions.items() if topic_id in topics)
    return tuple(f"{name}-{index}" for name, indexes in named for index in sorted(indexes))


def _streams_member(group: StreamsGroup, member: StreamsMember) -> MemberRow:
    """A member with its tasks in place of partitions."""
    is_settled = member.is_reconciled_to(group.assignment_epoch)
    state = "" if is_settled else f"is at epoch {member.member_epoch} of {group.assignment_epoch}"
    tasks = tuple(
        f"{stuck.TASK}{name}_{index}{role}"
        for role, tasks in zip(ROLES, member.assigned, strict=True)
        for name, indexes in tasks.items()
        for index in sorted(indexes)
    )
    host = member.client_host.removeprefix("/")
    return MemberRow(member.member_id, member.instance_id, member.client_id, host, tasks, state)


def silence_of(coordinator: GroupCoordinator, group: Group, now_ms: int) -> dict[str, float]:
    """How long each member has sent no heartbeat, in seconds, on the clock of the coordinator's timers."""
    settings, membership = coordinator.settings_of(group.group_id), group.membership
    sessions: dict[str, tuple[Any, int]] = {}
    if isinstance(membership, ClassicGroup):
        sessions = {each: (found.session, found.session_timeout_ms) for each, found in membership.members.items()}
    elif isinstance(membership, ConsumerGroup | StreamsGroup | ShareGroup):
        purpose, timeout_ms = {
            ConsumerGroup: (SESSION, settings.consumer_session_timeout_ms),
            StreamsGroup: (SESSION, settings.streams_session_timeout_ms),
            ShareGroup: (SHARE_SESSION, settings.share_session_timeout_ms),
        }[type(membership)]
        timers = coordinator.shard.member_timers
        others = [each for each, found in membership.members.items() if getattr(found, "classic", None) is None]
        keys = {each: (purpose, group.group_id, each) for each in others}
        sessions = {each: (timers[key], timeout_ms) for each, key in keys.items() if key in timers}
    return {
        each: max(0, now_ms + timeout_ms - timer.deadline_ms) / 1000
        for each, (timer, timeout_ms) in sessions.items()
        if timer.deadline_ms is not None
    }
