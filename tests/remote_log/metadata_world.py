"""Several brokers with ``__remote_log_metadata`` alone, on simulated disks and a network that the test may cut.

Replication, fetching and the leader's log are those of the broker (`tests.replication.replica_world`); the test is the
controller. A Produce is answered when it is appended.
"""

from typing import Any

from remote_log_histories import segment, update

from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.network.peers import Peers
from kpybroker.hosts.remote_log.metadata_topic import MetadataNodes, RemoteLogMetadataTopic
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.remote_log.segments import Record, RemoteLogSegment, RemoteLogSegmentId
from kpybroker.runtime.calls.call import Call
from kpywire import api, error_codes
from kpywire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kpywire.remote_log_record import TOPIC
from tests.replication.replica_world import LISTENER, World, WorldNode

PARTITIONS = "rlmm.config.remote.log.metadata.topic.num.partitions"
REQUEST_TIMEOUT_MS = 3_000
USER_TOPIC = b"user-topic-id-16"


def copy_of(number: int, partition: int = 0) -> RemoteLogSegment:
    """A new segment of a user's partition."""
    made = segment(number, number * 100, number * 100 + 99, [(1, number * 100)], event_timestamp_ms=number)
    return made._replace(id=RemoteLogSegmentId(USER_TOPIC, "u", partition, made.id.segment_id))


class MetadataNode(WorldNode):
    """A broker that reads and writes the topic."""

    metadata: RemoteLogMetadataTopic | None = None

    def start(self) -> None:
        self.metadata = None
        super().start()
        world = self.world
        peers = [
            Peers(self.scheduler, world.connect_from(self.id), f"{self.id}-{purpose}", REQUEST_TIMEOUT_MS)
            for purpose in ("polls", "produces")
        ]
        nodes = MetadataNodes(*[Nodes(self.image, LISTENER, each) for each in peers])
        self.asked: list[Any] = []
        self.metadata = RemoteLogMetadataTopic(
            self.id, self.scheduler, self.replicas, nodes, self._ask_controller, lambda: self.config
        )
        self.changes: list[tuple[bytes, int]] = []
        self.metadata.changed.append(lambda *key: self.changes.append(key))
        self.metadata.start()
        self.metadata.apply(self.image, MetadataDelta(self.image.next_offset))

    def _ask_controller(self, request: Any, reply: Any) -> None:
        self.asked.append((request, reply))

    def read_metadata(self, until: int | None = None) -> None:
        before = self.applied
        records = self.world.records[before:until]
        super().read_metadata(until)
        if self.metadata is not None and records:
            delta = MetadataDelta(before)
            for each in records:
                topic_id, index = getattr(each, "topic_id", None), getattr(each, "partition_id", None)
                if topic_id is not None and index is not None:
                    delta.partitions.setdefault(topic_id, {})[index] = None
            self.metadata.apply(self.image, delta)

    def handle(self, request: Any, call: Call) -> Any:
        return self._produced(request) if call.api_key == api.PRODUCE else super().handle(request, call)

    def _produced(self, request: ProduceRequest) -> ProduceResponse:
        (data,) = request.topic_data
        (part,) = data.partition_data
        code = error_codes.NONE
        try:
            replica = self.replica(part.index)
            leader, held = replica.led(), replica.topic
            if not leader.has_enough_in_sync(held.config.min_insync_replicas):
                raise KafkaError(error_codes.NOT_ENOUGH_REPLICAS)
            leader.append(bytes(part.records or b""), held.validation, self.scheduler.now_ms())
            replica.changed()
        except KafkaError as error:
            code = error.code
        answer = PartitionProduceResponse(index=part.index, error_code=code, base_offset=0)
        topic = TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=[answer])
        return ProduceResponse(responses=[topic])

    def _end(self) -> None:
        if self.metadata is not None:
            self.metadata.stop()
            self.metadata = None
        super()._end()

    # What the test asks.

    def write(self, record: Record, results: list[str | None] | None = None) -> list[str | None]:
        """Write a record; the list gets the result."""
        found: list[str | None] = [] if results is None else results
        assert self.metadata is not None
        self.metadata.write(record, found.append)
        return found

    def state(self, record: Record) -> Any:
        """The state of a segment as this node knows it: None without the segment, False while nothing is known."""
        of = record.id  # type: ignore[union-attr]
        assert self.metadata is not None
        known = self.metadata.segments_of(of.topic_id, of.partition)
        return False if known is None else known.state(of.segment_id)


class MetadataWorld(World):
    """The brokers."""

    topic_name = TOPIC
    node_type = MetadataNode
    nodes: dict[int, MetadataNode]  # type: ignore[assignment]

    def __init__(
        self, nodes: int = 3, *, partitions: int = 1, seed: int = 1, topic: dict[str, str] | None = None
    ) -> None:
        super().__init__(
            nodes, partitions=partitions, seed=seed, overrides={PARTITIONS: str(partitions)}, topic=topic or {}
        )

    def need(self, *partitions: int) -> None:
        """Every node that is up holds these partitions of the user's topic."""
        for node in self.nodes.values():
            for index in partitions or (0,):
                if node.metadata is not None:
                    node.metadata.need(USER_TOPIC, index)


__all__ = ["MetadataNode", "MetadataWorld", "copy_of", "update"]
