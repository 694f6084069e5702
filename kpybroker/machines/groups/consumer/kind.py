"""Groups of the consumer protocol among the kinds of groups."""

from typing import Final

from kpybroker.machines.groups.consumer import heartbeat, regexes
from kpybroker.machines.groups.consumer.consumer_group import CONSUMER, ConsumerGroup
from kpybroker.machines.groups.consumer.describe import DescribeConsumerGroup, describe_consumer_group
from kpybroker.machines.groups.consumer.replay import REPLAYS
from kpybroker.machines.groups.consumer.timeouts import begin_timeouts
from kpybroker.machines.groups.epochs.epoch_members import STATES
from kpybroker.machines.groups.kind import GroupKind, Tables, lowered
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

KIND: Final = GroupKind(
    CONSUMER,
    "groups of the consumer protocol",
    lowered(*STATES),
    Tables(
        deciders={
            ConsumerGroupHeartbeatRequest: heartbeat.consumer_group_heartbeat,
            DescribeConsumerGroup: describe_consumer_group,
        },
        refusals={ConsumerGroupHeartbeatRequest: heartbeat.refuse_heartbeat},
        events={regexes.ResolveRegexes: (regexes.resolve_regexes,)},
        replays=REPLAYS,
        begins={ConsumerGroup: begin_timeouts},
    ),
)
