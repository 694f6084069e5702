"""The decisions of a broker on the requests of its controller: LeaderAndIsr, StopReplica and UpdateMetadata. Pure.

As in Kafka 3.9 (``ReplicaManager``, ``KafkaApis``), LeaderAndIsr and StopReplica order what this broker's replicas do,
and UpdateMetadata says what clients get to know. Here both change one image. The replicas hear only of partitions that
an order named, or that do not concern them.

Invariants: a request of a controller whose reign is over changes nothing, and neither does one that was sent to an
earlier life of this broker. The leader epoch of a replica never goes back.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.broker import translation
from kpybroker.machines.zookeeper.broker.translation import Record
from kpybroker.machines.zookeeper.controller.batch import FULL
from kpybroker.machines.zookeeper.tree.controller import NO_CONTROLLER
from kpybroker.machines.zookeeper.tree.topics import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, NO_EPOCH
from kpywire import error_codes
from kpywire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from kpywire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kpywire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kpywire.uuid import ZERO_UUID

Place = tuple[bytes, int]
"""(topic id, partition)."""


class HeldReplica(NamedTuple):
    """A replica of this broker."""

    topic_id: bytes
    leader_epoch: int
    is_offline: bool


class RequestDecision(NamedTuple):
    """The answer to a request, and what follows from it."""

    response: Any
    records: list[Record] = []  # noqa: RUF012  never changed
    ordered: frozenset[Place] = frozenset()
    """The partitions about which the replicas of this broker hear. Without an order they hear of the others alone."""
    deleted: tuple[tuple[str, int], ...] = ()
    """Partitions that this broker does not hold, whose logs are to be deleted if they are there."""


class Ruler:
    """The controller that rules this broker: the sender of the last UpdateMetadata."""

    def __init__(self) -> None:
        self.controller_id = NO_CONTROLLER
        """Clients learn it as the controller; -1 before the first UpdateMetadata."""
        self.is_of_kraft = False
        """Whether it is of a KRaft quorum to which this cluster migrates."""

    def follow(self, request: UpdateMetadataRequest) -> None:
        """Take over the sender of a request."""
        self.controller_id, self.is_of_kraft = request.controller_id, request.is_kraft_controller


class ControllerRequests:
    """The highest controller epoch that was seen, and the decisions that depend on it."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        find: Callable[[str, int], HeldReplica | None],
        broker_epoch: Callable[[], int],
        kraft_epoch: Callable[[], int] = lambda: NO_EPOCH,
        held: Callable[[], Iterable[tuple[str, int]]] = tuple,
        ruler: Ruler | None = None,
    ) -> None:
        """``find`` finds a replica of this broker by topic and partition. ``broker_epoch`` is that of the registration
        in ZooKeeper, ``kraft_epoch`` that of the one with a KRaft quorum. ``held`` lists all replicas. ``ruler`` learns
        of each UpdateMetadata."""
        self.controller_epoch = 0
        self.ruler = Ruler() if ruler is None else ruler
        self.has_named_topics = False
        """Whether any UpdateMetadata has named topics."""
        self._node_id = node_id
        self._image = image
        self._find = find
        self._broker_epoch = broker_epoch
        self._kraft_epoch = kraft_epoch
        self._held = held

    def _refusal(self, request: Any) -> int:
        """The error of a whole request. A broker epoch that is newer than the one known here is accepted: the
        controller may learn of a registration before its broker does (KAFKA-9839)."""
        own_epoch = self._kraft_epoch() if request.is_kraft_controller else self._broker_epoch()
        if NO_EPOCH != request.broker_epoch < own_epoch:
            return error_codes.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return error_codes.STALE_CONTROLLER_EPOCH
        self.controller_epoch = request.controller_epoch
        return error_codes.NONE

    def unknown_topics(self, request: LeaderAndIsrRequest | UpdateMetadataRequest) -> list[str]:
        """The topics of a request that the image lacks: their configs are not known yet."""
        return [
            each.topic_name
            for each in request.topic_states
            if (known := self._image.topics.get(each.topic_name)) is None or known.id != each.topic_id
        ]

    # LeaderAndIsr

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> RequestDecision:
        """Decide which partitions become led or followed here."""
        code = self._refusal(request)
        if code:
            return RequestDecision(LeaderAndIsrResponse(error_code=code))
        records: list[Record] = []
        ordered: list[Place] = []
        answers = []
        for topic in request.topic_states:
            errors = {
                state.partition_index: self._why_not(topic, state, is_kraft=request.is_kraft_controller)
                for state in topic.partition_states
            }
            granted = [each for each in topic.partition_states if errors[each.partition_index] == error_codes.NONE]
            if granted:
                records += translation.topic(self._image, topic.topic_name, topic.topic_id)
            records += [translation.ordered_partition(topic.topic_id, each) for each in granted]
            ordered += [(topic.topic_id, each.partition_index) for each in granted]
            answers.append(
                LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        LeaderAndIsrPartitionError(partition_index=index, error_code=error)
                        for index, error in errors.items()
                    ],
                )
            )
        if request.is_kraft_controller and request.type == FULL:
            named = {
                (topic.topic_name, each.partition_index)
                for topic in request.topic_states
                for each in topic.partition_states
            }
            for name, index in self._held():
                if (name, index) not in named:
                    self._stop(name, index, records, ordered)
        return RequestDecision(
            LeaderAndIsrResponse(error_code=error_codes.NONE, topics=answers), records, frozenset(ordered)
        )

    def _stop(self, name: str, index: int, records: list[Record], ordered: list[Place]) -> None:
        """Stop a replica that a full request does not name, and delete its log: it is not of this broker any more."""
        held = self._find(name, index)
        known = None if held is None else self._image.topics_by_id.get(held.topic_id)
        before = None if known is None else known.partitions.get(index)
        if held is not None and before is not None and self._node_id in before.replicas:
            records.append(translation.stopped_partition(held.topic_id, index, before, self._node_id, deleted=True))
            ordered.append((held.topic_id, index))

    def _why_not(self, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState, *, is_kraft: bool) -> int:
        held = self._find(topic.topic_name, state.partition_index)
        if held is not None:
            if held.is_offline:
                return error_codes.KAFKA_STORAGE_ERROR
            if topic.topic_id != held.topic_id:
                return error_codes.INCONSISTENT_TOPIC_ID
            is_newer = state.leader_epoch > held.leader_epoch
            if not is_newer and not (is_kraft and state.leader_epoch == held.leader_epoch):
                return error_codes.STALE_CONTROLLER_EPOCH
        if topic.topic_id == ZERO_UUID:
            return error_codes.UNKNOWN_TOPIC_ID  # no topic of a cluster that speaks 3.9 lacks one
        if self._node_id not in state.replicas:
            return error_codes.UNKNOWN_TOPIC_OR_PARTITION
        return error_codes.NONE

    # StopReplica

    def stop_replica(self, request: StopReplicaRequest) -> RequestDecision:
        """Decide which partitions end here, and which logs are deleted."""
        code = self._refusal(request)
        if code:
            return RequestDecision(StopReplicaResponse(error_code=code, partition_errors=[]))
        errors: list[StopReplicaPartitionError] = []
        records: list[Record] = []
        ordered: set[Place] = set()
        deleted: list[tuple[str, int]] = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                name, index = topic.topic_name, state.partition_index
                held = self._find(name, index)
                code = _why_not_stopped(held, state)
                errors.append(StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=code))
                if code != error_codes.NONE:
                    continue
                if held is None:
                    if state.delete_partition:
                        deleted.append((name, index))
                    continue
                known = self._image.topics_by_id.get(held.topic_id)
                before = None if known is None else known.partitions.get(index)
                if before is not None:
                    deletes = state.delete_partition
                    records.append(
                        translation.stopped_partition(held.topic_id, index, before, self._node_id, deleted=deletes)
                    )
                    ordered.add((held.topic_id, index))
        response = StopReplicaResponse(error_code=error_codes.NONE, partition_errors=errors)
        return RequestDecision(response, records, frozenset(ordered), tuple(deleted))

    # UpdateMetadata

    def update_metadata(self, request: UpdateMetadataRequest) -> RequestDecision:
        """Take over what clients get to know."""
        code = self._refusal(request)
        if code:
            return RequestDecision(UpdateMetadataResponse(error_code=code))
        self.ruler.follow(request)
        self.has_named_topics = self.has_named_topics or bool(request.topic_states)
        records = translation.brokers(self._image, request.live_brokers)
        if request.is_kraft_controller and request.type == FULL:
            named = {topic.topic_name for topic in request.topic_states}
            gone = [topic for topic in self._image.topics.values() if topic.name not in named]
            records += [translation.removed(topic.id) for topic in gone]
        for topic in request.topic_states:
            known = self._image.topics.get(topic.topic_name)
            states = [state for state in topic.partition_states if state.leader != LEADER_DURING_DELETE]
            if not states:
                if known is not None:
                    records.append(translation.removed(known.id))
                continue
            if topic.topic_id == ZERO_UUID:
                continue
            records += translation.topic(self._image, topic.topic_name, topic.topic_id)
            same = known if known is not None and known.id == topic.topic_id else None
            for state in states:
                before = None if same is None else same.partitions.get(state.partition_index)
                record = translation.known_partition(topic.topic_id, state, before)
                if record is not None:
                    records.append(record)
        return RequestDecision(UpdateMetadataResponse(error_code=error_codes.NONE), records)


def _why_not_stopped(held: HeldReplica | None, state: StopReplicaPartitionState) -> int:
    if held is None:
        return error_codes.NONE
    if held.is_offline:
        return error_codes.KAFKA_STORAGE_ERROR
    if state.leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE) or state.leader_epoch >= held.leader_epoch:
        return error_codes.NONE
    return error_codes.FENCED_LEADER_EPOCH
