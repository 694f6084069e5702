"""Commits as they stand in the log, written without the general encoder, for they are most of what groups write.

Invariant: the bytes are those that the general encoder makes of the same key and value, version 0 and 4.
"""

from struct import Struct

from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.group_records.table import OFFSET_COMMIT
from kpywire.uuid import ZERO_UUID

VALUE_VERSION = 4
SHORT_METADATA_BYTES = 126
LONGEST_METADATA_BYTES = 0x3FFE
"""The length of short ones takes a byte, of longer ones two, and of those beyond three."""
LONGEST_NAME_BYTES = 0x7FFF
_TYPE_AND_LENGTH = Struct(">hh")
_LENGTH = Struct(">h")
_PARTITION = Struct(">i")
_POSITION = Struct(">hqiB")
_LONG_POSITION = Struct(">hqiBB")
_TIMESTAMP = Struct(">q")
_TOPIC_ID_TAG = b"\x01\x00\x10"
_NO_TAGS = b"\0"


def encode_commit(key: OffsetCommitKey, value: OffsetCommitValue) -> tuple[bytes, bytes] | None:
    """Key and value, the value in version 4; None for what the general encoder has to look at."""
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
