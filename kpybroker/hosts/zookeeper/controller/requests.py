"""The requests that only the controller answers, as events of its queue: AlterPartition, ControlledShutdown,
AllocateProducerIds, AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders and UpdateFeatures."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kpybroker.hosts.zookeeper.controller.event_queue import EventQueue
from kpybroker.machines.failed_response import failed_response
from kpybroker.machines.zookeeper.controller.alter_partition import Outcome
from kpybroker.machines.zookeeper.controller.context import ControllerContext, Leadership
from kpybroker.machines.zookeeper.controller.controller import KafkaController, NotController
from kpybroker.machines.zookeeper.controller.features import update_features
from kpybroker.machines.zookeeper.controller.leader_elections import ElectionType
from kpybroker.machines.zookeeper.controller.messages import by_topic
from kpybroker.machines.zookeeper.tree.cluster import ProducerIdBlock
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch
from kpybroker.runtime.calls.call import Call
from kpywire import api, error_codes
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kpywire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from kpywire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kpywire.messages.update_features import UpdateFeaturesRequest

log = logging.getLogger("kpybroker.zookeeper")

Reply = Callable[[Any], object]
_ELECTION_ERRORS: Final = {
    error_codes.UNKNOWN_TOPIC_OR_PARTITION: "The partition does not exist.",
    error_codes.INVALID_TOPIC_EXCEPTION: "The topic is being deleted",
    error_codes.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    error_codes.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    error_codes.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


class ControllerApis:
    """Takes requests, and answers them when their event is over."""

    def __init__(self, event_queue: EventQueue) -> None:
        self._event_queue = event_queue
        self._controller: KafkaController = event_queue.controller
        self._ways: Final[Mapping[int, Callable[[Any, Call, Reply], object]]] = {
            api.ALTER_PARTITION: self._alter_partition,
            api.CONTROLLED_SHUTDOWN: self._controlled_shutdown,
            api.ALLOCATE_PRODUCER_IDS: self._allocate_producer_ids,
            api.ALTER_PARTITION_REASSIGNMENTS: self._alter_reassignments,
            api.LIST_PARTITION_REASSIGNMENTS: self._list_reassignments,
            api.ELECT_LEADERS: self._elect_leaders,
            api.UPDATE_FEATURES: self._update_features,
        }

    def take(self, request: Any, call: Call, reply: Reply) -> bool:
        """Take a request, if it is one of these and this broker is the controller. Returns whether it was taken."""
        way = self._ways.get(call.api_key)
        if way is None or not self._controller.is_active:
            return False
        way(request, call, reply)
        return True

    def _ask(self, request: Any, call: Call, reply: Reply, steps: Any, answer: Callable[[Any], Any]) -> None:
        def done(result: Any) -> None:
            if isinstance(result, Exception):
                is_moved = isinstance(result, NotController)
                code = error_codes.NOT_CONTROLLER if is_moved else error_codes.UNKNOWN_SERVER_ERROR
                reply(failed_response(request, call.api_version, code))
            else:
                reply(answer(result))

        self._event_queue.ask(steps, done)

    # AlterPartition

    def _alter_partition(self, request: AlterPartitionRequest, call: Call, reply: Reply) -> None:
        names: dict[bytes, str] = {}

        def steps() -> Any:
            names.update({topic_id: name for name, topic_id in self._context().topic_ids.items()})
            wanted = {
                TopicPartition(names[topic.topic_id], each.partition_index): _wanted(request.broker_id, each)
                for topic in request.topics
                if topic.topic_id in names
                for each in topic.partitions
            }
            return self._controller.alter_partition(request.broker_id, request.broker_epoch, wanted)

        def answer(outcomes: dict[TopicPartition, Outcome] | int) -> AlterPartitionResponse:
            if isinstance(outcomes, int):
                return AlterPartitionResponse(throttle_time_ms=0, error_code=outcomes, topics=[])
            self._event_queue.ask(lambda: self._controller.complete_reassignments(outcomes), lambda _result: None)
            topics = [
                AlterPartitionResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        _altered(each.partition_index, self._outcome(outcomes, names.get(topic.topic_id), each))
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
            return AlterPartitionResponse(throttle_time_ms=0, error_code=error_codes.NONE, topics=topics)

        self._ask(request, call, reply, steps, answer)

    @staticmethod
    def _outcome(outcomes: Mapping[TopicPartition, Outcome], name: str | None, partition: Any) -> Outcome:
        if name is None:
            return error_codes.UNKNOWN_TOPIC_ID
        return outcomes[TopicPartition(name, partition.partition_index)]

    def _context(self) -> ControllerContext:
        reign = self._controller.reign
        if reign is None:
            raise NotController
        return reign.context

    # Brokers

    def _controlled_shutdown(self, request: ControlledShutdownRequest, call: Call, reply: Reply) -> None:
        def answer(remaining: list[TopicPartition] | int) -> ControlledShutdownResponse:
            if isinstance(remaining, int):
                return ControlledShutdownResponse(error_code=remaining, remaining_partitions=[])
            left = [RemainingPartition(topic_name=name, partition_index=number) for name, number in remaining]
            return ControlledShutdownResponse(error_code=error_codes.NONE, remaining_partitions=left)

        def steps() -> Any:
            return self._controller.controlled_shutdown(request.broker_id, request.broker_epoch)

        self._ask(request, call, reply, steps, answer)

    def _allocate_producer_ids(self, request: AllocateProducerIdsRequest, call: Call, reply: Reply) -> None:
        def answer(block: ProducerIdBlock | int) -> AllocateProducerIdsResponse:
            code, start, length = (
                (block, 0, 0) if isinstance(block, int) else (error_codes.NONE, block.start, block.end - block.start)
            )
            return AllocateProducerIdsResponse(
                throttle_time_ms=0, error_code=code, producer_id_start=start, producer_id_len=length
            )

        def steps() -> Any:
            return self._controller.allocate_producer_ids(request.broker_id, request.broker_epoch)

        self._ask(request, call, reply, steps, answer)

    # Reassignments

    def _alter_reassignments(self, request: AlterPartitionReassignmentsRequest, call: Call, reply: Reply) -> None:
        wanted = {
            TopicPartition(topic.name, each.partition_index): None if each.replicas is None else tuple(each.replicas)
            for topic in request.topics
            for each in topic.partitions
        }

        def answer(errors: Mapping[TopicPartition, int]) -> AlterPartitionReassignmentsResponse:
            topics = [
                ReassignableTopicResponse(
                    name=topic,
                    partitions=[
                        ReassignablePartitionResponse(partition_index=number, error_code=code, error_message=None)
                        for number, code in partitions
                    ],
                )
                for topic, partitions in by_topic(errors).items()
            ]
            return AlterPartitionReassignmentsResponse(
                throttle_time_ms=0, error_code=error_codes.NONE, error_message="", responses=topics
            )

        self._ask(request, call, reply, lambda: self._controller.alter_reassignments(wanted), answer)

    def _list_reassignments(self, request: ListPartitionReassignmentsRequest, call: Call, reply: Reply) -> None:
        chosen = None
        if request.topics is not None:
            chosen = {TopicPartition(topic.name, each) for topic in request.topics for each in topic.partition_indexes}

        def steps() -> Any:
            yield from ()
            return self._controller.list_reassignments()

        def answer(found: Mapping[TopicPartition, Any]) -> ListPartitionReassignmentsResponse:
            listed = {each: found[each] for each in found if chosen is None or each in chosen}
            topics = [
                OngoingTopicReassignment(
                    name=topic,
                    partitions=[
                        OngoingPartitionReassignment(
                            partition_index=number,
                            replicas=list(each.replicas),
                            adding_replicas=list(each.adding),
                            removing_replicas=list(each.removing),
                        )
                        for number, each in partitions
                    ],
                )
                for topic, partitions in by_topic(listed).items()
            ]
            return ListPartitionReassignmentsResponse(
                throttle_time_ms=0, error_code=error_codes.NONE, error_message="", topics=topics
            )

        self._ask(request, call, reply, steps, answer)

    # Elections

    def _elect_leaders(self, request: ElectLeadersRequest, call: Call, reply: Reply) -> None:
        if request.election_type not in (each.value for each in ElectionType):
            reply(failed_response(request, call.api_version, error_codes.INVALID_REQUEST))
            return
        partitions = None
        if request.topic_partitions is not None:
            partitions = [
                TopicPartition(topic.topic, each) for topic in request.topic_partitions for each in topic.partitions
            ]

        def answer(errors: Mapping[TopicPartition, int]) -> ElectLeadersResponse:
            shown = {
                each: code
                for each, code in errors.items()
                if partitions is not None or code != error_codes.ELECTION_NOT_NEEDED
            }
            results = [
                ReplicaElectionResult(
                    topic=topic,
                    partition_result=[
                        PartitionResult(partition_id=number, error_code=code, error_message=_ELECTION_ERRORS.get(code))
                        for number, code in found
                    ],
                )
                for topic, found in by_topic(shown).items()
            ]
            return ElectLeadersResponse(
                throttle_time_ms=0, error_code=error_codes.NONE, replica_election_results=results
            )

        def steps() -> Any:
            return self._controller.elect_leaders(partitions, ElectionType(request.election_type))

        self._ask(request, call, reply, steps, answer)

    # Features

    def _update_features(self, request: UpdateFeaturesRequest, call: Call, reply: Reply) -> None:
        def steps() -> Any:
            self._context()
            yield from ()

        self._ask(request, call, reply, steps, lambda _none: update_features(request, call.api_version))


def _wanted(leader: int, partition: Any) -> Leadership:
    isr = partition.new_isr or [each.broker_id for each in partition.new_isr_with_epochs]
    state = LeaderIsrAndControllerEpoch(leader, partition.leader_epoch, tuple(isr), 0, partition.leader_recovery_state)
    return Leadership(state, partition.partition_epoch)


def _altered(number: int, outcome: Outcome) -> AlterPartitionResponsePartitionData:
    if isinstance(outcome, int):
        return AlterPartitionResponsePartitionData(
            partition_index=number,
            error_code=outcome,
            leader_id=0,
            leader_epoch=0,
            isr=[],
            leader_recovery_state=0,
            partition_epoch=0,
        )
    state, partition_epoch = outcome
    return AlterPartitionResponsePartitionData(
        partition_index=number,
        error_code=error_codes.NONE,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=state.recovery,
        partition_epoch=partition_epoch,
    )
