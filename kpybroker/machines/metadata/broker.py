"""A broker and a controller as they registered themselves (Kafka's ``BrokerRegistration``, ``ControllerRegistration``).

Neither object is ever changed: a change record makes another one.

A broker that reports silent peers shows it by its incarnation id, which Apache Kafka's controllers keep as they keep
any other. Apache Kafka's own ids are random UUIDs of version 4, which never have this form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.topic import directory_is_online
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from kpywire.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

_MARK: Final = b"kpyb"
_NO_UUID_VERSION: Final = 0xF0
"""The highest four bits of the seventh byte, where a UUID has its version."""


def reporting_incarnation(random_id: bytes) -> bytes:
    """The incarnation id of a broker that reports silent peers, made of 16 random bytes."""
    return _MARK + random_id[4:6] + bytes((_NO_UUID_VERSION | random_id[6],)) + random_id[7:]


class Endpoint(NamedTuple):
    """An address where a node listens."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    """The range of levels of one feature that a node supports, both ends included."""

    lowest: int
    highest: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.lowest <= level <= self.highest


class BrokerRegistration:
    """One registered broker. ``registered_offset`` is the offset of its last RegisterBrokerRecord."""

    __slots__ = (
        "cordoned_directories",
        "directories",
        "epoch",
        "features",
        "fenced",
        "id",
        "in_controlled_shutdown",
        "incarnation_id",
        "is_migrating_zk_broker",
        "listeners",
        "rack",
        "registered_offset",
    )

    def __init__(self, record: RegisterBrokerRecord, offset: int) -> None:
        self.id = record.broker_id
        self.epoch = record.broker_epoch
        self.incarnation_id = record.incarnation_id
        self.listeners: Mapping[str, Endpoint] = {
            point.name: Endpoint(point.name, point.host, point.port, point.security_protocol)
            for point in record.end_points
        }
        self.features: Mapping[str, FeatureRange] = {
            feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
            for feature in record.features
        }
        self.rack = record.rack
        self.fenced = record.fenced
        self.in_controlled_shutdown = record.in_controlled_shutdown
        self.is_migrating_zk_broker = record.is_migrating_zk_broker
        self.directories: Sequence[bytes] = tuple(record.log_dirs)
        self.cordoned_directories = None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs)
        self.registered_offset = offset

    def merge(self, record: BrokerRegistrationChangeRecord) -> "BrokerRegistration":
        """Return this broker with a BrokerRegistrationChangeRecord applied."""
        return self.changed(
            fenced={-1: False, 0: None, 1: True}[record.fenced],
            in_controlled_shutdown={0: None, 1: True}[record.in_controlled_shutdown],
            directories=record.log_dirs or None,
            cordoned_directories=record.cordoned_log_dirs,
        )

    def changed(
        self,
        *,
        fenced: bool | None = None,
        in_controlled_shutdown: bool | None = None,
        directories: Sequence[bytes] | None = None,
        cordoned_directories: Sequence[bytes] | None = None,
    ) -> "BrokerRegistration":
        """Return a copy with the given fields changed; None leaves a field as it is."""
        copy = BrokerRegistration.__new__(BrokerRegistration)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        if fenced is not None:
            copy.fenced = fenced
        if in_controlled_shutdown is not None:
            copy.in_controlled_shutdown = in_controlled_shutdown
        if directories is not None:
            copy.directories = tuple(directories)
        if cordoned_directories is not None:
            copy.cordoned_directories = tuple(cordoned_directories)
        return copy

    @property
    def is_active(self) -> bool:
        """Whether it may lead: neither fenced nor shutting down."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def reports_silence(self) -> bool:
        """The broker reports silent peers, and may be fenced because of such reports."""
        return self.incarnation_id.startswith(_MARK) and self.incarnation_id[6] >= _NO_UUID_VERSION

    def can_use(self, directory: bytes) -> bool:
        """Whether the log directory that holds one of its replicas works."""
        return directory_is_online(directory, self.directories)

    @property
    def has_uncordoned_directory(self) -> bool:
        """Whether a new replica may be placed on it (KIP-1066)."""
        if not self.directories or self.cordoned_directories is None:
            return True
        return any(directory not in self.cordoned_directories for directory in self.directories)

    def to_record(self, level: int) -> RegisterBrokerRecord:
        """The RegisterBrokerRecord that describes this broker at a level of ``metadata.version``."""
        with_directories = level >= metadata_version.DIRECTORY_ASSIGNMENT
        cordoned = self.cordoned_directories
        if level < metadata_version.CORDONED_LOG_DIRS:
            cordoned = None
        return RegisterBrokerRecord(
            broker_id=self.id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=_endpoints(self, BrokerEndpoint),
            features=_features(self, BrokerFeature),
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.directories) if with_directories else [],
            cordoned_log_dirs=None if cordoned is None else list(cordoned),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BrokerRegistration):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "registered_offset"
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Broker(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__) + ")"


class ControllerRegistration(NamedTuple):
    """One registered controller (KIP-919)."""

    id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, FeatureRange]

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> "ControllerRegistration":
        """The controller that a RegisterControllerRecord describes."""
        return cls(
            record.controller_id,
            record.incarnation_id,
            record.zk_migration_ready,
            {
                point.name: Endpoint(point.name, point.host, point.port, point.security_protocol)
                for point in record.end_points
            },
            {
                feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
                for feature in record.features
            },
        )

    def to_record(self) -> RegisterControllerRecord:
        """The RegisterControllerRecord that describes this controller."""
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=_endpoints(self, ControllerEndpoint),
            features=_features(self, ControllerFeature),
        )


_T = TypeVar("_T")


def _endpoints(node: BrokerRegistration | ControllerRegistration, record_class: Callable[..., _T]) -> list[_T]:
    return [
        record_class(name=name, host=host, port=port, security_protocol=protocol)
        for name, host, port, protocol in node.listeners.values()
    ]


def _features(node: BrokerRegistration | ControllerRegistration, record_class: Callable[..., _T]) -> list[_T]:
    return [
        record_class(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
        for name, levels in node.features.items()
    ]
