"""The records that a new active controller writes first (Kafka's ``ActivationRecordsGenerator``)."""

from collections.abc import Sequence
from typing import Any

from kpybroker.machines.controller import migration
from kpybroker.machines.controller.state import ControllerState
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.image import ELR_VERSION, PRE_MIGRATION
from kpywire.metadata_records.abort_transaction_record import AbortTransactionRecord
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord


def activation_records(state: ControllerState, bootstrap_records: list[Any]) -> list[Any]:
    """Return the record that aborts a transaction left half-written by an earlier controller, and the bootstrap records
    if the log is empty."""
    records: list[Any] = []
    if state.image.transaction_offset >= 0:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if state.image.metadata_version is not None:
        return [*records, *migration.records_of_activation(state)]
    in_transaction = bootstrap_level(bootstrap_records) >= metadata_version.TRANSACTIONS
    if in_transaction:
        records.append(BeginTransactionRecord(name="Bootstrap records"))
    records += bootstrap_records
    if state.settings.migrates_from_zookeeper:
        records.append(ZkMigrationStateRecord(zk_migration_state=PRE_MIGRATION))
    if bootstrap_levels(bootstrap_records).get(ELR_VERSION, 0) > 0:
        from kpybroker.machines.controller.configs import one_min_insync_replicas  # only for an empty log

        records += one_min_insync_replicas(state)
    if in_transaction:
        records.append(EndTransactionRecord())
    return records


def bootstrap_level(records: Sequence[Any]) -> int:
    """Return the level of ``metadata.version`` that bootstrap records finalise. Raises KeyError if they finalise
    none."""
    return bootstrap_levels(records)[metadata_version.FEATURE_NAME]


def bootstrap_levels(records: Sequence[Any]) -> dict[str, int]:
    """Return the levels of features that bootstrap records finalise."""
    return {record.name: record.feature_level for record in records if type(record) is FeatureLevelRecord}
