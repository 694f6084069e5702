"""Committed offsets as bytes of the log, read and written without the general codec: they are most of a group log.

Invariant: the bytes are those that the general encoder makes of the same key and value, version 0 and 4, and what is
read is what the general decoder reads.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.group_records.table import OFFSET_COMMIT
from kpywire.uuid import ZERO_UUID

VALUE_VERSION: Final = 4
SHORT_METADATA_BYTES: Final = 126
LONGEST_METADATA_BYTES: Final = 0x3FFE
"""The longest metadata handled here: its length takes one or two bytes. Longer metadata would need three."""
LONGEST_NAME_BYTES: Final = 0x7FFF
_REMEMBERED: Final = 4096
_REMEMBERED_CHARS: Final = 256
"""Group and topic are remembered if they have no more characters, or bytes, than this together."""
_TYPE_AND_LENGTH: Final = Struct(">hh")
_LENGTH: Final = Struct(">h")
_PARTITION: Final = Struct(">i")
_pack_partition: Final = _PARTITION.pack
_POSITION: Final = Struct(">hqiB")
_LONG_POSITION: Final = Struct(">hqiBB")
_pack_without_metadata: Final = Struct(">hqiBq").pack
_VALUE_V3: Final = Struct(">hqih")
_TIMESTAMP: Final = Struct(">q")
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""The end of a value of version 4: one tagged field, with tag 0 and 16 bytes."""
_NO_TAGS: Final = b"\0"

Decoded = tuple[OffsetCommitKey, OffsetCommitValue | None, int]
"""Key, value and the version in which the value is written."""


def encode_key(group_id: str, topic: str, partition: int) -> bytes | None:
    """The key of a partition's commit; None for names that the general encoder has to refuse."""
    is_short = len(group_id) + len(topic) <= _REMEMBERED_CHARS
    names = _remembered_names(group_id, topic) if is_short else _encode_names(group_id, topic)
    return None if names is None else names + _pack_partition(partition)


def encode_value(offset: int, leader_epoch: int, metadata: str, commit_timestamp: int, topic_id: bytes) -> bytes | None:
    """A value in version 4; None if its metadata are so long that it needs the general encoder."""
    tags = _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id
    if not metadata:
        return _pack_without_metadata(VALUE_VERSION, offset, leader_epoch, 1, commit_timestamp) + tags
    encoded = metadata.encode()
    length = len(encoded) + 1
    if length > LONGEST_METADATA_BYTES + 1:
        return None
    if length <= SHORT_METADATA_BYTES + 1:
        position = _POSITION.pack(VALUE_VERSION, offset, leader_epoch, length)
    else:
        position = _LONG_POSITION.pack(VALUE_VERSION, offset, leader_epoch, length & 0x7F | 0x80, length >> 7)
    return b"".join((position, encoded, _TIMESTAMP.pack(commit_timestamp), tags))


def decode_commit(key: bytes, value: bytes | None) -> Decoded | None:
    """Decode a commit of version 3 or 4, as brokers write it, or its tombstone.

    None for a record that needs the general decoder, which also reports what is wrong with it.
    """
    try:
        prefix = key[:-4]
        names = _known_names(prefix) if len(prefix) <= _REMEMBERED_CHARS else _decode_names(prefix)
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


def _decode_names(prefix: bytes) -> tuple[str, str] | None:
    """Read group and topic from a commit's key without its partition; None if it is not such a key."""
    length = _TYPE_AND_LENGTH.unpack_from(prefix)[1]
    group_end = 4 + length
    topic_end = group_end + 2 + _LENGTH.unpack_from(prefix, group_end)[0]
    if length < 0 or topic_end < group_end + 2 or topic_end != len(prefix):
        return None
    return prefix[4:group_end].decode(), prefix[group_end + 2 : topic_end].decode()


_known_names: Final = lru_cache(_REMEMBERED)(_decode_names)
"""The same groups and topics stand in many commits."""


def _encode_names(group_id: str, topic: str) -> bytes | None:
    """Write group and topic as a commit's key without its partition; None if one of them is too long."""
    group_bytes, topic_bytes = group_id.encode(), topic.encode()
    if max(len(group_bytes), len(topic_bytes)) > LONGEST_NAME_BYTES:
        return None
    begin = _TYPE_AND_LENGTH.pack(OFFSET_COMMIT, len(group_bytes)) + group_bytes
    return begin + _LENGTH.pack(len(topic_bytes)) + topic_bytes


_remembered_names: Final = lru_cache(_REMEMBERED)(_encode_names)
"""A group commits the same few topics again and again."""
