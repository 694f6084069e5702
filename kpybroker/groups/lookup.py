"""Finding a group, and making the soft part of it that requests work on."""

from kpybroker.groups.classic_group import ClassicGroup
from kpybroker.groups.decision import Decision
from kpybroker.groups.foreign import SESSION_TIMEOUT_MS
from kpybroker.groups.group import Group
from kpybroker.groups.member import Member
from kpybroker.groups.rebalance import end_session, prepare_rebalance
from kpybroker.groups.shard import Shard
from kpybroker.groups.snapshot import restore
from kpybroker.groups.timers import Timer


def find_classic(shard: Shard, group_id: str, decision: Decision) -> ClassicGroup | None:
    """The classic group of this name; None if there is none, or one of another kind."""
    group = shard.groups.get(group_id)
    if group is None:
        return None
    if group.classic is not None:
        return group.classic
    return None if group.foreign is not None else wake(group, decision)


def wake(group: Group, decision: Decision) -> ClassicGroup:
    """The members of a group as its record has them. Their sessions begin now; too many of them have to join anew."""
    classic = group.classic = ClassicGroup(group.group_id, decision.timestamp_ms)
    value = group.recorded
    if value is None:
        return classic
    for recorded in value.members:
        session = Timer(end_session, classic, recorded.member_id)
        timeout_ms = recorded.session_timeout
        member = Member(
            recorded.member_id,
            recorded.group_instance_id,
            recorded.client_id,
            recorded.client_host,
            recorded.rebalance_timeout if recorded.rebalance_timeout != -1 else timeout_ms,
            timeout_ms,
            ((value.protocol or "", recorded.subscription),),
            session,
            recorded.assignment,
        )
        classic.add(member)
        decision.set_timer(session, timeout_ms)
    restore(classic, value)
    classic.remember_subscriptions()
    if len(classic.members) > decision.settings.max_size:
        prepare_rebalance(classic, decision)
    return classic


def is_abandoned(shard: Shard, group: Group, decision: Decision) -> bool:
    """Whether a group of a kind that is not served has no members left: their sessions ended after the load."""
    foreign = group.foreign
    return foreign is not None and (not foreign.members or decision.now_ms >= shard.loaded_ms + SESSION_TIMEOUT_MS)
