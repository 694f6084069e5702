"""Registration, heartbeats, fencing and controlled shutdown (Kafka's ``ClusterControlManager`` and parts of the
replication's).

The epoch of a broker is the offset of its registration. It starts fenced, is unfenced once it has read its own
registration, and is fenced again when it falls silent; then its leaderships move. Heartbeats themselves are not in
the log.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar

from kpybroker.machines.controller import migration
from kpybroker.machines.controller.heartbeats import BrokerSession
from kpybroker.machines.controller.partition_change import Election, PartitionChange
from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.broker import BrokerRegistration, FeatureRange
from kpybroker.machines.metadata.topic import Partition, Topic, directory_is_reserved
from kpywire import error_codes, uuid
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kpywire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kpywire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from kpywire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kpywire.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from kpywire.metadata_records.unregister_broker_record import UnregisterBrokerRecord

FENCE = 1
UNFENCE = -1
IN_CONTROLLED_SHUTDOWN = 1
MOST_LEFT_AT_ONCE = 1_000
"""The partitions that a silent broker leaves in one decision, which takes some hundredths of a second."""


def register_broker(state: ControllerState, request: ControllerRequest, now_ms: int) -> Decision:
    """Register a broker, or a new incarnation of it, or update the registration of the present incarnation."""
    message: BrokerRegistrationRequest = request.message
    cluster_id = state.image.cluster_id
    if message.cluster_id != cluster_id:
        text = f"Expected cluster ID {cluster_id}, but got cluster ID {message.cluster_id}"
        raise KafkaError(error_codes.INCONSISTENT_CLUSTER_ID, text)
    existing = state.image.brokers.get(message.broker_id)
    same_incarnation = existing is not None and existing.incarnation_id == message.incarnation_id
    if existing is not None and not same_incarnation:
        _check_session_is_over(state, existing, message, now_ms)
    migration.check_broker(state, message)
    with_directories = state.image.level >= metadata_version.DIRECTORY_ASSIGNMENT
    if with_directories:
        _check_directories(state, message)
    _check_features(state, message)
    epoch = state.next_write_offset()
    record = _registration(message, with_directories=with_directories)
    records: list[Any] = []
    if existing is not None and same_incarnation:
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
        epoch = existing.epoch
    else:
        clean = existing is not None and existing.epoch == message.previous_broker_epoch
        records += _leave_in_sync_sets(state, message.broker_id, clean=clean)
    record.broker_epoch = epoch
    records.append(record)
    return records, BrokerRegistrationResponse(throttle_time_ms=0, error_code=error_codes.NONE, broker_epoch=epoch)


def _check_session_is_over(
    state: ControllerState, existing: BrokerRegistration, message: BrokerRegistrationRequest, now_ms: int
) -> None:
    """Refuse a registration while another incarnation's session lasts.

    A new incarnation need not wait if it holds the log directories of one that has no connection any more. A process
    locks its log directories for as long as it lives, so the old incarnation has ended. Kafka waits for its session to
    end.
    """
    session = BrokerSession(existing.id, existing.epoch)
    holds_its_directories = existing.directories and set(existing.directories) == set(message.log_dirs)
    if holds_its_directories and not state.heartbeats.is_connected(session):
        return
    if state.heartbeats.has_valid_session(session, now_ms):
        raise KafkaError(
            error_codes.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session.",
        )


def _registration(message: BrokerRegistrationRequest, *, with_directories: bool) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_epoch=-1,
        broker_id=message.broker_id,
        is_migrating_zk_broker=message.is_migrating_zk_broker,
        incarnation_id=message.incarnation_id,
        rack=message.rack,
        end_points=_endpoints(message, BrokerEndpoint),
        features=_features(message, BrokerFeature),
        log_dirs=list(message.log_dirs) if with_directories else [],
    )


_Registration = BrokerRegistrationRequest | ControllerRegistrationRequest
_T = TypeVar("_T")


def _endpoints(message: _Registration, record_class: Callable[..., _T]) -> list[_T]:
    """The endpoints of a broker or controller, as listed in its record."""
    return [
        record_class(
            name=listener.name, host=listener.host, port=listener.port, security_protocol=listener.security_protocol
        )
        for listener in message.listeners
    ]


def _features(message: _Registration, record_class: Callable[..., _T]) -> list[_T]:
    """The features that a broker or controller supports, as listed in its record."""
    return [
        record_class(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in message.features
    ]


def _check_directories(state: ControllerState, message: BrokerRegistrationRequest) -> None:
    problem = None
    if not message.log_dirs:
        problem = "No directories specified in request"
    elif any(map(directory_is_reserved, message.log_dirs)):
        problem = "Reserved directory ID in request"
    elif len(set(message.log_dirs)) != len(message.log_dirs):
        problem = "Duplicate directory ID in request"
    else:
        owners = {directory: broker.id for broker in state.image.brokers.values() for directory in broker.directories}
        for directory in message.log_dirs:
            owner = owners.get(directory, message.broker_id)
            if owner != message.broker_id:
                problem = f"Broker {owner} is already registered with directory {uuid.to_string(directory)}"
                break
    if problem is not None:
        raise KafkaError(error_codes.INVALID_REGISTRATION, problem)


def _check_features(state: ControllerState, message: BrokerRegistrationRequest) -> None:
    """Check that the broker supports every finalised feature. A feature that it does not list is supported at level 0
    only."""
    finalized = state.image.finalized_features
    offered = {
        feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
        for feature in message.features
    }
    for name, levels in [*offered.items(), *((name, FeatureRange(0, 0)) for name in finalized if name not in offered)]:
        if name == metadata_version.FEATURE_NAME and name not in offered:
            text = f"Request features do not contain '{metadata_version.FEATURE_NAME}'"
            raise KafkaError(error_codes.INVALID_REGISTRATION, text)
        level = finalized.get(name, 0)
        if level not in levels:
            raise KafkaError(
                error_codes.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. The "
                f"broker wants a version between {levels.lowest} and {levels.highest}, inclusive.",
            )


def _leave_in_sync_sets(state: ControllerState, broker_id: int, *, clean: bool) -> list[Any]:
    """Take a new incarnation out of in-sync sets, because it may lack what the earlier one had. After an unclean stop
    it leaves the eligible replicas too."""
    unclean = state.image.elr_enabled and not clean
    if not unclean:
        return _leave_all(state, broker_id)

    def held(_topic: Topic, _id: int, partition: Partition) -> bool:
        return broker_id in partition.isr or broker_id in partition.elr

    return leave_partitions(state, broker_id, held, unclean_shutdown=True)


def leave_partitions(
    state: ControllerState,
    broker_id: int,
    concerns: Callable[[Topic, int, Partition], bool],
    *,
    unclean_shutdown: bool = False,
    most: int | None = None,
) -> list[Any]:
    """Take a broker out of the ISR of partitions, electing other leaders where it led; of ``most`` partitions, if that
    is given."""
    records: list[Any] = []
    for topic, partition_id, partition in state.index.held_by(broker_id):
        if len(records) == most:
            break
        if not concerns(topic, partition_id, partition):
            continue
        change = state.change(topic, partition_id, lambda other: other != broker_id and state.is_active(other))
        change.isr = [replica for replica in partition.isr if replica != broker_id]
        if unclean_shutdown:
            change.unclean_shutdown_replicas = [broker_id]
        records += _records_of(state, topic, change)
    return records


def _records_of(state: ControllerState, topic: Topic, change: PartitionChange) -> list[Any]:
    """The record of a change that may elect another leader, any leader if the topic prefers that to none."""
    if state.unclean_election_allowed(topic.name):
        change.election = Election.UNCLEAN
    record = change.build()
    return [] if record is None else [record]


def _elect_with(state: ControllerState, broker_id: int) -> list[Any]:
    """Elect a leader for partitions without one, now that a broker is back."""
    records: list[Any] = []
    for topic, partition_id, _ in state.index.leaderless():
        change = state.change(topic, partition_id, lambda other: other == broker_id or state.is_active(other))
        records += _records_of(state, topic, change)
    return records


def fence(state: ControllerState, broker: BrokerRegistration) -> list[Any]:
    """Return the records that fence a broker: first those of its partitions, then its own."""
    return [*_leave_all(state, broker.id), _fenced(broker)]


def _leave_all(state: ControllerState, broker_id: int, most: int | None = None) -> list[Any]:
    return leave_partitions(state, broker_id, lambda _topic, _id, partition: broker_id in partition.isr, most=most)


def _fenced(broker: BrokerRegistration) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE)


def fence_stale_broker(state: ControllerState, now_ms: int) -> tuple[list[Any], bool]:
    """Fence one broker that fell silent, or begin to: it leaves some of its partitions first. Return the records, and
    whether there may be more to do."""
    session = state.heartbeats.expired(now_ms)
    if session is None:
        return [], False
    broker = state.image.brokers.get(session.broker_id)
    if broker is not None and broker.epoch == session.broker_epoch and not broker.fenced:
        records = _leave_all(state, broker.id, MOST_LEFT_AT_ONCE)
        if len(records) == MOST_LEFT_AT_ONCE:
            return records, True
        records.append(_fenced(broker))
    else:
        records = []
    state.heartbeats.forget_session(session)
    return records, True


class _Condition(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "may shut down"


def heartbeat(state: ControllerState, request: ControllerRequest, now_ms: int) -> Decision:
    """Note that a broker lives, and grant its request to be unfenced, fenced or shut down."""
    message: BrokerHeartbeatRequest = request.message
    session = BrokerSession(message.broker_id, message.broker_epoch)
    state.heartbeats.contact(session, now_ms)
    broker = state.broker(*session)
    state.heartbeats.note_silent(broker.id, {})
    now = _condition(state, broker)
    after = _next_condition(state, broker, now, message)
    records: list[Any] = []
    if after is not now:
        records += _transition(state, broker, after)
    fenced = after in (_Condition.FENCED, _Condition.SHUTDOWN_NOW)
    state.heartbeats.touch(broker.id, message.current_metadata_offset, fenced=fenced)
    if state.image.level >= metadata_version.DIRECTORY_ASSIGNMENT:
        records += _directories_offline(state, broker, message.offline_log_dirs)
    if state.image.level >= metadata_version.CORDONED_LOG_DIRS:
        records += _directories_cordoned(broker, message.cordoned_log_dirs)
    if after is _Condition.CONTROLLED_SHUTDOWN:
        state.heartbeats.begin_controlled_shutdown(broker.id, state.next_write_offset() + len(records))
    response = BrokerHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        is_caught_up=message.current_metadata_offset >= broker.registered_offset,
        is_fenced=fenced,
        should_shut_down=after is _Condition.SHUTDOWN_NOW,
    )
    return records, response


def _condition(state: ControllerState, broker: BrokerRegistration) -> _Condition:
    if state.heartbeats.is_shutting_down(broker.id):
        return _Condition.CONTROLLED_SHUTDOWN
    return _Condition.FENCED if broker.fenced else _Condition.UNFENCED


def _next_condition(
    state: ControllerState, broker: BrokerRegistration, now: _Condition, message: BrokerHeartbeatRequest
) -> _Condition:
    if now is _Condition.FENCED:
        if message.want_shut_down:
            return _Condition.SHUTDOWN_NOW
        caught_up = message.current_metadata_offset >= broker.registered_offset
        return _Condition.UNFENCED if caught_up and not message.want_fence else _Condition.FENCED
    if now is _Condition.UNFENCED:
        if message.want_fence:
            return _Condition.SHUTDOWN_NOW if message.want_shut_down else _Condition.FENCED
        if not message.want_shut_down:
            return _Condition.UNFENCED
        return _Condition.CONTROLLED_SHUTDOWN if state.index.leads_any(broker.id) else _Condition.SHUTDOWN_NOW
    if state.index.leads_any(broker.id):
        return _Condition.CONTROLLED_SHUTDOWN
    active = [
        other.id
        for other in state.image.brokers.values()
        if not other.fenced and not state.heartbeats.is_shutting_down(other.id)
    ]
    lowest = state.heartbeats.lowest_offset(active)
    if lowest is None or state.heartbeats.controlled_shutdown_offset(broker.id) <= lowest:
        return _Condition.SHUTDOWN_NOW
    return _Condition.CONTROLLED_SHUTDOWN


def _transition(state: ControllerState, broker: BrokerRegistration, after: _Condition) -> list[Any]:
    if after in (_Condition.FENCED, _Condition.SHUTDOWN_NOW):
        return fence(state, broker)
    if after is _Condition.UNFENCED:
        record = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE)
        return [record, *_elect_with(state, broker.id)]
    records: list[Any] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
            )
        )
    return records + _leave_all(state, broker.id)


def _directories_offline(state: ControllerState, broker: BrokerRegistration, offline: Iterable[bytes]) -> list[Any]:
    newly_offline = [directory for directory in broker.directories if directory in set(offline)]
    if not newly_offline:
        return []

    def lived_there(_topic: Topic, _id: int, partition: Partition) -> bool:
        return any(
            replica == broker.id and directory in newly_offline
            for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        )

    online = [directory for directory in broker.directories if directory not in newly_offline]
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online)
    return [*leave_partitions(state, broker.id, lived_there), change]


def _directories_cordoned(broker: BrokerRegistration, cordoned: list[bytes] | None) -> list[Any]:
    """Note which directories take no new replicas (KIP-1066). The record has null until the broker has reported them
    for the first time."""
    if cordoned is None:
        return []
    known = broker.cordoned_directories
    if known is not None and set(known) == set(cordoned):
        return []
    return [
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned))
    ]


def register_controller(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Note where a controller listens and which features it supports (KIP-919)."""
    message: ControllerRegistrationRequest = request.message
    if state.image.level < metadata_version.CONTROLLER_REGISTRATION:
        text = "The current MetadataVersion is too old to support controller registrations."
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, text)
    record = RegisterControllerRecord(
        controller_id=message.controller_id,
        incarnation_id=message.incarnation_id,
        zk_migration_ready=message.zk_migration_ready,
        end_points=_endpoints(message, ControllerEndpoint),
        features=_features(message, ControllerFeature),
    )
    response = ControllerRegistrationResponse(throttle_time_ms=0, error_code=error_codes.NONE, error_message="")
    return [record], response


def unregister_broker(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Forget a broker; it must register again to come back (KIP-730)."""
    message: UnregisterBrokerRequest = request.message
    broker = state.image.brokers.get(message.broker_id)
    if broker is None:
        text = f"Broker ID {message.broker_id} is not currently registered"
        raise KafkaError(error_codes.BROKER_ID_NOT_REGISTERED, text)

    def held(_topic: Topic, _id: int, partition: Partition) -> bool:
        return broker.id in partition.isr or broker.id in partition.elr

    records = leave_partitions(state, broker.id, held)
    records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    return records, UnregisterBrokerResponse(throttle_time_ms=0, error_code=error_codes.NONE, error_message="")
