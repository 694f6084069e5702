"""Whether each key is there once in the part of a log that was compacted. Pure.

It decodes all records and keeps 16 bytes of a hash for each key, so it runs only where it is asked for.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final

from kpybroker.machines.audit.findings import DAMAGE, KEYS, AuditFinding
from kpybroker.machines.audit.records import committed_records
from kpybroker.machines.audit.sources import AuditedReplica
from kpystorage.reading import StoredBatch

HASH_BYTES: Final = 16
MOST_SHOWN: Final = 10


def repeated(replica: AuditedReplica, batches: Iterable[StoredBatch], end: int) -> Iterator[AuditFinding]:
    """The keys that occur again below ``end``, up to where the log was compacted."""
    seen: set[bytes] = set()
    count = 0
    for record in committed_records(batches):
        if record.key is None or record.offset >= end:
            continue
        digest = blake2b(record.key, digest_size=HASH_BYTES).digest()
        if digest not in seen:
            seen.add(digest)
            continue
        count += 1
        if count <= MOST_SHOWN:
            text = f"a key at offset {record.offset} occurs before it, though the log was compacted up to {end}"
            spot = (*replica.spot, replica.label, replica.directory)
            yield AuditFinding(DAMAGE, KEYS, *spot, -1, record.offset, text)
    if count > MOST_SHOWN:
        text = f"{count - MOST_SHOWN} more keys occur again"
        yield AuditFinding(DAMAGE, KEYS, *replica.spot, replica.label, replica.directory, -1, -1, text)
