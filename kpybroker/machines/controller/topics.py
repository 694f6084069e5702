"""CreateTopics and DeleteTopics (Kafka's ``ReplicationControlManager`` and the checks of ``ControllerApis``).

A request with several topics is one atomic batch; each topic succeeds or fails by itself. Records of a topic:
TopicRecord, its ConfigRecords, its PartitionRecords.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from kpybroker.machines.controller import mirrored_topics
from kpybroker.machines.controller.allowance import Allowance
from kpybroker.machines.controller.config_rules import MAX_VALUE_LENGTH
from kpybroker.machines.controller.in_steps import counted, kept, refused_twice
from kpybroker.machines.controller.placement import place
from kpybroker.machines.controller.state import LAST_OF_STEP, STEP, ControllerRequest, ControllerState, Steps
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import Partition
from kpybroker.machines.metadata.topic_name import CLUSTER_METADATA, reason_invalid
from kpywire import error_codes
from kpywire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kpywire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.uuid import ZERO_UUID

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
MAX_RECORDS_PER_REQUEST: Final = 10_000
STRICT_CREATION_FROM: Final = 6
STRICT_DELETION_FROM: Final = 5
"""The versions of requests from which on a quota of mutations refuses instead of only throttling (KIP-599)."""

_NAME: Final = attrgetter("name")


def create_topics(state: ControllerState, request: ControllerRequest, now_ms: int) -> Steps:
    """Create topics, or with ``validate_only`` only report what the request would do."""
    message: CreateTopicsRequest = request.message
    occurrences = yield from counted(map(_NAME, message.topics))
    wanted = yield from kept(
        message.topics, lambda topic: occurrences[topic.name] == 1 and topic.name != CLUSTER_METADATA
    )
    yield from _check_total_partitions(wanted, state.settings.default_partitions)
    quota = state.mutation_quota(request, now_ms, strict_from=STRICT_CREATION_FROM)
    allowance = yield from Allowance(state, request.principal).count()
    records: list[Any] = []
    results = []
    for topic in wanted:
        yield
        try:
            result, of_topic = yield from _create_topic(
                state, topic, allowance, lambda count: quota.record(count, now_ms)
            )
        except KafkaError as error:
            result = CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
        else:
            records += of_topic
        if len(records) > MAX_RECORDS_PER_REQUEST:
            raise KafkaError(error_codes.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        results.append(result)
    for number, (name, times) in enumerate(occurrences.items()):
        if number % STEP == LAST_OF_STEP:
            yield
        if times > 1:
            results.append(_invalid(name, "Duplicate topic name."))
        elif name == CLUSTER_METADATA:
            results.append(_invalid(name, f"Creation of internal topic {CLUSTER_METADATA} is prohibited."))
    return [] if message.validate_only else records, CreateTopicsResponse(
        throttle_time_ms=quota.throttle_ms, topics=results
    )


def _invalid(name: str, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error_codes.INVALID_REQUEST, error_message=message)


def _check_total_partitions(topics: Sequence[CreatableTopic], default_partitions: int) -> Generator[None, None, None]:
    """Check that they are few enough, those that could not be placed among them."""
    total = 0
    for number, topic in enumerate(topics):
        if number % STEP == LAST_OF_STEP:
            yield
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == -1:
            total += default_partitions
        else:
            total += max(topic.num_partitions, 0)
    if total > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(error_codes.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _create_topic(
    state: ControllerState, topic: CreatableTopic, allowance: Allowance, charge: Callable[[int], None]
) -> Generator[None, None, tuple[CreatableTopicResult, list[Any]]]:
    _check_name(state, topic.name)
    configs = _checked_configs(state, topic)
    source = mirrored_topics.named_source(state, topic.name, configs)
    if topic.assignments:
        partitions = yield from _assigned_partitions(state, topic)
    else:
        partitions = yield from _placed_partitions(state, topic)
    allowance.check_new(topic.name, len(partitions))
    charge(len(partitions))
    allowance.created(topic.name, len(partitions))
    topic_id = allowance.new_topic_id() if source is None else source.topic_id
    records = [
        TopicRecord(name=topic.name, topic_id=topic_id),
        *(
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
            for name, value in configs.items()
        ),
        *mirrored_topics.fenced((yield from partition_records(state, topic_id, partitions.items())), configs),
        *([] if source is None else mirrored_topics.distant_producer_ids(state)),
    ]
    result = CreatableTopicResult(
        error_code=error_codes.NONE,
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=_reported_configs(state, configs),
    )
    return result, records


def partition_records(
    state: ControllerState, topic_id: bytes, partitions: Iterable[tuple[int, Partition]]
) -> Generator[None, None, list[Any]]:
    """Return the records of new partitions, which are given by their numbers."""
    level, elr_enabled = state.image.level, state.image.elr_enabled
    records = []
    for number, (partition_id, partition) in enumerate(partitions):
        if number % STEP == LAST_OF_STEP:
            yield
        records.append(partition.to_record(topic_id, partition_id, level, elr_enabled=elr_enabled))
    return records


def _reported_configs(state: ControllerState, configs: dict[str, str]) -> list[CreatableTopicConfigs]:
    """The effective configs as the response shows them. Topics in a row with the same settings share one list."""
    effective = state.rules.effective_topic_configs(configs, *state.broker_configs())
    if state.reported_configs is not None and state.reported_configs[0] is effective:
        return state.reported_configs[1]
    reported = [
        CreatableTopicConfigs(
            read_only=False,
            name=config.name,
            value=None if config.is_sensitive else config.value,
            config_source=config.source,
            is_sensitive=config.is_sensitive,
        )
        for config in effective
    ]
    state.reported_configs = (effective, reported)
    return reported


def _check_name(state: ControllerState, name: str) -> None:
    invalid = reason_invalid(name)
    colliding = state.name_colliding_with(name)
    if name in state.image.topics:
        raise KafkaError(error_codes.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if colliding is not None:
        message = f"Topic '{name}' collides with existing topic: {colliding}"
        raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION, message)
    if invalid is not None:
        raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION, invalid)


def _checked_configs(state: ControllerState, topic: CreatableTopic) -> dict[str, str]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        message = "Null value not supported for topic configs: " + ",".join(without_value)
        raise KafkaError(error_codes.INVALID_CONFIG, message)
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    for value in configs.values():
        if len(value) > MAX_VALUE_LENGTH:
            raise KafkaError(
                error_codes.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{MAX_VALUE_LENGTH} bytes.",
            )
    if configs:
        state.rules.check(TOPIC_RESOURCE, topic.name, configs, {})
    return configs


def _assigned_partitions(state: ControllerState, topic: CreatableTopic) -> Generator[None, None, dict[int, Partition]]:
    if topic.replication_factor != -1:
        message = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise KafkaError(error_codes.INVALID_REQUEST, message)
    if topic.num_partitions != -1:
        message = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise KafkaError(error_codes.INVALID_REQUEST, message)
    partitions: dict[int, Partition] = {}
    replication_factor = None
    for number, assignment in enumerate(topic.assignments):
        if number % STEP == LAST_OF_STEP:
            yield
        partition_id = assignment.partition_index
        if partition_id in partitions:
            message = f"Found multiple manual partition assignments for partition {partition_id}"
            raise KafkaError(error_codes.INVALID_REPLICA_ASSIGNMENT, message)
        partitions[partition_id] = assigned_partition(state, partition_id, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
    if sorted(partitions) != list(range(len(partitions))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(error_codes.INVALID_REPLICA_ASSIGNMENT, message)
    return dict(sorted(partitions.items()))


def assigned_partition(
    state: ControllerState, partition_id: int, replicas: Sequence[int], replication_factor: int | None
) -> Partition:
    """Return a new partition on the brokers that a client named. Raises INVALID_REPLICA_ASSIGNMENT."""
    check_assignment(state, replicas, replication_factor)
    if not any(map(state.is_active, replicas)):
        raise KafkaError(
            error_codes.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {partition_id} are fenced or in "
            "controlled shutdown.",
        )
    return new_partition(state, replicas)


def check_assignment(state: ControllerState, replicas: Sequence[int], replication_factor: int | None = None) -> None:
    """Check whether partitions may be on the brokers that a client named. Raises INVALID_REPLICA_ASSIGNMENT."""
    problem = None
    if not replicas:
        problem = "includes an empty replica list."
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in state.image.brokers:
            problem = f"includes broker {broker_id}, but no such broker is registered."
            break
        if not state.image.brokers[broker_id].has_uncordoned_directory:
            problem = f"includes broker {broker_id}, but all its log directories are cordoned."
            break
        if broker_id == previous:
            problem = f"includes the broker {broker_id} more than once."
            break
        previous = broker_id
    if problem is None and replication_factor is not None and len(replicas) != replication_factor:
        problem = (
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )
    if problem is not None:
        raise KafkaError(error_codes.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}")


def _placed_partitions(state: ControllerState, topic: CreatableTopic) -> Generator[None, None, dict[int, Partition]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(error_codes.INVALID_REPLICATION_FACTOR, message)
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise KafkaError(error_codes.INVALID_PARTITIONS, message)
    settings = state.settings
    count = settings.default_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    try:
        return dict(enumerate((yield from placed_partitions(state, count, factor))))
    except KafkaError as error:
        if error.code == error_codes.INVALID_REPLICATION_FACTOR:
            message = f"Unable to replicate the partition {factor} time(s): {error.message}"
            raise KafkaError(error.code, message) from None
        raise


def placed_partitions(
    state: ControllerState, count: int, replication_factor: int
) -> Generator[None, None, list[Partition]]:
    """Return new partitions on brokers that the controller chooses. Raises INVALID_REPLICATION_FACTOR if there are too
    few."""
    partitions = []
    placed = place(state.usable_brokers(), count, replication_factor, state.rng)
    for number, replicas in enumerate(placed):
        if number % STEP == LAST_OF_STEP:
            yield
        if not any(map(state.is_active, replicas)):
            message = "All brokers are currently fenced or in controlled shutdown."
            raise KafkaError(error_codes.INVALID_REPLICATION_FACTOR, message)
        partitions.append(new_partition(state, replicas))
    return partitions


def new_partition(state: ControllerState, replicas: Sequence[int]) -> Partition:
    """A partition in epoch 0, in sync on those of its brokers that are active, led by the first of them."""
    isr = [broker_id for broker_id in replicas if state.is_active(broker_id)]
    directories = [state.default_directory(broker_id) for broker_id in replicas]
    return Partition(replicas, isr, isr[0], directories=directories)


def delete_topics(state: ControllerState, request: ControllerRequest, now_ms: int) -> Steps:
    """Delete topics, each named by its name or by its id."""
    message: DeleteTopicsRequest = request.message
    if not state.settings.delete_topics:
        if request.api_version < 3:
            raise KafkaError(error_codes.INVALID_REQUEST, "This version does not support topic deletion.")
        raise KafkaError(error_codes.TOPIC_DELETION_DISABLED, error_codes.message(error_codes.TOPIC_DELETION_DISABLED))
    names = yield from counted(message.topic_names)
    ids: Counter[bytes] = Counter()
    results = []
    for number, wanted in enumerate(message.topics):
        if number % STEP == LAST_OF_STEP:
            yield
        if wanted.name is None and wanted.topic_id == ZERO_UUID:
            results.append(_refusal(None, ZERO_UUID, "Neither topic name nor id were specified."))
        elif wanted.name is None:
            ids[wanted.topic_id] += 1
        elif wanted.topic_id == ZERO_UUID:
            names[wanted.name] += 1
        else:
            results.append(_refusal(wanted.name, wanted.topic_id, "You may not specify both topic name and topic id."))
    results += yield from refused_twice(names, lambda name: _refusal(name, ZERO_UUID, "Duplicate topic name."))
    results += yield from refused_twice(ids, lambda topic_id: _refusal(None, topic_id, "Duplicate topic id."))
    doomed: dict[bytes, str] = {}
    results += yield from _find_by_id(state, ids, doomed)
    results += yield from _find_by_name(state, names, ids, doomed)
    quota = state.mutation_quota(request, now_ms, strict_from=STRICT_DELETION_FROM)
    records = []
    for number, (topic_id, name) in enumerate(doomed.items()):
        if number % STEP == LAST_OF_STEP:
            yield
        try:
            quota.record(len(state.image.topics_by_id[topic_id].partitions), now_ms)
        except KafkaError as error:
            results.append(
                DeletableTopicResult(error_code=error.code, error_message=error.message, name=name, topic_id=topic_id)
            )
            continue
        results.append(DeletableTopicResult(error_code=error_codes.NONE, name=name, topic_id=topic_id))
        records.append(RemoveTopicRecord(topic_id=topic_id))
    return records, DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=results)


def _refusal(name: str | None, topic_id: bytes, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error_codes.INVALID_REQUEST, error_message=message
    )


def _missing(name: str | None, topic_id: bytes, code: int) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=error_codes.message(code))


def _find_by_id(
    state: ControllerState, ids: "Counter[bytes]", doomed: dict[bytes, str]
) -> Generator[None, None, list[DeletableTopicResult]]:
    missing = []
    for number, (topic_id, times) in enumerate(ids.items()):
        if number % STEP == LAST_OF_STEP:
            yield
        if times > 1:
            continue
        topic = state.image.topics_by_id.get(topic_id)
        if topic is None:
            missing.append(_missing(None, topic_id, error_codes.UNKNOWN_TOPIC_ID))
        else:
            doomed[topic_id] = topic.name
    return missing


def _find_by_name(
    state: ControllerState, names: "Counter[str]", ids: "Counter[bytes]", doomed: dict[bytes, str]
) -> Generator[None, None, list[DeletableTopicResult]]:
    refused = []
    for number, (name, times) in enumerate(names.items()):
        if number % STEP == LAST_OF_STEP:
            yield
        if times > 1:
            continue
        topic = state.image.topics.get(name)
        if topic is None:
            refused.append(_missing(name, ZERO_UUID, error_codes.UNKNOWN_TOPIC_OR_PARTITION))
        elif topic.id in ids:
            doomed.pop(topic.id, None)
            refused.append(_refusal(name, topic.id, "The provided topic name maps to an ID that was already supplied."))
        else:
            doomed[topic.id] = name
    return refused
