"""The records of the group coordinator: key and value of ``__consumer_offsets`` as messages; no value is a tombstone.

(Kafka: ``CoordinatorRecord``, ``GroupCoordinatorRecordHelpers``, ``GroupCoordinatorRecordSerde``.)
"""

from struct import Struct
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups import commit_bytes
from kpybroker.machines.groups.described_topology import DescribedTopologyValue
from kpywire.codec import decode as decode_message
from kpywire.coordinator_record import RecordFormat
from kpywire.errors import Malformed
from kpywire.group_records.table import MODULES, OFFSET_COMMIT, STREAMS_GROUP_TOPOLOGY

FORMAT: Final = RecordFormat("kpywire.group_records", MODULES)
_TYPE: Final = Struct(">h")
_FIRST_VERSION: Final = bytes(2)


class GroupRecord(NamedTuple):
    """One record. ``value_version`` is the version in which the value is written; it means nothing for a tombstone."""

    key: Any
    value: Any | None = None
    value_version: int = 0

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as the log holds them."""
        value = None if self.value is None else FORMAT.encode_value(self.value, self.value_version)
        return FORMAT.encode_key(self.key), value


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Decode a record of the log; None for a type that Kafka 4.4 does not have. Raises Malformed."""
    if len(key) < _TYPE.size:
        raise Malformed("a key without a type")
    (record_type,) = _TYPE.unpack_from(key)
    if record_type not in MODULES:
        return None
    if record_type == OFFSET_COMMIT:
        commit = commit_bytes.decode_commit(key, value)
        if commit is not None:
            return GroupRecord(*commit)
    decoded = FORMAT.decode_key(key)
    if value is None:
        return GroupRecord(decoded)
    if record_type == STREAMS_GROUP_TOPOLOGY and value[: _TYPE.size] == _FIRST_VERSION:
        return GroupRecord(decoded, decode_message(DescribedTopologyValue, 0, value, _TYPE.size), 0)
    return GroupRecord(decoded, FORMAT.decode_value(record_type, value), _TYPE.unpack_from(value)[0])
