"""The requests that groups of two kinds meet, since a group may change between the classic kind and that of consumers
(KIP-848)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kpybroker.machines.groups.classic import kind as classic
from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.heartbeat import consumer_group_heartbeat
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.kind import Tables
from kpybroker.machines.groups.mixed import classic_members
from kpybroker.machines.groups.mixed.downgrade import Downgraded, rebalance_downgraded
from kpybroker.machines.groups.mixed.upgrade import upgrade
from kpybroker.machines.groups.shard import GroupShard
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest
from kpywire.messages.leave_group import LeaveGroupRequest
from kpywire.messages.sync_group import SyncGroupRequest


def _either(
    message: type, mixed: Callable[[GroupShard, ConsumerGroup, GroupRequest, GroupDecision], None]
) -> Callable[[GroupShard, GroupRequest, GroupDecision], Any]:
    """Decide on a request in a consumer group with members by ``mixed``, in any other as in a classic one."""
    decide_classic = classic.KIND.tables.deciders[message]

    def decide(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
        group = shard.find(request.message.group_id, ConsumerGroup)
        if group is not None and group.members:
            mixed(shard, group, request, decision)
        else:
            decide_classic(shard, request, decision)

    return decide


CHANGES: Final = Tables(
    deciders={
        ConsumerGroupHeartbeatRequest: partial(consumer_group_heartbeat, upgrade=upgrade),
        HeartbeatRequest: _either(HeartbeatRequest, classic_members.heartbeat),
        JoinGroupRequest: _either(JoinGroupRequest, classic_members.join),
        LeaveGroupRequest: _either(LeaveGroupRequest, classic_members.leave),
        SyncGroupRequest: _either(SyncGroupRequest, classic_members.sync),
    },
    events={Downgraded: (rebalance_downgraded,)},
)
"""The tables that take the place of those of the two kinds."""
