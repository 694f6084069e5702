"""The records of a large OffsetCommit or TxnOffsetCommit, made before its coordinator decides. Not a handler.

They are made in steps, and compressed in a thread if the coordinator compresses what it writes.
"""

from functools import partial
from typing import Any, Final

from kpybroker.machines.groups.offsets.large_commit import prepared_commit
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work
from kpywire.batch import HEADER_BYTES
from kpywire.compression import compress

BATCH_BYTES: Final = 1 << 20
"""The size of the largest batch, while the log of the coordinator is not here."""
COMPRESSION_AT_BEST: Final = 64


def prepared(broker: Context, request: Any) -> Work:
    """Return the records of a commit as they are written (`LargeCommit`)."""
    held = broker.replicas.topics.get(GROUP_OFFSETS_TOPIC)
    most_bytes = (BATCH_BYTES if held is None else held.validation.max_message_bytes) - HEADER_BYTES
    codec = broker.groups.kind.codec()
    commit = yield from prepared_commit(
        request,
        broker.scheduler.now_ms(),
        broker.config["offset.metadata.max.bytes"],
        most_bytes * (COMPRESSION_AT_BEST if codec else 1),
    )
    section = commit.section
    if codec and section:
        compressed = Pending()
        work = partial(compress, codec, section)
        broker.scheduler.submit_blocking(work, lambda found, _error: compressed.resolve(found))
        section = yield compressed
    return commit.written(section, codec, most_bytes)
