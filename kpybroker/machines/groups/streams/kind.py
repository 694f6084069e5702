"""Groups of the streams protocol among the kinds of groups."""

from typing import Final

from kpybroker.machines.groups.epochs.epoch_members import STATES
from kpybroker.machines.groups.kind import GroupKind, Tables, lowered
from kpybroker.machines.groups.streams import descriptions, events, heartbeat
from kpybroker.machines.groups.streams.describe import describe_streams_group
from kpybroker.machines.groups.streams.replay import REPLAYS
from kpybroker.machines.groups.streams.streams_group import NOT_READY, NOT_READY_FILTER, STREAMS, StreamsGroup
from kpybroker.machines.groups.streams.timeouts import begin_timeouts
from kpywire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

KIND: Final = GroupKind(
    STREAMS,
    "groups of the streams protocol",
    {**lowered(*STATES), NOT_READY: NOT_READY_FILTER},
    Tables(
        deciders={
            StreamsGroupHeartbeatRequest: heartbeat.streams_group_heartbeat,
            events.DescribeStreamsGroup: describe_streams_group,
            events.DescriptionOf: descriptions.description_of,
            events.StoreDescription: descriptions.store_description,
        },
        refusals={
            StreamsGroupHeartbeatRequest: heartbeat.refuse_heartbeat,
            events.StoreDescription: descriptions.refuse_description,
        },
        replays=REPLAYS,
        begins={StreamsGroup: begin_timeouts},
    ),
)
