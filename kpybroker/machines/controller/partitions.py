"""AlterPartition, ElectLeaders, CreatePartitions, AssignReplicasToDirs and the controller's own elections."""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from kpybroker.machines.controller import mirrored_topics
from kpybroker.machines.controller.allowance import Allowance
from kpybroker.machines.controller.in_steps import counted, kept, refused_twice
from kpybroker.machines.controller.partition_change import Election
from kpybroker.machines.controller.partition_index import Found
from kpybroker.machines.controller.state import LAST_OF_STEP, STEP, ControllerRequest, ControllerState, Decision, Steps
from kpybroker.machines.controller.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    assigned_partition,
    partition_records,
    placed_partitions,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import NO_LEADER, NO_LEADER_CHANGE, RECOVERED, RECOVERING, Partition, Topic
from kpywire import error_codes
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from kpywire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kpywire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED = 0
UNCLEAN = 1
ANY_EPOCH = -1
STRICT_GROWTH_FROM = 3
"""The version of CreatePartitions from which on a quota of mutations refuses instead of only throttling (KIP-599)."""


def alter_partition(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Let leaders change the in-sync sets of their partitions (KIP-497)."""
    message: AlterPartitionRequest = request.message
    state.broker(message.broker_id, message.broker_epoch)
    records: list[Any] = []
    response = AlterPartitionResponse(throttle_time_ms=0, error_code=error_codes.NONE, topics=[])
    for wanted in message.topics:
        topic = state.image.topics_by_id.get(wanted.topic_id)
        results = []
        for wanted_partition in wanted.partitions:
            if topic is None:
                result = _refused(wanted_partition.partition_index, error_codes.UNKNOWN_TOPIC_ID)
            else:
                result = _alter_partition(
                    state, message.broker_id, topic, wanted_partition, request.api_version, records
                )
            results.append(result)
        response.topics.append(AlterPartitionResponseTopicData(topic_id=wanted.topic_id, partitions=results))
    return records, response


def _refused(partition_id: int, code: int) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        leader_id=0, leader_epoch=0, isr=[], partition_epoch=0, partition_index=partition_id, error_code=code
    )


def _alter_partition(
    state: ControllerState,
    broker_id: int,
    topic: Topic,
    wanted: AlterPartitionRequestPartitionData,
    api_version: int,
    records: list[Any],
) -> AlterPartitionResponsePartitionData:
    partition_id = wanted.partition_index
    partition = topic.partitions.get(partition_id)
    isr = wanted.new_isr_with_epochs
    if api_version < 3:
        isr = [BrokerState(broker_id=replica, broker_epoch=ANY_EPOCH) for replica in wanted.new_isr]
    error = _why_not(state, broker_id, partition, wanted, isr)
    if partition is None or error:
        return _refused(partition_id, error)
    change = state.change(topic, partition_id)
    if state.unclean_election_allowed(topic.name):
        change.election = Election.UNCLEAN
    change.isr = [member.broker_id for member in isr]
    change.leader_recovery_state = wanted.leader_recovery_state
    record = change.build()
    if record is not None:
        records.append(record)
        partition = partition.merge(record)
        if record.leader not in (broker_id, NO_LEADER_CHANGE):
            # the change finished a reassignment and moved the leader: the one who asked must look for the new one
            return _refused(partition_id, error_codes.NEW_LEADER_ELECTED)
    return AlterPartitionResponsePartitionData(
        error_code=error_codes.NONE,
        partition_index=partition_id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _why_not(
    state: ControllerState,
    broker_id: int,
    partition: Partition | None,
    wanted: AlterPartitionRequestPartitionData,
    isr: Sequence[BrokerState],
) -> int:
    """The error that refuses a change of a partition, or NONE; Kafka's checks in Kafka's order."""
    if partition is None:
        return error_codes.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return error_codes.NOT_CONTROLLER  # the leader knows more than this controller: it is deposed
    if wanted.leader_epoch < partition.leader_epoch:
        return error_codes.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return error_codes.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return error_codes.INVALID_UPDATE_VERSION
    members = [member.broker_id for member in isr]
    valid = members and len(set(members)) == len(members) and set(members) <= set(partition.replicas)
    if not valid or partition.leader not in members:
        return error_codes.INVALID_REQUEST
    recovering = wanted.leader_recovery_state == RECOVERING
    if wanted.leader_recovery_state not in (RECOVERED, RECOVERING):
        return error_codes.INVALID_REQUEST
    if recovering and (len(members) > 1 or partition.leader_recovery_state == RECOVERED):
        return error_codes.INVALID_REQUEST
    for member in isr:
        broker = state.image.brokers.get(member.broker_id)
        if broker is None or not broker.is_active or member.broker_epoch not in (ANY_EPOCH, broker.epoch):
            return error_codes.INELIGIBLE_REPLICA
    return error_codes.NONE


def elect_leaders(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Elect the preferred leaders of partitions, or any leader for partitions without one (KIP-183, KIP-460)."""
    message: ElectLeadersRequest = request.message
    asks_for_nothing = message.topic_partitions is not None and not message.topic_partitions
    if message.election_type not in (PREFERRED, UNCLEAN) and not asks_for_nothing:
        raise KafkaError(error_codes.INVALID_REQUEST, f"Unknown election type {message.election_type}")
    records: list[Any] = []
    results = []
    names_needless = message.topic_partitions is not None
    wanted: Iterable[tuple[str, Iterable[int]]] = (
        [(asked.topic, asked.partitions) for asked in message.topic_partitions]
        if message.topic_partitions is not None
        else [(topic.name, topic.partitions) for topic in state.image.topics.values()]
    )
    for name, partition_ids in wanted:
        outcomes = []
        for number, partition_id in enumerate(partition_ids):
            if not number % STEP:
                yield
            outcome = _elect(state, name, partition_id, message.election_type, records)
            if names_needless or outcome.error_code != error_codes.ELECTION_NOT_NEEDED:
                outcomes.append(outcome)
        results.append(ReplicaElectionResult(topic=name, partition_result=outcomes))
    return records, ElectLeadersResponse(throttle_time_ms=0, replica_election_results=results)


def _elect(
    state: ControllerState, topic_name: str, partition_id: int, election_type: int, records: list[Any]
) -> PartitionResult:
    try:
        records.append(_election(state, topic_name, partition_id, election_type))
    except KafkaError as error:
        return PartitionResult(partition_id=partition_id, error_code=error.code, error_message=error.message)
    return PartitionResult(error_code=error_codes.NONE, partition_id=partition_id, error_message=None)


def _election(state: ControllerState, topic_name: str, partition_id: int, election_type: int) -> Any:
    topic = state.image.topics.get(topic_name)
    if topic is None:
        raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic_name}")
    partition = topic.partitions.get(partition_id)
    if partition is None:
        message = f"No such partition as {topic_name}-{partition_id}"
        raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, message)
    if election_type == PREFERRED:
        needed = partition.leader != partition.preferred_leader
    else:
        needed = partition.leader == NO_LEADER
    if not needed:
        raise _plain(error_codes.ELECTION_NOT_NEEDED)
    change = state.change(topic, partition_id)
    change.election = Election.PREFERRED if election_type == PREFERRED else Election.UNCLEAN
    record = change.build()
    if record is None and election_type == PREFERRED:
        raise _plain(error_codes.PREFERRED_LEADER_NOT_AVAILABLE)
    if record is None:
        raise _plain(error_codes.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return record


def _plain(code: int) -> KafkaError:
    return KafkaError(code, error_codes.message(code))


def elect_preferred_leaders(state: ControllerState, limit: int) -> list[Any]:
    """Move up to ``limit`` partitions back to their preferred leaders (``auto.leader.rebalance.enable``)."""
    return _elect_each(state, state.index.displaced(), PREFERRED, limit)


def elect_unclean_leaders(state: ControllerState, limit: int) -> list[Any]:
    """Give up to ``limit`` leaderless partitions of topics that allow it any leader."""
    wanted = (found for found in state.index.leaderless() if state.unclean_election_allowed(found[0].name))
    return _elect_each(state, wanted, UNCLEAN, limit)


def _elect_each(state: ControllerState, wanted: Iterable[Found], election_type: int, limit: int) -> list[Any]:
    records: list[Any] = []
    for topic, partition_id, _ in wanted:
        if len(records) >= limit:
            break
        _elect(state, topic.name, partition_id, election_type, records)
    return records


def create_partitions(state: ControllerState, request: ControllerRequest, now_ms: int) -> Steps:
    """Add partitions to topics; existing partitions stay where they are."""
    message: CreatePartitionsRequest = request.message
    occurrences = yield from counted(wanted.name for wanted in message.topics)
    results = yield from refused_twice(
        occurrences,
        lambda name: CreatePartitionsTopicResult(
            name=name, error_code=error_codes.INVALID_REQUEST, error_message="Duplicate topic name."
        ),
    )
    once = yield from kept(message.topics, lambda wanted: occurrences[wanted.name] == 1)
    yield from _check_total_growth(state, once)
    quota = state.mutation_quota(request, now_ms, strict_from=STRICT_GROWTH_FROM)
    names = yield from kept(occurrences, state.image.topics.__contains__)
    allowance = yield from Allowance(state, request.principal).count([state.image.topics[name] for name in names])
    records: list[Any] = []
    for wanted in once:
        yield
        try:
            records += yield from _add_partitions(state, wanted, allowance, lambda count: quota.record(count, now_ms))
        except KafkaError as error:
            result = CreatePartitionsTopicResult(name=wanted.name, error_code=error.code, error_message=error.message)
        else:
            result = CreatePartitionsTopicResult(error_code=error_codes.NONE, name=wanted.name)
        results.append(result)
    return [] if message.validate_only else records, CreatePartitionsResponse(
        throttle_time_ms=quota.throttle_ms, results=results
    )


def _check_total_growth(state: ControllerState, topics: Sequence[CreatePartitionsTopic]) -> Generator[None, None, None]:
    total = 0
    for number, wanted in enumerate(topics):
        if number % STEP == LAST_OF_STEP:
            yield
        topic = state.image.topics.get(wanted.name)
        if topic is not None:
            total += max(wanted.count - len(topic.partitions), 0)
    if total > MAX_PARTITIONS_PER_REQUEST:
        message = "Excessively large number of additional partitions per request."
        raise KafkaError(error_codes.POLICY_VIOLATION, message)


def _add_partitions(
    state: ControllerState,
    wanted: CreatePartitionsTopic,
    allowance: Allowance,
    charge: Callable[[int], None],
) -> Generator[None, None, list[Any]]:
    topic = state.image.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if wanted.count == present:
        raise KafkaError(error_codes.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.count < present:
        raise KafkaError(
            error_codes.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an increase.",
        )
    additional = wanted.count - present
    replication_factor = len(topic.partitions[0].replicas)
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        raise KafkaError(
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
            "assignment(s) were specified.",
        )
    allowance.check_growth(topic, additional)
    charge(additional)
    allowance.grew(topic, additional)
    if wanted.assignments is None:
        partitions = yield from placed_partitions(state, additional, replication_factor)
    else:
        partitions = []
        for partition_id, assignment in enumerate(wanted.assignments, present):
            if partition_id % STEP == LAST_OF_STEP:
                yield
            partitions.append(assigned_partition(state, partition_id, assignment.broker_ids, replication_factor))
    added = yield from partition_records(state, topic.id, enumerate(partitions, present))
    return mirrored_topics.fenced(added, state.image.configs_of(TOPIC_RESOURCE, topic.name))
