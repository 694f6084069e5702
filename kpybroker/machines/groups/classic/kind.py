"""Classic groups among the kinds of groups."""

from typing import Final

from kpybroker.machines.groups.classic import asleep, heartbeat, join, leave, sync
from kpybroker.machines.groups.classic.classic_group import ClassicGroupState
from kpybroker.machines.groups.classic.describe import DescribeGroup, describe_group
from kpybroker.machines.groups.classic.replay import take_group
from kpybroker.machines.groups.group import CLASSIC_TYPE
from kpybroker.machines.groups.kind import GroupKind, Tables, lowered
from kpywire.group_records.group_metadata import GroupMetadataKey
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest
from kpywire.messages.leave_group import LeaveGroupRequest
from kpywire.messages.sync_group import SyncGroupRequest

KIND: Final = GroupKind(
    CLASSIC_TYPE,
    "classic groups",
    lowered(*(state.value for state in ClassicGroupState)),
    Tables(
        deciders={
            DescribeGroup: describe_group,
            HeartbeatRequest: heartbeat.heartbeat,
            JoinGroupRequest: join.join_group,
            LeaveGroupRequest: leave.leave_group,
            SyncGroupRequest: sync.sync_group,
        },
        refusals={JoinGroupRequest: join.refuse, LeaveGroupRequest: leave.refuse},
        group_refusals={SyncGroupRequest: sync.refuse_too_large},
        repeats={HeartbeatRequest: heartbeat.alive},
        replays={GroupMetadataKey: take_group},
        begins={asleep.AsleepGroup: asleep.wake_loaded},
    ),
)
