"""ShareFetch with the acknowledgements of the records before, and the configs of groups: written by hand like
``frames``."""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from benchmarks.raw.frames import NO_TAGS, compact, frame, uvarint
from benchmarks.raw.many import Reader, compact_array

SHARE_FETCH_VERSION: Final = 1
ALTER_CONFIGS_VERSION: Final = 1
GROUP: Final = 32
SET: Final = 0
ACCEPT: Final = 1
MAX_BYTES: Final = 50 << 20

Ranges = Sequence[tuple[int, int]]
"""First and last offset."""


def group_configs(group: str, configs: Mapping[str, str]) -> bytes:
    """IncrementalAlterConfigs v1 of a group."""
    set_to = [
        compact(name.encode()) + struct.pack(">b", SET) + compact(value.encode()) + NO_TAGS
        for name, value in configs.items()
    ]
    resource = struct.pack(">b", GROUP) + compact(group.encode()) + compact_array(set_to) + NO_TAGS
    return frame(44, ALTER_CONFIGS_VERSION, compact_array([resource]) + b"\0" + NO_TAGS)


def configs_error(answer: bytes) -> int:
    """The error code of the resource."""
    reader = Reader(answer, 4)
    reader.skip_tags()
    reader.skip(4)
    reader.uvarint()
    return reader.i16()


def share_fetch(
    group: str,
    member_id: str,
    epoch: int,
    topic_id: bytes,
    accepted: Mapping[int, Ranges],
    *,
    max_records: int,
    max_wait_ms: int,
) -> bytes:
    """ShareFetch v1 of partitions of one topic, each with the ranges of records that are accepted."""
    body = compact(group.encode()) + compact(member_id.encode())
    body += struct.pack(">iiiiii", epoch, max_wait_ms, 1, MAX_BYTES, max_records, max_records)
    partitions = [
        struct.pack(">i", index)
        + compact_array(
            [struct.pack(">qq", first, last) + uvarint(2) + bytes([ACCEPT]) + NO_TAGS for first, last in ranges]
        )
        + NO_TAGS
        for index, ranges in accepted.items()
    ]
    topics = [topic_id + compact_array(partitions) + NO_TAGS] if partitions else []
    return frame(78, SHARE_FETCH_VERSION, body + compact_array(topics) + compact_array([]) + NO_TAGS)


class Shared(NamedTuple):
    """The facts in an answer to a ShareFetch."""

    error_code: int
    acquired: dict[int, list[tuple[int, int]]]
    """By partition: the ranges of acquired records."""
    failures: list[int]
    """The error codes of partitions and their acknowledgements."""

    @property
    def records(self) -> int:
        """The number of acquired records."""
        return sum(last - first + 1 for ranges in self.acquired.values() for first, last in ranges)


def shared(answer: bytes) -> Shared:
    """Read an answer without its size prefix."""
    reader = Reader(answer, 4)
    reader.skip_tags()
    reader.skip(4)
    error_code = reader.i16()
    reader.compact()
    reader.skip(4)
    acquired: dict[int, list[tuple[int, int]]] = {}
    failures: list[int] = []
    for _ in range(reader.uvarint() - 1):
        reader.skip(16)
        for _ in range(reader.uvarint() - 1):
            index = reader.i32()
            for _ in range(2):
                code = reader.i16()
                failures += [code] if code else []
                reader.compact()
            reader.skip(8)
            reader.skip_tags()
            reader.skip(max(reader.uvarint() - 1, 0))
            acquired[index] = [_range(reader) for _ in range(reader.uvarint() - 1)]
            reader.skip_tags()
        reader.skip_tags()
    return Shared(error_code, acquired, failures)


def _range(reader: Reader) -> tuple[int, int]:
    first, last = reader.i64(), reader.i64()
    reader.skip(2)
    reader.skip_tags()
    return first, last
