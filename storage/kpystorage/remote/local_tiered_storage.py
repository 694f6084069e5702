"""The layout of Kafka's LocalTieredStorage, the store of its own tests: a file for each file of a segment, as it is.

    kafka-tiered-storage / TOPIC-PARTITION-TOPICID / START_OFFSET-SEGMENTID SUFFIX

The first directory lies in the one that is configured as ``dir``.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from kpystorage.remote.segment_name import MOST_INT, MOST_LONG, OFFSET_DIGITS, RemoteSegmentName
from kpywire.uuid import from_string, to_string

ROOT: Final = "kafka-tiered-storage"
_DIRECTORY = re.compile(r"([A-Za-z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})-([A-Za-z0-9_-]{22})")
_FILE = re.compile(r"([0-9]{20})-([A-Za-z0-9_-]{22})(\.[a-z_]+)")


class LocalFile(Enum):
    """The files of a segment, by their suffixes (RemoteLogSegmentFileset.RemoteLogSegmentFileType)."""

    SEGMENT = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    LEADER_EPOCH_CHECKPOINT = ".leader_epoch_checkpoint"
    PRODUCER_SNAPSHOT = ".snapshot"


OPTIONAL: Final = frozenset({LocalFile.TRANSACTION_INDEX})
_SUFFIXES = {each.value: each for each in LocalFile}


class LocalFileName(NamedTuple):
    """The facts in the path of a file."""

    segment: RemoteSegmentName
    file: LocalFile


def directory(topic: str, topic_id: bytes, partition: int) -> str:
    """The path of a partition's directory, relative to ``dir``."""
    return f"{ROOT}/{topic}-{partition}-{to_string(topic_id)}"


def path(segment: RemoteSegmentName, file: LocalFile) -> str:
    """The path of one file, relative to ``dir``."""
    folder = directory(segment.topic, segment.topic_id, segment.partition)
    return f"{folder}/{segment.start_offset:0{OFFSET_DIGITS}d}-{to_string(segment.segment_id)}{file.value}"


def parse_path(found: str) -> LocalFileName | None:
    """The facts in a path relative to ``dir``; None if it is none of this layout."""
    root, _, rest = found.partition("/")
    folder, _, name = rest.partition("/")
    of_partition, of_file = _DIRECTORY.fullmatch(folder), _FILE.fullmatch(name)
    if root != ROOT or of_partition is None or of_file is None or of_file[3] not in _SUFFIXES:
        return None
    partition, start_offset = int(of_partition[2]), int(of_file[1])
    if partition > MOST_INT or start_offset > MOST_LONG:
        return None
    topic_id, segment_id = from_string(of_partition[3]), from_string(of_file[2])
    segment = RemoteSegmentName(of_partition[1], topic_id, partition, start_offset, segment_id)
    return LocalFileName(segment, _SUFFIXES[of_file[3]])


def missing(files: Iterable[LocalFile]) -> list[LocalFile]:
    """The files that a whole segment has and that are not among these."""
    there = set(files)
    return [each for each in LocalFile if each not in OPTIONAL and each not in there]
