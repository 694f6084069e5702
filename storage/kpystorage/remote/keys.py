"""The keys of a segment's three objects, as Aiven's plugin has them, and the facts in a key.

    PREFIX TOPIC-TOPICID / PARTITION / START_OFFSET-SEGMENTID . log | indexes | rsm-manifest

Ids are in Kafka's base64, offsets have 20 digits. The prefix is put in front as it is, without a separator.

Invariant: a key that is made of a record's custom metadata leads out of no directory.
"""

import re
from enum import Enum
from typing import NamedTuple

from kpystorage.errors import CorruptObject
from kpystorage.remote.custom_metadata import CustomMetadata
from kpystorage.remote.segment_name import MOST_INT, MOST_LONG, OFFSET_DIGITS, RemoteSegmentName, shown
from kpywire.uuid import from_string, to_string

_KEY = re.compile(
    r"([A-Za-z0-9._-]{1,249})-([A-Za-z0-9_-]{22})/(0|[1-9][0-9]{0,9})/([0-9]{20})-([A-Za-z0-9_-]{22})"
    r"\.(log|indexes|rsm-manifest)"
)
_MOST_KEY_CHARACTERS = 1024
_NO_METADATA = CustomMetadata()


class ObjectKind(Enum):
    """The objects of a segment, by the suffix of their keys."""

    LOG = "log"
    INDEXES = "indexes"
    MANIFEST = "rsm-manifest"


class ObjectName(NamedTuple):
    """The facts in a key."""

    segment: RemoteSegmentName
    kind: ObjectKind


def main_path(segment: RemoteSegmentName) -> str:
    """The key of a segment's objects without prefix and suffix; ``object_key`` of the custom metadata."""
    offset = f"{segment.start_offset:0{OFFSET_DIGITS}d}-{to_string(segment.segment_id)}"
    return f"{partition_path(segment.topic, segment.topic_id, segment.partition)}{offset}"


def partition_path(topic: str, topic_id: bytes, partition: int) -> str:
    """The beginning that the keys of a partition share, without prefix, with the last slash."""
    return f"{topic}-{to_string(topic_id)}/{partition}/"


def object_key(prefix: str, segment: RemoteSegmentName, kind: ObjectKind, custom: CustomMetadata = _NO_METADATA) -> str:
    """The key of one object. Prefix and path in the segment's custom metadata go before those of today.

    CorruptObject if these lead out of their directory.
    """
    place, path = prefix, main_path(segment)
    if custom.object_prefix is not None and custom.object_prefix != prefix:
        place = _inside(custom.object_prefix)
    if custom.object_key is not None:
        path = _inside(custom.object_key)
    return f"{place}{path}.{kind.value}"


def parse_key(prefix: str, key: str) -> ObjectName | None:
    """The facts in a key; None if it is no key of this layout under the prefix."""
    if not key.startswith(prefix):
        return None
    found = _KEY.fullmatch(key, len(prefix))
    if found is None:
        return None
    topic, topic_id, partition, start_offset, segment_id, suffix = found.groups()
    if int(partition) > MOST_INT or int(start_offset) > MOST_LONG:
        return None
    name = RemoteSegmentName(topic, from_string(topic_id), int(partition), int(start_offset), from_string(segment_id))
    return ObjectName(name, ObjectKind(suffix)) if main_path(name) == key[len(prefix) : found.start(6) - 1] else None


def _inside(part: str) -> str:
    """A part of a key that a record gave. CorruptObject if it leads to another directory."""
    steps = part.split("/")
    if part.startswith("/") or "\0" in part or ".." in steps or "." in steps or len(part) > _MOST_KEY_CHARACTERS:
        raise CorruptObject(f"custom metadata with the key {shown(part)}")
    return part
