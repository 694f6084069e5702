"""Dead letters of share groups: the topics that may have them, their headers, and the batches that are produced.

(KIP-1191. Kafka: ``ShareGroupDLQStateManager``.) A dead letter stands for one record that a group rejected or counted
out. Its headers name the record; its key and value are null, unless the group copies them. Pure.

Not here: producing and retrying (`kpybroker.requests.serving.share.dead_letter_writer`).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

from kpywire.batch import HEADER_BYTES, NO_LEADER_EPOCH
from kpywire.record import Header, encode_record, plain_batch_of

ENABLE: Final = "errors.deadletterqueue.group.enable"
AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
"""The configs of `TopicRules`: the first of the topic, the others of brokers."""

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"

ATTEMPTS: Final = 5
FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 30_000
JITTER: Final = 0.2
MOST_RECORDS: Final = 500
"""The records of one batch: more would take long to check."""


class TopicRules(NamedTuple):
    """The things that decide whether a topic may have dead letters."""

    exists: bool
    is_enabled: bool
    """`ENABLE` of the topic."""
    is_made: bool
    """`AUTO_CREATE`."""
    prefix: str
    """`PREFIX`."""


def refusal(group_id: str, topic: str, rules: TopicRules) -> str | None:
    """The reason why a topic may not have the dead letters of a group, in Kafka's words; None if it may."""
    if not topic:
        return f"Configured DLQ topic name in share group: {group_id} is empty."
    if topic.startswith("__"):
        return f"Configured DLQ topic name in share group: {group_id} cannot start with __, topic: {topic}."
    if rules.exists and not rules.is_enabled:
        return f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, topic: {topic}."
    if not rules.exists and not rules.is_made:
        return (
            f"DLQ topic does not exist and auto create is disabled on cluster for share group: {group_id}, "
            f"topic: {topic}."
        )
    if not topic.startswith(rules.prefix):
        return (
            f"Configured DLQ topic name does not comply with the DLQ topic prefix in share group: {group_id}, "
            f"topic: {topic}, prefix: {rules.prefix}."
        )
    return None


class RecordOrigin(NamedTuple):
    """The group, and the partition that its records come from."""

    group_id: str
    topic: str
    partition: int


def headers(origin: RecordOrigin, offset: int, delivery_count: int, reason: str) -> tuple[Header, ...]:
    """The headers of the dead letter of one record."""
    group_id, topic, partition = origin
    texts = (topic, str(partition), str(offset), group_id, str(delivery_count), reason)
    return tuple(zip(_NAMES, (text.encode() for text in texts), strict=True))


_NAMES: Final[Sequence[str]] = (TOPIC, PARTITION, OFFSET, GROUP, DELIVERY_COUNT, MESSAGE)


class Packing:
    """A batch of dead letters that grows until it is full."""

    __slots__ = ("_max_bytes", "_section", "size")

    def __init__(self, max_bytes: int) -> None:
        """``max_bytes`` is ``max.message.bytes`` of the dead-letter topic."""
        self._max_bytes = max_bytes
        self._section: list[bytes] = []
        self.size = HEADER_BYTES

    @property
    def left_bytes(self) -> int:
        """The room that is left; less than 0 where the first dead letter is larger than a batch."""
        return self._max_bytes - self.size

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self._section)

    def add(self, named: Sequence[Header], key: bytes | None, value: bytes | None) -> bool:
        """Add a dead letter. Whether there was room: the first one always has it.

        A copy that is larger than a whole batch may be is left out.
        """
        encoded = encode_record(self.count, 0, key, value, named)
        if HEADER_BYTES + len(encoded) > self._max_bytes:
            encoded = encode_record(self.count, 0, None, None, named)
        if self._section and (self.size + len(encoded) > self._max_bytes or self.count >= MOST_RECORDS):
            return False
        self._section.append(encoded)
        self.size += len(encoded)
        return True

    def batch(self, now_ms: int) -> bytes:
        """The batch to be produced."""
        return plain_batch_of(b"".join(self._section), self.count, 0, NO_LEADER_EPOCH, now_ms)


def pause_ms(attempts: int, origin: RecordOrigin) -> float:
    """The pause after a number of attempts that failed: it doubles, and partitions differ by up to 20 % either way."""
    spread = 2 * crc32(f"{origin} {attempts}".encode()) / 0xFFFF_FFFF - 1
    return min((FIRST_PAUSE_MS << attempts - 1) * (1 + JITTER * spread), LONGEST_PAUSE_MS)
