"""The requests of the classic protocol, by the kind of the group that they meet (KIP-848)."""

from collections.abc import Callable

from kpybroker.machines.groups.classic import heartbeat as classic_heartbeat
from kpybroker.machines.groups.classic import join as classic_join
from kpybroker.machines.groups.classic import leave as classic_leave
from kpybroker.machines.groups.classic import sync as classic_sync
from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.heartbeat import consumer_group_heartbeat
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.mixed import classic_members
from kpybroker.machines.groups.mixed.upgrade import upgrade
from kpybroker.machines.groups.shard import GroupShard

Decider = Callable[[GroupShard, GroupRequest, GroupDecision], None]


def _either(
    classic: Decider, mixed: Callable[[GroupShard, ConsumerGroup, GroupRequest, GroupDecision], None]
) -> Decider:
    """Decide on a request in a consumer group with members by ``mixed``, in any other by ``classic``."""

    def decide(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
        group = shard.groups.get(request.message.group_id)
        if group is not None and isinstance(group.membership, ConsumerGroup) and group.membership.members:
            mixed(shard, group.membership, request, decision)
        else:
            classic(shard, request, decision)

    return decide


def consumer_heartbeat(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a heartbeat of the consumer protocol, which may turn a classic group into a consumer group."""
    consumer_group_heartbeat(shard, request, decision, upgrade)


join_group = _either(classic_join.join_group, classic_members.join)
sync_group = _either(classic_sync.sync_group, classic_members.sync)
heartbeat = _either(classic_heartbeat.heartbeat, classic_members.heartbeat)
leave_group = _either(classic_leave.leave_group, classic_members.leave)
