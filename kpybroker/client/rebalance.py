"""The members that a consumer group waits for while it is not stable (KIP-848). Pure.

A member first gives up partitions, then others get them. So a rebalance waits for members that still hold what others
are to get, for members that have not asked for their partitions yet, and for static members that are away.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kpybroker.client.client import Spot
from kpybroker.client.group_requests import GroupDescription, MemberDescription

AWAY_EPOCH = -2
CLASSIC = {
    "PreparingRebalance": "it waits until its members have joined again, at most for their rebalance timeout; "
    "kpybroker's console names those that have not",
    "CompletingRebalance": "it waits until its leader has sent the assignment, and its members have asked for it; "
    "kpybroker's console names those that have not",
}
"""Why a group of the classic protocol is not stable. Its description does not say who is missing."""


class Blocker(NamedTuple):
    """A member that others wait for, or that has not heard of its partitions."""

    member: MemberDescription
    held: tuple[Spot, ...]
    """The partitions that it has to give up."""
    awaited_by: tuple[str, ...]
    """The ids of the members that are to get them."""
    due: tuple[Spot, ...]
    """The partitions that are free, and that it has not asked for yet."""

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that has left for a while."""
        return self.member.epoch == AWAY_EPOCH


def blockers(group: GroupDescription) -> list[Blocker]:
    """The members that keep the group from being stable."""
    holders = {spot: member.member_id for member in group.members for spot in member.assigned or ()}
    wanted_by = {spot: member.member_id for member in group.members for spot in member.target or ()}
    found = []
    for member in group.members:
        if member.target is None or member.assigned is None:
            continue
        held = tuple(spot for spot in member.assigned if spot not in member.target)
        due = tuple(spot for spot in member.target if spot not in holders)
        awaited_by = tuple(sorted({wanted_by[spot] for spot in held if spot in wanted_by}))
        is_behind = member.epoch is not None and member.epoch != group.target_epoch
        if held or due or (is_behind and not _waits(member, holders)):
            found.append(Blocker(member, held, awaited_by, due))
    return found


def _waits(member: MemberDescription, holders: dict[Spot, str]) -> bool:
    """Whether a member waits for what another one holds."""
    return any(holders.get(spot, member.member_id) != member.member_id for spot in member.target or ())


def explained(group: GroupDescription, waits: Mapping[str, str] | None = None) -> list[str]:
    """Why the group is not stable, in lines; none if it is. ``waits`` has how long each member is where it is."""
    if group.epoch is None or group.target_epoch is None or not group.members:
        return [CLASSIC[group.state]] if group.kind == "classic" and group.state in CLASSIC else []
    lines = []
    waits = waits or {}
    if group.epoch > group.target_epoch:
        lines.append(f"epoch {group.epoch} has no assignment yet; a heartbeat of a member computes it")
    for blocker in blockers(group):
        waited = waits.get(blocker.member.member_id)
        lines.append(_line(group, blocker) + (f", for {waited}" if waited else ""))
    return lines


def _line(group: GroupDescription, blocker: Blocker) -> str:
    member = blocker.member
    name = _name(member)
    if blocker.is_away:
        return f"{name} is away and keeps {_places(member.assigned or ()) or 'nothing'} until it returns"
    if blocker.held:
        awaited_by = ", ".join(_name(each) for each in group.members if each.member_id in blocker.awaited_by)
        has_not = f"{name} has not given up"
        held = _places(blocker.held)
        return f"{awaited_by} waits for {held}, which {has_not}" if awaited_by else f"{has_not} {held}"
    if blocker.due:
        return f"{name} has not asked for {_places(blocker.due)} yet"
    return f"{name} is at epoch {member.epoch}; its next heartbeat brings {group.target_epoch}"


def _name(member: MemberDescription) -> str:
    return f"{member.instance_id or member.client_id} ({member.member_id})"


def _places(spots: Iterable[Spot]) -> str:
    topics: dict[str, list[str]] = {}
    for spot in spots:
        topics.setdefault(spot.topic, []).append(str(spot.partition))
    return " ".join(f"{topic}:{','.join(indexes)}" for topic, indexes in topics.items())
