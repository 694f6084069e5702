"""What lies in ``__consumer_offsets``, decoded for the group coordinator.

A log of a million commits is nothing else, so these have a way of their own, which knows the layout by heart; whatever
it does not recognise takes the way of all records, which is slower and says what is wrong.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812

from kpybroker.groups.record import FORMAT, Record
from kpywire.errors import Malformed
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.group_records.table import MODULES, OFFSET_COMMIT
from kpywire.uuid import ZERO_UUID

_TYPE = Struct(">h")
_TYPE_AND_LENGTH = Struct(">hh")
_LENGTH = Struct(">h")
_PARTITION = Struct(">i")
_VALUE_V3 = Struct(">hqih")
_VALUE_V4 = Struct(">hqiB")
_TIMESTAMP = Struct(">q")
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""Behind a value of version 4: one tagged field, its tag 0, its 16 bytes."""


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


@lru_cache(4096)
def _names(prefix: bytes) -> tuple[str, str] | None:
    """Group and topic of a commit's key, all of it but the partition; None if it is not one."""
    length = _TYPE_AND_LENGTH.unpack_from(prefix)[1]
    group_end = 4 + length
    topic_end = group_end + 2 + _LENGTH.unpack_from(prefix, group_end)[0]
    if length < 0 or topic_end < group_end + 2 or topic_end != len(prefix):
        return None
    return prefix[4:group_end].decode(), prefix[group_end + 2 : topic_end].decode()


def _offset_commit(key: bytes, value: bytes | None) -> Record | None:
    """A commit of version 3 or 4, as brokers write it, or its tombstone; None for anything else."""
    try:
        names = _names(key[:-4])
        if names is None:
            return None
        decoded = OffsetCommitKey(group=names[0], topic=names[1], partition=_PARTITION.unpack(key[-4:])[0])
        if value is None:
            return Record(decoded)
        version = value[1]
        if value[0] or not 3 <= version <= 4:
            return None
        if version == 3:
            _, offset, leader_epoch, length = _VALUE_V3.unpack_from(value)
            start = _VALUE_V3.size
        else:
            _, offset, leader_epoch, length = _VALUE_V4.unpack_from(value)
            start, length = _VALUE_V4.size, length - 1
            if length > 126:  # another byte of the length follows
                return None
        metadata_end = start + length
        (commit_timestamp,) = _TIMESTAMP.unpack_from(value, metadata_end)
        rest = value[metadata_end + 8 :]
        topic_id = ZERO_UUID
        if version == 4 and len(rest) == 19 and rest[:3] == _TOPIC_ID_TAG:
            topic_id = rest[3:]
        elif length < 0 or rest != (b"" if version == 3 else b"\0"):
            return None
        commit = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=value[start:metadata_end].decode() if length else "",
            commit_timestamp=commit_timestamp,
            topic_id=topic_id,
        )
    except (StructError, IndexError, UnicodeDecodeError):
        return None
    return Record(decoded, commit, version)
