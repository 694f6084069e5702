"""The partition of a record: chosen by its key like Kafka's Java client does, so that all tools agree.

Invariant: equal keys go to equal partitions as long as the number of partitions stays the same.
"""

from kpywire.murmur2 import murmur2


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a keyed record among ``partitions``."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions
