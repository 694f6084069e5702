"""The active controller, as stories play it: what it decides is committed at once."""

from collections.abc import Mapping
from typing import Any

from controller_world import ControllerWorld, directory_of, topic_request
from rendering import Changes, Input, Play, Rendering, StoryError, title

from kpybroker.machines.controller.controller import ElectPreferredLeaders, FenceStaleBrokers
from kpybroker.machines.controller.state import ControllerRequest
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import Partition
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.uuid import ZERO_UUID

LEFT_OUT = (
    "throttle_time_ms", "incarnation_id", "features", "end_points", "configs", "cordoned_log_dirs",
    "allow_replication_factor_change",
)  # fmt: skip
CONFIG_SET, CONFIG_DELETE = 0, 1


class ControllerStory:
    """An active controller of node 1 at the ``metadata.version`` of Kafka 4.3."""

    def __init__(self) -> None:
        self.rendering = Rendering(LEFT_OUT)
        self.changes = Changes()
        self.world = ControllerWorld()
        self.begin_ms = self.world.now_ms

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "register": self.register,
            "heartbeat": self.heartbeat,
            "fence-stale-brokers": self.fence_stale_brokers,
            "elect-preferred-leaders": self.elect_preferred_leaders,
            "create-topic": self.create_topic,
            "delete-topic": self.delete_topic,
            "alter-partition": self.alter_partition,
            "reassign": self.reassign,
            "list-reassignments": self.list_reassignments,
            "set-configs": self.set_configs,
        }

    # Inputs.

    def register(self, given: Input) -> list[str]:
        rack = given.text("rack") or None
        lines = []
        for broker_id in map(int, given.all_words()):
            self.rendering.names.give(directory_of(broker_id), f"dir-{broker_id}")
            lines += self._ask(given, self.world.registration(broker_id, rack=rack))
        return lines

    def heartbeat(self, given: Input) -> list[str]:
        """Heartbeats of brokers that have read all of the log."""
        want_fence, want_shut_down = given.flag("want_fence"), given.flag("want_shut_down")
        lines = []
        for broker_id in map(int, given.all_words()):
            message = BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=self._epoch_of(broker_id),
                current_metadata_offset=len(self.world.log) - 1,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
            )
            lines += self._ask(given, message, f"from {broker_id}")
        return lines

    def fence_stale_brokers(self, given: Input) -> list[str]:
        return self._decide(given, FenceStaleBrokers())

    def elect_preferred_leaders(self, given: Input) -> list[str]:
        return self._decide(given, ElectPreferredLeaders())

    def create_topic(self, given: Input) -> list[str]:
        """``replicas=1,2/2,3`` gives each partition its brokers; else ``partitions`` and ``replication_factor``."""
        replicas = [[int(each) for each in word.split(",")] for word in given.text("replicas").split("/") if word]
        topic = topic_request(
            given.word(),
            given.number("partitions", -1),
            given.number("replication_factor", -1),
            dict(enumerate(replicas)),
            {name: given.text(name) for name in list(given.fields)},
        )
        return self._ask(given, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))

    def delete_topic(self, given: Input) -> list[str]:
        topic = DeleteTopicState(name=given.word(), topic_id=ZERO_UUID)
        return self._ask(given, DeleteTopicsRequest(topics=[topic], timeout_ms=5_000))

    def alter_partition(self, given: Input) -> list[str]:
        """The leader of a partition says who is in sync, in the epochs that it knows unless the story gives others."""
        topic, number, partition = self._partition(given)
        wanted = AlterPartitionRequestPartitionData(
            partition_index=number,
            leader_epoch=given.number("leader_epoch", partition.leader_epoch),
            partition_epoch=given.number("partition_epoch", partition.partition_epoch),
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=self._epoch_of(each)) for each in given.numbers("isr")
            ],
        )
        sender = given.number("from", partition.leader)
        topics = [AlterPartitionRequestTopicData(topic_id=self.world.image.topics[topic].id, partitions=[wanted])]
        message = AlterPartitionRequest(broker_id=sender, broker_epoch=self._epoch_of(sender), topics=topics)
        return self._ask(given, message, f"from {sender}")

    def reassign(self, given: Input) -> list[str]:
        """Without ``replicas``, a reassignment is called off."""
        topic, number, _ = self._partition(given)
        wanted = ReassignablePartition(partition_index=number, replicas=given.numbers("replicas") or None)
        topics = [ReassignableTopic(name=topic, partitions=[wanted])]
        return self._ask(given, AlterPartitionReassignmentsRequest(topics=topics))

    def list_reassignments(self, given: Input) -> list[str]:
        return self._ask(given, ListPartitionReassignmentsRequest(topics=None))

    def set_configs(self, given: Input) -> list[str]:
        """``retention.ms=5`` sets a config of a topic, ``retention.ms=`` takes it back."""
        topic = given.word()
        values = {name: given.text(name) for name in list(given.fields)}
        configs = [
            AlterableConfig(
                name=name, config_operation=CONFIG_SET if value else CONFIG_DELETE, value=value if value else None
            )
            for name, value in values.items()
        ]
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs)
        return self._ask(given, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))

    def _epoch_of(self, broker_id: int) -> int:
        broker = self.world.image.brokers.get(broker_id)
        if broker is None:
            raise StoryError(f"Broker {broker_id} is not registered")
        return broker.epoch

    def _partition(self, given: Input) -> tuple[str, int, Partition]:
        name, _, number = given.word().rpartition("-")
        if name not in self.world.image.topics:
            raise StoryError(f"{given.line!r}: there is no topic {name!r}")
        return name, int(number), self.world.partition(name, int(number))

    # What comes out.

    def _ask(self, given: Input, message: Any, sender: str = "") -> list[str]:
        ticket = f"{title(message)} {sender}".strip()
        return self._decide(given, ControllerRequest(ticket, message, type(message).VERSIONS[-1]))

    def _decide(self, given: Input, event: Any) -> list[str]:
        self.world.now_ms = self.begin_ms + given.now_ms
        first = len(self.world.log)
        effects = self.world.decide(event)
        lines = []
        for offset, record in enumerate(self.world.log[first:], first):
            if isinstance(record, TopicRecord):
                self.rendering.names.give(record.topic_id, f"id-of-{record.name}")
            lines += self.rendering.lines(f"+ {offset} {type(record).__name__}", record)
        for ticket, response in effects.replies:
            lines += self.rendering.lines(f"= {ticket}:", response)
        return lines + self.changes.lines(self._states())

    def _states(self) -> dict[str, str]:
        """Each broker and each partition."""
        states = {}
        for broker_id, broker in self.world.image.brokers.items():
            states[f"broker {broker_id}"] = f"broker {broker_id}: {'fenced' if broker.fenced else 'unfenced'}"
        for name, topic in self.world.image.topics.items():
            for number, partition in topic.partitions.items():
                states[f"{name}-{number}"] = f"{name}-{number}: {partition_text(partition)}"
        return states


def partition_text(partition: Partition) -> str:
    """The place of a partition, its leader and its in-sync set."""
    fields = {
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "adding": list(partition.adding_replicas),
        "removing": list(partition.removing_replicas),
    }
    return " ".join(f"{name}={value}" for name, value in fields.items() if value != [])
