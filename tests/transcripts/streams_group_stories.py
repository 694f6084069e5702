"""Streams groups (KIP-1071), as stories play them: members with a topology get tasks of its subtopologies."""

from collections.abc import Mapping
from typing import Any

import topologies
from group_stories import GroupStory, partitions_of
from rendering import Input, Play, StoryError

from kpybroker.machines.groups.streams.events import DescribeStreamsGroup
from kpybroker.machines.groups.streams.heartbeat import HeartbeatAnswer
from kpywire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Topology,
)

JOINING, LEAVING = 0, -1
REBALANCE_MS = 30_000


class StreamsGroupStory(GroupStory):
    """The coordinator and the heartbeats of its members. Topologies are named as in `topologies`."""

    def __init__(self) -> None:
        super().__init__()
        self.rendering.left_out |= {
            "acceptable_recovery_lag_legacy",
            "acceptable_recovery_lag",
            "task_offset_interval_ms",
        }

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            **super().inputs,
            "join": self.join,
            "heartbeat": self.heartbeat,
            "leave": self.leave,
            "describe": self.describe,
        }

    def join(self, given: Input) -> list[str]:
        """A member of ``process``, its own one if that is left out, with a topology and without tasks."""
        name = given.text("topology", "stateless").upper().replace("-", "_")
        topology = getattr(topologies, name, None)
        if not isinstance(topology, Topology):
            raise StoryError(f"{given.line!r}: there is no topology {name!r}")
        epoch = given.number("topology_epoch", 0)
        return self._beat(given, JOINING, Topology(epoch=epoch, subtopologies=topology.subtopologies))

    def heartbeat(self, given: Input) -> list[str]:
        """A field that is left out has not changed: ``active=0:0+1`` are tasks of subtopology 0, ``active=`` none."""
        return self._beat(given, given.number("epoch", JOINING), None)

    def leave(self, given: Input) -> list[str]:
        return self._beat(given, LEAVING, None)

    def _beat(self, given: Input, epoch: int, topology: Topology | None) -> list[str]:
        member, is_joining = given.text("member"), topology is not None
        process = given.text("process", member if is_joining else "")
        message = StreamsGroupHeartbeatRequest(
            group_id=given.text("group", "g"),
            member_id=member,
            member_epoch=epoch,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS if is_joining else -1,
            topology=topology,
            active_tasks=tasks(given, "active", is_joining),
            standby_tasks=tasks(given, "standby", is_joining),
            warmup_tasks=tasks(given, "warmup", is_joining),
            process_id=process or None,
            shutdown_application=given.flag("shutdown_application"),
        )
        return self.ask(given, message, 0, member, f"client-{member}")

    def describe(self, given: Input) -> list[str]:
        return self.ask(given, DescribeStreamsGroup(given.text("group", "g")), 0, "admin")

    def reply_lines(self, head: str, message: Any) -> list[str]:
        if not isinstance(message, HeartbeatAnswer):
            return super().reply_lines(head, message)
        missing = [
            f"= CreateTopics to the controller: name={each.name} num_partitions={each.partitions}"
            for each in message.missing.values()
        ]
        return missing + super().reply_lines(head, message.response)


def tasks(given: Input, name: str, is_joining: bool) -> list[StreamsGroupHeartbeatRequestTaskIds] | None:
    """The tasks of one kind that a member has; None if it does not send them."""
    if name not in given.fields and not is_joining:
        return None
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=subtopology, partitions=indexes)
        for subtopology, indexes in partitions_of(given.text(name))
    ]
