"""The records of a large OffsetCommit, made in steps before it is decided.

They depend only on the request and the time. Whether the group accepts them is decided later in one step, as for any
commit. They are written as one batch, with the same bytes.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.groups.offsets.commit import expiry_ms, java_length, position_record
from kpybroker.groups.offsets.commit_record import CommitRecord
from kpybroker.groups.record import Record
from kpybroker.journal import Prepared
from kpywire.record import encode_record

LargeCommit = Prepared
"""All records of one large commit."""
STEP_RECORDS = 16
LARGEST_SECTION_BYTES = 1 << 20
"""A larger commit is unlikely to fit into a batch that the log accepts."""


def prepared_commit(
    request: Any, timestamp_ms: int, metadata_max_bytes: int
) -> Generator[None, None, LargeCommit | None]:
    """Prepare the records of a commit, yielding now and then.

    None if one of its partitions would be refused, or if it is too large for one batch. Then it is decided like any
    other commit.
    """
    expire_timestamp_ms = expiry_ms(request, timestamp_ms)
    records: list[CommitRecord | Record] = []
    parts: list[bytes] = []
    left_bytes = LARGEST_SECTION_BYTES
    for topic in request.topics:
        for partition in topic.partitions:
            if java_length(partition.committed_metadata or "") > metadata_max_bytes:
                return None
            record = position_record(
                request.group_id, topic, partition, timestamp_ms, expire_timestamp_ms, topic.topic_id
            )
            part = encode_record(len(parts), 0, *record.encoded())
            records.append(record)
            parts.append(part)
            left_bytes -= len(part)
            if left_bytes < 0:
                return None
            if len(parts) % STEP_RECORDS == 0:
                yield
    return LargeCommit(records, b"".join(parts)) if parts else None
