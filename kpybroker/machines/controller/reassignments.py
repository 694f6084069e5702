"""Moving partitions between brokers: reassignments are begun, cancelled and listed (KIP-455; Kafka's
``ReplicationControlManager``).

The copying that follows is the replicas' work. A reassignment ends with the change of the ISR after which all replicas
that are to stay are in sync (`kpybroker.machines.controller.partition_change`).
"""

from collections.abc import Generator, Iterable
from typing import Any

from kpybroker.machines.controller.partition_change import Election
from kpybroker.machines.controller.state import STEP, ControllerRequest, ControllerState, Steps
from kpybroker.machines.controller.topics import check_assignment
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import Partition, Topic
from kpywire import error_codes
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Give partitions other replicas; null cancels a reassignment."""
    message: AlterPartitionReassignmentsRequest = request.message
    may_change_factor = message.allow_replication_factor_change
    records: list[Any] = []
    responses = []
    for topic in message.topics:
        yield
        outcomes = []
        for number, wanted in enumerate(topic.partitions, 1):
            if not number % STEP:
                yield
            code, text = error_codes.NONE, None
            try:
                records += _reassign(state, topic.name, wanted, may_change_factor=may_change_factor)
            except KafkaError as error:
                code, text = error.code, error.message
            outcomes.append(
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_code=code, error_message=text
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=outcomes))
    return records, AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=may_change_factor,
        error_code=error_codes.NONE,
        error_message=None if message.topics else "",  # as Kafka, which answers a request for nothing by itself
        responses=responses,
    )


def _reassign(
    state: ControllerState, name: str, wanted: ReassignablePartition, *, may_change_factor: bool
) -> list[Any]:
    topic = state.image.topics.get(name)
    if topic is None:
        raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    index = wanted.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    change = state.change(topic, index)
    if wanted.replicas is None:
        change.isr, change.replicas = _reverted(state, name, index, partition)
        change.adding = change.removing = []
        if state.unclean_election_allowed(name):
            change.election = Election.UNCLEAN
    else:
        check_assignment(state, wanted.replicas)
        if not may_change_factor:
            _check_factor(partition, wanted.replicas)
        removing = sorted(set(partition.replicas) - set(wanted.replicas))
        adding = sorted(set(wanted.replicas) - set(partition.replicas))
        change.replicas = [*wanted.replicas, *removing]
        change.removing = removing or change.removing
        # Who is to leave is not waited for. Kafka does, for ever, if nobody else is to join.
        change.adding = [replica for replica in adding or change.adding if replica not in removing]
    record = change.build()
    return [] if record is None else [record]


def _check_factor(partition: Partition, wanted: list[int]) -> None:
    """Check that the number of replicas stays the same. For a partition that is moving, the number after its
    reassignment counts."""
    present = len(set(partition.replicas).difference(partition.removing_replicas))
    if len(wanted) != present:
        raise KafkaError(
            error_codes.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(wanted)}",
        )


def _reverted(state: ControllerState, name: str, index: int, partition: Partition) -> tuple[list[int], list[int]]:
    """Return the ISR and the replicas as they were before a reassignment."""
    if not partition.adding_replicas and not partition.removing_replicas:
        raise KafkaError(error_codes.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
    isr = [replica for replica in partition.isr if replica not in partition.adding_replicas]
    if not isr and not state.unclean_election_allowed(name):
        raise KafkaError(
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name}:{index} because it would require an unclean leader "
            "election.",
        )
    return isr or replicas[:1], replicas


def list_partition_reassignments(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """List the named partitions that are moving, or all moving partitions if none is named."""
    message: ListPartitionReassignmentsRequest = request.message
    topics = state.image.topics
    wanted: Iterable[tuple[str, Iterable[int]]] = (
        ((topic.name, topic.partitions) for topic in list(topics.values()))
        if message.topics is None
        else ((asked.name, asked.partition_indexes) for asked in message.topics)
    )
    found = []
    for name, indexes in wanted:
        yield
        if name in topics:
            found.append((yield from _moving(topics[name], indexes)))
    return [], ListPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        error_message=None,
        topics=[topic for topic in found if topic.partitions],
    )


def _moving(topic: Topic, wanted: Iterable[int]) -> Generator[None, None, OngoingTopicReassignment]:
    moving: dict[int, OngoingPartitionReassignment] = {}
    for number, index in enumerate(wanted, 1):
        if not number % STEP:
            yield
        partition = topic.partitions.get(index)
        if partition is not None and (partition.adding_replicas or partition.removing_replicas):
            moving[index] = OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
    return OngoingTopicReassignment(name=topic.name, partitions=list(moving.values()))
