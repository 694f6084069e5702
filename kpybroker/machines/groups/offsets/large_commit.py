"""The records of a large OffsetCommit or TxnOffsetCommit, made in steps before it is decided.

They depend only on the request and the time. Whether the group accepts them is decided later in one step, as for any
commit. They are written as one batch, with the same bytes. The answer to a large commit is `Alike`.
"""

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups.offsets.commit_record import CommitRecord, expiry_ms, java_length, position_record
from kpybroker.machines.groups.offsets.committed import NO_TIMESTAMP
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.journal import Prepared
from kpywire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kpywire.record import encode_record

STEP_RECORDS: Final = 16


class LargeCommit(NamedTuple):
    """The records of one large commit."""

    records: list[CommitRecord | GroupRecord]
    section: bytes | None
    """The section of their batch, not compressed; None if it is too large for the log."""
    refused: frozenset[int]
    """The partitions whose metadata are too large, by their places among all partitions of the request. They have no
    records; the others are committed."""
    batch: Prepared | None = None
    """The records as they are written, once that is known; None if there is nothing to write, or too much."""

    @property
    def is_too_large(self) -> bool:
        """Whether the records do not fit into a batch."""
        return self.batch is None and bool(self.records)

    def written(self, section: bytes | None, codec: int, most_bytes: int) -> "LargeCommit":
        """The commit with its section as it is written, if that is small enough for the log."""
        if section is None or len(section) > most_bytes or not self.records:
            return self._replace(section=None)
        return self._replace(section=None, batch=Prepared(list(self.records), section, codec))


def prepared_commit(
    request: Any, timestamp_ms: int, metadata_max_bytes: int, section_max_bytes: int
) -> Generator[None, None, LargeCommit]:
    """Prepare the records of a commit, yielding now and then."""
    is_transactional = isinstance(request, TxnOffsetCommitRequest)
    expire_timestamp_ms = NO_TIMESTAMP if is_transactional else expiry_ms(request, timestamp_ms)
    records: list[CommitRecord | GroupRecord] = []
    refused: set[int] = set()
    section = bytearray()
    place = -1
    for topic in request.topics:
        for partition in topic.partitions:
            place += 1
            if place % STEP_RECORDS == STEP_RECORDS - 1:
                yield
            if java_length(partition.committed_metadata or "") > metadata_max_bytes:
                refused.add(place)
                continue
            record = position_record(
                request.group_id, topic, partition, timestamp_ms, expire_timestamp_ms, topic.topic_id
            )
            if len(section) <= section_max_bytes:
                section += encode_record(len(records), 0, *record.encoded())
            records.append(record)
    is_small_enough = len(section) <= section_max_bytes
    return LargeCommit(records, bytes(section) if is_small_enough else None, frozenset(refused))
