"""Consumer groups (KIP-848), as stories play them: the coordinator assigns, and heartbeats carry everything."""

from collections.abc import Mapping

from group_stories import GroupStory, id_of, partitions_of
from rendering import Input, Play

from kpybroker.machines.groups.consumer.describe import DescribeConsumerGroup
from kpywire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

JOINING, LEAVING = 0, -1
REBALANCE_MS = 30_000


class ConsumerGroupStory(GroupStory):
    """The coordinator and the heartbeats of its members, which choose their ids themselves (KIP-1082)."""

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
        """``topics`` or ``regex`` is the subscription, ``t`` without either."""
        default = "" if "regex" in given.fields else "t"
        return self._beat(given, JOINING, given.texts("topics", default), given.number("timeout_ms", REBALANCE_MS))

    def heartbeat(self, given: Input) -> list[str]:
        """A field that is left out has not changed; ``owned=t:0+1`` are the member's partitions, ``owned=`` none."""
        topics = given.texts("topics") if "topics" in given.fields else None
        return self._beat(given, given.number("epoch", JOINING), topics, -1)

    def leave(self, given: Input) -> list[str]:
        """``epoch=-2`` is a static member that will come back."""
        return self._beat(given, given.number("epoch", LEAVING), None, -1)

    def _beat(self, given: Input, epoch: int, topics: list[str] | None, timeout_ms: int) -> list[str]:
        member = given.text("member")
        is_listed = epoch == JOINING or "owned" in given.fields
        message = ConsumerGroupHeartbeatRequest(
            group_id=given.text("group", "g"),
            member_id=member,
            member_epoch=epoch,
            instance_id=given.text("instance") or None,
            rebalance_timeout_ms=timeout_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=given.text("regex") if "regex" in given.fields else None,
            server_assignor=given.text("assignor") or None,
            topic_partitions=[
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=id_of(name), partitions=indexes)
                for name, indexes in partitions_of(given.text("owned"))
            ]
            if is_listed
            else None,
        )
        return self.ask(given, message, 1, member, f"client-{member}")

    def describe(self, given: Input) -> list[str]:
        return self.ask(given, DescribeConsumerGroup(given.text("group", "g")), 1, "admin")
