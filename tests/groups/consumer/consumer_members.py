"""Members of consumer groups, and the topics that they read."""

from typing import Any

from group_world import GroupWorld

from kpybroker.machines.metadata.topic import Partition, Topic
from kpywire import error_codes
from kpywire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)


def topic(name: str, partitions: int) -> Topic:
    made = Topic(name, name.encode().ljust(16, b"-"))
    made.partitions = {index: Partition((0,), (0,), 0) for index in range(partitions)}
    return made


class Member:
    """A client that takes what it is given, and reports it."""

    def __init__(
        self, world: GroupWorld, member_id: str, *, group_id: str = "g", software: str = "", **fields: Any
    ) -> None:
        self.world = world
        self.group_id = group_id
        self.software = software
        self.member_id = member_id
        self.fields = fields
        self.instance_id = fields.pop("instance_id", None)
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    def join(self, **fields: Any) -> Any:
        self.epoch, self.owned = 0, {}
        first = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        return self.beat(**{**first, **self.fields, **fields})

    def beat(self, **fields: Any) -> Any:
        fields.setdefault("topic_partitions", self.listed())
        fields.setdefault("member_epoch", self.epoch)
        message = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, instance_id=self.instance_id, **fields
        )
        response = self.world.send(message, 1, software=self.software).response
        if response.error_code == error_codes.NONE and response.member_epoch >= 0:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                given = response.assignment.topic_partitions
                self.owned = {each.topic_id: sorted(each.partitions) for each in given}
        return response

    def listed(self) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in self.owned.items()
        ]

    @property
    def partitions(self) -> list[int]:
        return sorted(index for indexes in self.owned.values() for index in indexes)
