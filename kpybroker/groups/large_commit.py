"""The records of a large OffsetCommit, made in steps before anybody decides on it.

They depend on the request and the time alone. What the group says to it is decided later, in one step, as of any
commit, and what is written is one batch with the bytes that it would have had.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.groups.commit import expiry_ms, java_length, position_record
from kpybroker.groups.record import Record
from kpybroker.journal import Prepared
from kpywire.record import encode_record

LargeCommit = Prepared
"""What the records of one are as a whole."""
STEP_RECORDS = 16
LARGEST_SECTION_BYTES = 1 << 20
"""What comes to more is hardly a batch that the log takes."""


def prepared_commit(
    request: Any, timestamp_ms: int, metadata_max_bytes: int
) -> Generator[None, None, LargeCommit | None]:
    """What is written if the group takes all of it; None where a position is refused for itself, or it is too large to
    be one batch: then it is decided on as any other. Yields now and then."""
    expire_timestamp_ms = expiry_ms(request, timestamp_ms)
    records: list[Record] = []
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
