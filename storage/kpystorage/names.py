"""Names of files and directories in a log directory, as Kafka's LogFileUtils and UnifiedLog spell them."""

import re
from typing import Final

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
PRODUCER_SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
INDEXES: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
SEGMENT_FILES: Final = (LOG, *INDEXES)

DELETE_DIRECTORY: Final = "-delete"
STRAY_DIRECTORY: Final = "-stray"
FUTURE_DIRECTORY: Final = "-future"
MAX_NAME_CHARS: Final = 255

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"

_SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
_TEMPORARY_FILE: Final = re.compile(
    r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.deleted|\.cleaned|\.swap)"
)
_LENT_FILE: Final = re.compile(r"\d{20}\.(log|index)\.[0-9a-f]{32}\.deleted")
_MARKED_DIRECTORY: Final = re.compile(r"(.+)-(\d+)\.([0-9a-f]{32})(-delete|-stray|-future)")


def segment_file(base_offset: int, suffix: str) -> str:
    """The name of a segment's file, such as ``00000000000000000042.log``."""
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """(offset, suffix) of a file of a segment or a producer snapshot; None for any other file."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def parse_temporary_file(name: str) -> tuple[int, str, str] | None:
    """(offset, suffix, temporary suffix) of a file that is being removed or added; None for any other file."""
    match = _TEMPORARY_FILE.fullmatch(name)
    return (int(match[1]), match[2], match[3]) if match else None


def lent_file(base_offset: int, suffix: str, lease: int) -> str:
    """The second name of a segment's file, for as long as it is lent to readers. Kafka removes such a file when it
    starts, as the rest of a deletion."""
    return f"{segment_file(base_offset, suffix)}.{lease:032x}{DELETED}"


def is_lent_file(name: str) -> bool:
    """Whether a name is one of `lent_file`."""
    return _LENT_FILE.fullmatch(name) is not None


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition) of ``name``; None if it is not of that form. Marked directories are not."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return topic, int(partition)


def marked_directory(topic: str, partition: int, unique: int, mark: str, *, cut: bool = True) -> str:
    """The name of a partition's directory that waits for its removal (``-delete``), has no place in the cluster
    (``-stray``) or is a copy that is being made (``-future``).

    ``unique`` is a random number of 128 bits. The topic is ``cut`` so that the name stays within 255 characters.
    """
    suffix = f"-{partition}.{unique:032x}{mark}"
    return (topic[: MAX_NAME_CHARS - len(suffix)] if cut else topic) + suffix


def parse_marked_directory(name: str) -> tuple[str, int, str] | None:
    """(the part of the topic that was kept, partition, mark) of such a directory; None for any other name."""
    match = _MARKED_DIRECTORY.fullmatch(name)
    return (match[1], int(match[2]), match[4]) if match else None
