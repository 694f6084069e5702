"""The part of the controller in a migration from ZooKeeper (KIP-866): which requests and brokers it admits, and how the
migration ends.

Until the metadata of ZooKeeper are copied, the controller only registers nodes. A migration ends when a controller
becomes active that is not configured for it any more; that cannot be undone.
"""

from typing import Any, Final, NamedTuple

from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import MIGRATION, POST_MIGRATION, PRE_MIGRATION, MetadataImage
from kpywire import error_codes
from kpywire.messages.broker_registration import BrokerRegistrationRequest
from kpywire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord


class Copied(NamedTuple):
    """A part of what was copied from ZooKeeper, in the place of a request."""

    records: list[Any]


_ADMITTED_BEFORE: Final = (
    "Copied",
    "BrokerHeartbeatRequest",
    "BrokerRegistrationRequest",
    "ControllerRegistrationRequest",
    "ReportingHeartbeatRequest",
    "UnregisterBrokerRequest",
)
"""The classes of requests that are decided before the metadata are copied (Kafka's ``RUNS_IN_PREMIGRATION``)."""


def check_request(state: ControllerState, kind: str) -> None:
    """Refuse a request that has to wait for the metadata of ZooKeeper."""
    if state.image.zk_migration_state == PRE_MIGRATION and kind not in _ADMITTED_BEFORE:
        raise KafkaError(error_codes.NOT_CONTROLLER, "The controller is in pre-migration mode.")


def check_broker(state: ControllerState, message: BrokerRegistrationRequest) -> None:
    """Refuse brokers in ZooKeeper mode unless there is a migration, and others until the metadata are copied."""
    if message.is_migrating_zk_broker and not state.is_migrating:
        text = "Controller does not support registering ZK brokers."
        raise KafkaError(error_codes.BROKER_ID_NOT_REGISTERED, text)
    if not message.is_migrating_zk_broker and state.image.zk_migration_state == PRE_MIGRATION:
        text = (
            "Controller is in pre-migration mode and cannot register KRaft brokers until the metadata migration is "
            "complete."
        )
        raise KafkaError(error_codes.BROKER_ID_NOT_REGISTERED, text)


def copied(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Write records that were copied. The response is the offset after them."""
    message: Copied = request.message
    return message.records, state.next_write_offset() + len(message.records)


def left_behind(image: MetadataImage) -> list[int]:
    """The brokers in ZooKeeper mode that would have no controller any more if the migration ended now."""
    if image.zk_migration_state != MIGRATION:
        return []
    return sorted(each.id for each in image.brokers.values() if each.is_migrating_zk_broker and not each.fenced)


def records_of_activation(state: ControllerState) -> list[Any]:
    """The record that ends the migration, if this controller is not configured for it any more."""
    if state.image.zk_migration_state == MIGRATION and not state.settings.migrates_from_zookeeper:
        return [ZkMigrationStateRecord(zk_migration_state=POST_MIGRATION)]
    return []
