"""What lies in ``__consumer_offsets``, decoded for the group coordinator.

A log of a million commits is nothing else, so these have a way of their own, which knows the layout by heart; whatever
it does not recognise takes the way of all records, which is slower and says what is wrong.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812

from kpybroker.groups.record import FORMAT, Record
from kpywire.errors import Malformed
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.group_records.table import MODULES, OFFSET_COMMIT

_TYPE = Struct(">h")
_TYPE_AND_LENGTH = Struct(">hh")
_LENGTH = Struct(">h")
_PARTITION = Struct(">i")
_VALUE_V3 = Struct(">hqih")
_TIMESTAMP = Struct(">q")
_VALUE_V3_BYTES = _VALUE_V3.size + _TIMESTAMP.size


def decode(key: bytes, value: bytes | None) -> Record | None:
    """A record, or None for one of a type that Kafka 4.3 does not have. Raises Malformed."""
    if len(key) < _TYPE.size:
        raise Malformed("a key without a type")
    (record_type,) = _TYPE.unpack_from(key)
    if record_type not in MODULES:
        return None
    if record_type == OFFSET_COMMIT:
        found = _offset_commit(key, value)
        if found is not None:
            return found
    decoded = FORMAT.decode_key(key)
    if value is None:
        return Record(decoded)
    return Record(decoded, FORMAT.decode_value(record_type, value), _TYPE.unpack_from(value)[0])


def _offset_commit(key: bytes, value: bytes | None) -> Record | None:
    """A commit whose value is of version 3, as brokers write it, or its tombstone; None for anything else."""
    try:
        length = _TYPE_AND_LENGTH.unpack_from(key)[1]
        group_end = 4 + length
        topic_end = group_end + 2 + _LENGTH.unpack_from(key, group_end)[0]
        if length < 0 or topic_end < group_end + 2 or topic_end + 4 != len(key):
            return None
        decoded = OffsetCommitKey(
            group=key[4:group_end].decode(),
            topic=key[group_end + 2 : topic_end].decode(),
            partition=_PARTITION.unpack_from(key, topic_end)[0],
        )
        if value is None:
            return Record(decoded)
        version, offset, leader_epoch, length = _VALUE_V3.unpack_from(value)
        if version != 3 or length < 0 or length + _VALUE_V3_BYTES != len(value):
            return None
        metadata_end = _VALUE_V3.size + length
        commit = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=value[_VALUE_V3.size : metadata_end].decode() if length else "",
            commit_timestamp=_TIMESTAMP.unpack_from(value, metadata_end)[0],
        )
    except (StructError, UnicodeDecodeError):
        return None
    return Record(decoded, commit, 3)
