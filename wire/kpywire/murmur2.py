"""Kafka's hash function for partitions, here since more than the clients' partitioner uses it."""

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
