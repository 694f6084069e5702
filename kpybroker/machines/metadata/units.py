"""Splits many records in a row into units: records that take effect together, prepared beforehand.

A batch of thousands of records is applied unit by unit, and readers may look at the image in between. So a unit holds
records that must not be seen in part: a topic with its configs and partitions, the partitions added to a topic, all
configs of a resource. The partitions of a unit are made before it is applied, so that applying it takes no step for
each of them.

Invariant: applying all units of some records is the same as applying these records, if their partitions are new.
"""

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.machines.metadata.topic import Partition
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.topic_record import TopicRecord

STEP_RECORDS: Final = 32


class NewPartitions(NamedTuple):
    """The partitions of a topic, in place of PartitionRecords that follow each other."""

    topic_id: bytes
    partitions: dict[int, Partition]


class Unit(NamedTuple):
    """Records that take effect together. ``records`` is their number in the log."""

    parts: list[Any]
    records: int


def units_of(records: Sequence[Any]) -> Generator[None, None, list[Unit]]:
    """The units of a whole batch. Yields now and then.

    The records of a metadata transaction around the batch (KIP-868) are left out: the batch is whole, so nothing is
    held back.
    """
    units: list[Unit] = []
    parts: list[Any] = []
    began = 0
    for number, record in enumerate(records):
        if number % STEP_RECORDS == STEP_RECORDS - 1:
            yield
        if type(record) in (BeginTransactionRecord, EndTransactionRecord):
            continue
        if parts and not _goes_with(parts, record):
            units.append(Unit(parts, number - began))
            parts, began = [], number
        _add(parts, record)
    units.append(Unit(parts, len(records) - began))
    return units


def _goes_with(parts: list[Any], record: Any) -> bool:
    first = parts[0]
    if type(record) is ConfigRecord:
        if type(first) is ConfigRecord:
            same_type = first.resource_type == record.resource_type
            return bool(same_type and first.resource_name == record.resource_name)
        return type(first) is TopicRecord and bool(first.name == record.resource_name)
    if type(record) is PartitionRecord:
        return type(first) in (TopicRecord, NewPartitions) and bool(first.topic_id == record.topic_id)
    return False


def _add(parts: list[Any], record: Any) -> None:
    if type(record) is not PartitionRecord:
        parts.append(record)
        return
    if not parts or type(parts[-1]) is not NewPartitions:
        parts.append(NewPartitions(record.topic_id, {}))
    parts[-1].partitions[record.partition_id] = Partition.from_record(record)
