"""Committed offsets as bytes of the log, read and written without the general codec: they are most of a group log.

Invariant: the bytes are those that the general encoder makes of the same key and value, version 0 and 4, and what is
read is what the general decoder reads.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812

from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.group_records.table import OFFSET_COMMIT
from kpywire.uuid import ZERO_UUID

VALUE_VERSION = 4
SHORT_METADATA_BYTES = 126
LONGEST_METADATA_BYTES = 0x3FFE
"""The longest metadata handled here: its length takes one or two bytes. Longer metadata would need three."""
LONGEST_NAME_BYTES = 0x7FFF
_TYPE_AND_LENGTH = Struct(">hh")
_LENGTH = Struct(">h")
_PARTITION = Struct(">i")
_POSITION = Struct(">hqiB")
_LONG_POSITION = Struct(">hqiBB")
_VALUE_V3 = Struct(">hqih")
_TIMESTAMP = Struct(">q")
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""The end of a value of version 4: one tagged field, with tag 0 and 16 bytes."""
_NO_TAGS = b"\0"

Decoded = tuple[OffsetCommitKey, OffsetCommitValue | None, int]
"""Key, value and the version in which the value is written."""


def encode_commit(key: OffsetCommitKey, value: OffsetCommitValue) -> tuple[bytes, bytes] | None:
    """Encode key and value, the value in version 4; None for a record that needs the general encoder."""
    group, topic, metadata = key.group.encode(), key.topic.encode(), value.metadata.encode()
    if len(metadata) > LONGEST_METADATA_BYTES or max(len(group), len(topic)) > LONGEST_NAME_BYTES:
        return None
    begin = _TYPE_AND_LENGTH.pack(OFFSET_COMMIT, len(group))
    encoded_key = begin + group + _LENGTH.pack(len(topic)) + topic + _PARTITION.pack(key.partition)
    topic_id = value.topic_id
    length = len(metadata) + 1
    if len(metadata) <= SHORT_METADATA_BYTES:
        position = _POSITION.pack(VALUE_VERSION, value.offset, value.leader_epoch, length)
    else:
        low, high = length & 0x7F | 0x80, length >> 7
        position = _LONG_POSITION.pack(VALUE_VERSION, value.offset, value.leader_epoch, low, high)
    return encoded_key, b"".join(
        (
            position,
            metadata,
            _TIMESTAMP.pack(value.commit_timestamp),
            _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id,
        )
    )


def decode_commit(key: bytes, value: bytes | None) -> Decoded | None:
    """Decode a commit of version 3 or 4, as brokers write it, or its tombstone.

    None for a record that needs the general decoder, which also reports what is wrong with it.
    """
    try:
        names = _names(key[:-4])
        if names is None:
            return None
        decoded = OffsetCommitKey(
            group=names[0], topic=names[1], partition=_PARTITION.unpack_from(key, len(key) - 4)[0]
        )
        if value is None:
            return decoded, None, 0
        version = value[1]
        if value[0] or not 3 <= version <= 4:
            return None
        if version == 3:
            _, offset, leader_epoch, length = _VALUE_V3.unpack_from(value)
            start = _VALUE_V3.size
        else:
            _, offset, leader_epoch, length = _POSITION.unpack_from(value)
            start, length = _POSITION.size, length - 1
            if length > SHORT_METADATA_BYTES:  # another byte of the length follows
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
    return decoded, commit, version


@lru_cache(4096)
def _names(prefix: bytes) -> tuple[str, str] | None:
    """Read group and topic from a commit's key without its partition; None if it is not such a key."""
    length = _TYPE_AND_LENGTH.unpack_from(prefix)[1]
    group_end = 4 + length
    topic_end = group_end + 2 + _LENGTH.unpack_from(prefix, group_end)[0]
    if length < 0 or topic_end < group_end + 2 or topic_end != len(prefix):
        return None
    return prefix[4:group_end].decode(), prefix[group_end + 2 : topic_end].decode()
