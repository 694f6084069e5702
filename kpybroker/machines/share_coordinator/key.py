"""The name of a share partition: a partition of a topic, as one group reads it (Kafka: ``SharePartitionKey``)."""

import re
from typing import NamedTuple

from kpywire.uuid import from_string, to_string

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_JAVA_WHITESPACE = "".join(map(chr, range(0x21)))
_INT_RANGE = range(-(1 << 31), 1 << 31)


class SharePartitionKey(NamedTuple):
    """A group and a partition of a topic."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id}:{to_string(self.topic_id)}:{self.partition}"


def parse(text: str) -> SharePartitionKey:
    """Read ``groupId:topicId:partition``. ValueError if Kafka does not accept it either."""
    parts = text.split(":")
    while parts and not parts[-1]:
        parts.pop()  # as Java's split does
    if len(parts) < 3:
        raise ValueError("expected groupId:topicId:partition")
    group_id = ":".join(parts[:-2])
    if not group_id.strip(_JAVA_WHITESPACE):
        raise ValueError("the group id is empty")
    if _INT.fullmatch(parts[-1]) is None or int(parts[-1]) not in _INT_RANGE:
        raise ValueError("the partition is not a number")
    return SharePartitionKey(group_id, from_string(parts[-2]), int(parts[-1]))
