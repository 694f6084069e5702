"""A consumer group becomes a classic group when its last member of the new protocol has left (KIP-848).

(Kafka: ``convertToClassicGroup``, ``ClassicGroup.fromConsumerGroup``.) Its classic members have to rejoin.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kpybroker.machines.groups.classic.asleep import AsleepGroup, wake
from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.classic.member import ClassicGroupMember, Protocols
from kpybroker.machines.groups.classic.rebalance import end_session, prepare_rebalance
from kpybroker.machines.groups.classic.snapshot import group_record
from kpybroker.machines.groups.consumer.consumer_group import CONSUMER, ConsumerGroup
from kpybroker.machines.groups.consumer.member import ConsumerMember
from kpybroker.machines.groups.consumer.records import group_tombstones
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.member import NOTHING, Target
from kpybroker.machines.groups.mixed.protocol import version_of, write_assignment
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.timers import GroupTimer
from kpywire.errors import Malformed

POLICIES = ("downgrade", "bidirectional")


class Downgraded(NamedTuple):
    """An input of the coordinator: the records of a downgrade are committed, and its members are awake."""

    group_id: str
    protocols: Mapping[str, Protocols]
    """All protocols of each member. The record contains the selected one."""
    rebalances: bool
    """Whether the members have to rejoin."""
    timestamp_ms: int


def downgrade(_shard: GroupShard, group: ConsumerGroup, leaving: Collection[str], decision: GroupDecision) -> bool:
    """Turn the group into a classic one if only classic members are left when these have gone; whether it is done."""
    staying = [group.members[each] for each in group.ordered_members() if each not in leaving]
    if not staying or not _may_become_classic(staying, len(staying), decision):
        return False
    _convert(group, staying, group.ordered_members(), decision, rebalances=True)
    return True


def may_replace(group: ConsumerGroup, replaced: ConsumerMember, protocols: Protocols, decision: GroupDecision) -> bool:
    """Whether the group becomes a classic one when a classic member takes the place of this static one."""
    if replaced.classic is not None or not _are_readable(protocols):
        return False
    others = [member for member in group.members.values() if member.member_id != replaced.member_id]
    return _may_become_classic(others, len(group.members), decision)


def downgrade_replacing(
    group: ConsumerGroup,
    replaced: ConsumerMember,
    joining: ConsumerMember,
    decision: GroupDecision,
    *,
    rebalances: bool,
) -> None:
    """Turn the group into a classic one with a classic member in the place of a static one."""
    ids = group.ordered_members()
    staying = [group.members[each] for each in ids if group.members[each].instance_id != joining.instance_id]
    ids = [joining.member_id if each == replaced.member_id else each for each in ids]
    group_target = group.target.get(replaced.member_id, NOTHING)
    _convert(group, [*staying, joining], ids, decision, rebalances=rebalances, target_of_last=group_target)


def _may_become_classic(members: Collection[ConsumerMember], size: int, decision: GroupDecision) -> bool:
    settings = decision.settings
    if any(member.classic is None or not _are_readable(member.classic.protocols) for member in members):
        return False
    return settings.consumer_migration_policy in POLICIES and size <= settings.max_size


def _are_readable(protocols: Protocols) -> bool:
    """Whether the versions of all these protocols are known. An assignment is written in that of the selected one."""
    try:
        for _, metadata in protocols:
            version_of(metadata)
    except Malformed:
        return False
    return True


def _convert(
    group: ConsumerGroup,
    staying: Sequence[ConsumerMember],
    recorded_ids: Sequence[str],
    decision: GroupDecision,
    *,
    rebalances: bool,
    target_of_last: Target | None = None,
) -> None:
    classic = ClassicGroup(group.group_id, decision.timestamp_ms)
    classic.protocol_type, classic.generation_id, classic.state = CONSUMER, group.epoch, ClassicGroupState.STABLE
    for member in staying:
        classic.add(_classic_member(classic, member))
    classic.protocol_name = classic.select_protocol()
    targets = {member.member_id: group.target.get(member.member_id, NOTHING) for member in staying}
    if target_of_last is not None:
        targets[staying[-1].member_id] = target_of_last
    assignments = {}
    for member_id, target in targets.items():
        version = version_of(classic.members[member_id].metadata(classic.protocol_name))
        partitions = {each: dict.fromkeys(indexes, 0) for each, indexes in target.items()}
        assignments[member_id] = write_assignment(partitions, version, decision.topics)
    decision.records += group_tombstones(group.group_id, recorded_ids, group.regexes)
    decision.records.append(group_record(classic, assignments))
    protocols = {each.member_id: each.protocols for each in classic.members.values()}
    decision.then = Downgraded(group.group_id, protocols, rebalances, decision.timestamp_ms)


def rebalance_downgraded(shard: GroupShard, event: Downgraded, decision: GroupDecision) -> None:
    """Begin the first rebalance of a group that has just become a classic one."""
    group = shard.groups.get(event.group_id)
    if group is None or not isinstance(group.membership, AsleepGroup):
        return
    classic = wake(group, decision)
    for member in classic.members.values():
        protocols = event.protocols.get(member.member_id, member.protocols)
        classic.update(member, protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    if event.rebalances and classic.state is ClassicGroupState.STABLE:
        prepare_rebalance(classic, decision)


def _classic_member(classic: ClassicGroup, member: ConsumerMember) -> ClassicGroupMember:
    assert member.classic is not None
    return ClassicGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        member.classic.protocols,
        GroupTimer(end_session, classic, member.member_id),
    )
