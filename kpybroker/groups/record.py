"""What the group coordinator writes: a key and a value of ``__consumer_offsets``, as messages; no value is a tombstone.

(Kafka: ``CoordinatorRecord``, ``GroupCoordinatorRecordHelpers``, ``GroupCoordinatorRecordSerde``.)
"""

from typing import Any, NamedTuple

from kpybroker.groups import commit_bytes
from kpywire.coordinator_record import RecordFormat
from kpywire.group_records.offset_commit import OffsetCommitValue
from kpywire.group_records.table import MODULES

FORMAT = RecordFormat("kpywire.group_records", MODULES)


class Record(NamedTuple):
    """One record. ``value_version`` says in which version the value is written; it means nothing for a tombstone."""

    key: Any
    value: Any | None = None
    value_version: int = 0

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as they stand in the log."""
        if self.value_version == commit_bytes.VALUE_VERSION and type(self.value) is OffsetCommitValue:
            encoded = commit_bytes.encode_commit(self.key, self.value)
            if encoded is not None:
                return encoded
        value = None if self.value is None else FORMAT.encode_value(self.value, self.value_version)
        return FORMAT.encode_key(self.key), value
