"""The group and the member that a request names, or Kafka's refusal."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.group import CLASSIC_TYPE, Group, Membership
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes

_Described = TypeVar("_Described")
_Kind = TypeVar("_Kind", bound=Membership)
_Member = TypeVar("_Member")


def find_group(shard: GroupShard, group_id: str, of_kind: type[_Kind], kind: str) -> _Kind:
    """The group of this id and kind. Raises RequestRefused if there is none."""
    group = shard.find(group_id, of_kind)
    if group is None:
        reason = f"is not a {kind} group" if group_id in shard.groups else "not found"
        raise RequestRefused(error_codes.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
    return group


def known_member(group_id: str, members: Mapping[str, _Member], member_id: str) -> _Member:
    """A member of a group. Raises RequestRefused if there is none of this id."""
    member = members.get(member_id)
    if member is None:
        text = f"Member {member_id} is not a member of group {group_id}."
        raise RequestRefused(error_codes.UNKNOWN_MEMBER_ID, text)
    return member


def static_member(
    instances: Mapping[str, str], members: Mapping[str, _Member], member_id: str, instance_id: str
) -> _Member:
    """The member that has an instance id. Raises RequestRefused if it is another one. ``instances`` has their ids."""
    known = instances.get(instance_id, "")
    member = members.get(known)
    if member is None:
        raise RequestRefused(error_codes.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member {known}."
        raise RequestRefused(error_codes.FENCED_INSTANCE_ID, text)
    return member


def ends_classic(group: Group, records: list[GroupRecord], decision: GroupDecision) -> bool:
    """Whether this is an empty classic group, which then ends: a member of another kind takes it over."""
    membership = group.membership
    if membership.facts().kind != CLASSIC_TYPE or membership.check_deletion(group, decision):
        return False
    records += membership.tombstones(group.group_id)
    return True


def fenced(kind: str, epoch: int, member_epoch: int, more: str = "") -> RequestRefused:
    """The refusal of a member at a wrong epoch."""
    size = "greater" if epoch > member_epoch else "smaller"
    text = (
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member_epoch}){more}. The member must abandon all its partitions and rejoin."
    )
    return RequestRefused(error_codes.FENCED_MEMBER_EPOCH, text)


def not_described(
    described_group: Callable[..., _Described], group_id: str, error_code: int, text: str | None = None, **more: Any
) -> _Described:
    """A group that is not described."""
    return described_group(
        error_code=error_code,
        error_message=text,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
        **more,
    )
