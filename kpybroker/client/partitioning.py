"""The partition of a record: chosen by its key like Kafka's Java client does, so that all tools agree.

Invariant: equal keys go to equal partitions as long as the number of partitions stays the same.
"""

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 (org.apache.kafka.common.utils.Utils.murmur2), unsigned."""
    length = len(data)
    h = _SEED ^ length
    whole = length - length % 4
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a keyed record among ``partitions``."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions
