"""AlterConfigs and IncrementalAlterConfigs (Kafka's ``ConfigurationControlManager``).

Each resource succeeds or fails by itself; all that succeed form one batch. A value of a broker that is set again is
written again, because brokers take that as "read your files again" (KAFKA-14136).
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kpybroker.machines.config_def import edited_list, edited_list_in_steps
from kpybroker.machines.controller import mirrored_topics
from kpybroker.machines.controller.config_rules import MAX_VALUE_LENGTH
from kpybroker.machines.controller.state import (
    LAST_OF_STEP,
    MIN_INSYNC_REPLICAS,
    STEP,
    ControllerRequest,
    ControllerState,
    Steps,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata import mirror_configs
from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.runtime.calls.scattered import Scattered
from kpywire import error_codes
from kpywire.messages import alter_configs as legacy
from kpywire.messages import incremental_alter_configs as incremental
from kpywire.metadata_records.clear_elr_record import ClearElrRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord

BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
KNOWN_RESOURCES = {TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE}

LONG_VALUE = 4_096
"""A list whose text is longer than this, in characters, is edited in steps."""
SET, DELETE, APPEND, SUBTRACT = range(4)
_OPERATION_NAMES = ("SET", "DELETE", "APPEND", "SUBTRACT")

Alterations = dict[str, str | None]
"""The new value of each config that a request names; None deletes it."""


class _Resource(Protocol):
    resource_type: int
    resource_name: str
    configs: list[Any]


def alter_configs(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Replace all configs of the named resources; configs that the request does not name are deleted.
    Those of a mirror stay: nobody ends one by this."""
    message: legacy.AlterConfigsRequest = request.message

    def wanted(resource: _Resource, current: Mapping[str, str]) -> Generator[None, None, Alterations]:
        alterations: Alterations = {config.name: config.value for config in resource.configs}
        yield
        kept = (*alterations, *(name for name in current if name.startswith(mirror_configs.PREFIX)))
        return {**alterations, **dict.fromkeys(name for name in current if name not in kept)}

    records, responses = yield from _alter(state, message.resources, wanted, legacy.AlterConfigsResourceResponse)
    return [] if message.validate_only else records, legacy.AlterConfigsResponse(
        throttle_time_ms=0, responses=responses
    )


def incremental_alter_configs(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Change single configs of resources (KIP-339)."""
    message: incremental.IncrementalAlterConfigsRequest = request.message

    def wanted(resource: _Resource, current: Mapping[str, str]) -> Generator[None, None, Alterations]:
        alterations: Alterations = {}
        for number, config in enumerate(resource.configs):
            if number % STEP == LAST_OF_STEP:
                yield
            before = current.get(config.name)
            alterations[config.name] = yield from _operate(state, resource.resource_type, config, before)
            if len(config.value or "") > LONG_VALUE:
                yield
        return alterations

    records, responses = yield from _alter(state, message.resources, wanted, incremental.AlterConfigsResourceResponse)
    return [] if message.validate_only else records, incremental.IncrementalAlterConfigsResponse(
        throttle_time_ms=0, responses=responses
    )


def _operate(
    state: ControllerState, resource_type: int, config: incremental.AlterableConfig, current: str | None
) -> Generator[None, None, str | None]:
    operation = config.config_operation
    if operation == SET:
        return config.value
    if operation == DELETE:
        return None
    if operation not in (APPEND, SUBTRACT):
        raise KafkaError(error_codes.INVALID_REQUEST, f"Unknown operations type {operation}")
    if not state.rules.is_list(resource_type, config.name):
        raise KafkaError(
            error_codes.INVALID_CONFIG,
            f"Can't {_OPERATION_NAMES[operation]} to key {config.name} because its type is not LIST.",
        )
    if current is None:
        current = state.rules.default(resource_type, config.name)
    subtracts = operation == SUBTRACT
    if len(config.value or "") <= LONG_VALUE:
        return edited_list(current or "", config.value or "", subtracts=subtracts)
    return (yield from edited_list_in_steps(current or "", config.value or "", subtracts=subtracts))


def _alter(
    state: ControllerState,
    resources: Sequence[_Resource],
    wanted: Callable[[_Resource, Mapping[str, str]], Generator[None, None, Alterations]],
    response_class: type[Any],
) -> Generator[None, None, tuple[list[Any], list[Any]]]:
    """Return the records of all alterations, and the response for each resource."""
    times: Scattered[tuple[int, str], int] = Scattered()
    for number, resource in enumerate(resources):
        if number % STEP == LAST_OF_STEP:
            yield
        key = resource.resource_type, resource.resource_name
        times[key] = times.get(key, 0) + 1
    records: list[Any] = []
    responses: list[Any] = []
    for resource in resources:
        yield
        key = resource_type, name = resource.resource_type, resource.resource_name
        named, times[key] = times[key], 0
        if not named:
            continue  # it was answered where it came first
        code, text = error_codes.NONE, None
        try:
            if resource_type not in KNOWN_RESOURCES:
                raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"Unknown resource type {resource_type}.")
            if named > 1:
                raise KafkaError(error_codes.INVALID_REQUEST, "Duplicate resource.")
            current = state.image.configs_of(resource_type, name)
            alterations = yield from wanted(resource, current)
            records += yield from _records(state, resource_type, name, current, alterations)
        except KafkaError as error:
            code, text = error.code, error.message
        responses.append(
            response_class(resource_type=resource_type, resource_name=name, error_code=code, error_message=text)
        )
    yield from times.emptied()
    return records + _clear_elr(state, records), responses


def _records(
    state: ControllerState,
    resource_type: int,
    name: str,
    current: Mapping[str, str],
    alterations: Alterations,
) -> Generator[None, None, list[Any]]:
    after: dict[str, str | None] = dict(current)
    records: list[Any] = []
    for number, (config, value) in enumerate(alterations.items()):
        if number % STEP == LAST_OF_STEP:
            yield
        if value == current.get(config) and resource_type != BROKER_RESOURCE:
            continue
        _check_min_insync_replicas(state, resource_type, name, config, value)
        if value is None:
            after.pop(config, None)
        elif len(value) > MAX_VALUE_LENGTH:
            raise KafkaError(
                error_codes.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{MAX_VALUE_LENGTH} bytes.",
            )
        else:
            after[config] = value
        records.append(ConfigRecord(resource_type=resource_type, resource_name=name, name=config, value=value))
    yield
    state.rules.check(resource_type, name, after, current)
    _check_exists(state, resource_type, name)
    if resource_type == TOPIC_RESOURCE:
        records += mirrored_topics.alteration(state, name, current, after)
    elif resource_type == BROKER_RESOURCE and mirror_configs.mirror_names(after):
        records += mirrored_topics.distant_producer_ids(state)
    return records


def _check_exists(state: ControllerState, resource_type: int, name: str) -> None:
    if resource_type == TOPIC_RESOURCE and name not in state.image.topics:
        raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if resource_type == BROKER_RESOURCE and name:
        node_id = int(name)
        known = node_id in state.image.brokers or node_id in state.image.controllers
        if not known and node_id != state.settings.node_id:
            raise KafkaError(error_codes.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")


def _check_min_insync_replicas(
    state: ControllerState, resource_type: int, name: str, config: str, value: str | None
) -> None:
    """With eligible leader replicas, ``min.insync.replicas`` must be one and the same for all brokers (KIP-966)."""
    if config != MIN_INSYNC_REPLICAS or resource_type != BROKER_RESOURCE or not state.image.elr_enabled:
        return
    if name:
        message = f"Broker-level {config} cannot be altered while ELR is enabled."
        raise KafkaError(error_codes.INVALID_CONFIG, message)
    if value is None:
        message = f"Cluster-level {config} cannot be removed while ELR is enabled."
        raise KafkaError(error_codes.INVALID_CONFIG, message)


def one_min_insync_replicas(state: ControllerState) -> list[ConfigRecord]:
    """Return the alterations that make ``min.insync.replicas`` one and the same for all brokers
    (``maybeGenerateElrSafetyRecords``).

    All brokers together get a value of their own if they have none yet: the static value of this node. Single brokers
    lose theirs.
    """
    records = []
    if MIN_INSYNC_REPLICAS not in state.image.configs_of(BROKER_RESOURCE, ""):
        records.append(_min_insync_replicas("", str(state.settings.bootstrap_min_insync_replicas)))
    return records + [
        _min_insync_replicas(name, None)
        for (resource_type, name), configs in state.image.configs.items()
        if resource_type == BROKER_RESOURCE and name and MIN_INSYNC_REPLICAS in configs
    ]


def _min_insync_replicas(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value)


def _clear_elr(state: ControllerState, records: Iterable[Any]) -> list[Any]:
    """Forget the eligible replicas, which were judged by the old ``min.insync.replicas``. A partition without a leader
    keeps one."""
    if not state.image.elr_enabled:
        return []
    names = [
        record.resource_name if record.resource_type == TOPIC_RESOURCE else ""
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
    ]
    return [ClearElrRecord(topic_name=name) for name in names] + _still_eligible(state, set(names))


def _still_eligible(state: ControllerState, names: set[str]) -> list[PartitionChangeRecord]:
    """Choose the replica that may still lead a partition without an in-sync set. Kafka forgets it too, and then no
    replica may ever lead.

    Nothing is committed while there is no leader, so every eligible replica has everything, whatever the minimum is
    now. Only one stays eligible, since a leader may be enough alone from now on. If that one stops uncleanly it does
    not lead, although other replicas had everything too.
    """
    kept = []
    for topic, partition_id, partition in state.index.leaderless():
        if partition.isr or not names & {"", topic.name} or not (partition.elr or partition.last_known_elr):
            continue
        record = PartitionChangeRecord(topic_id=topic.id, partition_id=partition_id)
        if len(partition.elr) > 1:
            last = [replica for replica in partition.last_known_elr if replica in partition.elr]
            record.eligible_leader_replicas = (last or list(partition.elr))[:1]
        else:
            record.eligible_leader_replicas = list(partition.elr)
            record.last_known_elr = list(partition.last_known_elr)
        kept.append(record)
    return kept
