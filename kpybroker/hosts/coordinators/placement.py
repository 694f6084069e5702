"""The partition of a coordinator's topic that keeps a key (Kafka: ``GroupCoordinatorService.partitionFor``)."""

from functools import lru_cache
from typing import Final

_SHORT: Final = 64
"""Results for names up to this length are cached: every heartbeat asks for its group's partition."""
_REMEMBERED: Final = 4096


def partition_for(key: str, partitions: int) -> int:
    """The partition, out of this number, that keeps the state of a group or a transactional id."""
    return java_hash(key) % partitions


def java_hash(text: str) -> int:
    """``Utils.abs(text.hashCode())`` of Java: over UTF-16 units, wrapped to 32 bits, never negative."""
    return _remembered(text) if len(text) <= _SHORT else _hashed(text)


def _hashed(text: str) -> int:
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (31 * value + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFF_FFFF
    if value == 0x8000_0000:
        return 0
    return 0x1_0000_0000 - value if value > 0x8000_0000 else value


_remembered: Final = lru_cache(_REMEMBERED)(_hashed)
