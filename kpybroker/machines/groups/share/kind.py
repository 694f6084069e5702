"""Share groups among the kinds of groups."""

from typing import Final

from kpybroker.machines.coordination.events import MetadataChanged
from kpybroker.machines.groups.epochs.epoch_members import STABLE
from kpybroker.machines.groups.group import DEAD, EMPTY
from kpybroker.machines.groups.kind import GroupKind, Tables, lowered
from kpybroker.machines.groups.share import events, heartbeat, offsets
from kpybroker.machines.groups.share.describe import describe_share_group
from kpybroker.machines.groups.share.replay import REPLAYS
from kpybroker.machines.groups.share.share_group import SHARE, ShareGroup
from kpybroker.machines.groups.share.timeouts import begin_sessions
from kpywire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kpywire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

KIND: Final = GroupKind(
    SHARE,
    "share groups",
    lowered(EMPTY, STABLE, DEAD),
    Tables(
        deciders={
            AlterShareGroupOffsetsRequest: offsets.alter_offsets,
            DeleteShareGroupOffsetsRequest: offsets.delete_offsets,
            ShareGroupHeartbeatRequest: heartbeat.share_group_heartbeat,
            events.DescribeShareGroup: describe_share_group,
            events.InitializedPartitions: offsets.initialized_partitions,
            events.OffsetsDeleted: offsets.offsets_deleted,
            events.StatesInitialized: offsets.states_initialized,
        },
        refusals={
            AlterShareGroupOffsetsRequest: offsets.refuse_alteration,
            DeleteShareGroupOffsetsRequest: offsets.refuse_offset_deletion,
            ShareGroupHeartbeatRequest: heartbeat.refuse_heartbeat,
        },
        events={MetadataChanged: (offsets.forget_topics,)},
        replays=REPLAYS,
        begins={ShareGroup: begin_sessions},
    ),
)
