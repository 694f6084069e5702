"""The orders in which Java's hash tables yield their keys.

Kafka's assignors walk over hash tables, so their answers depend on these orders. With the same orders the answers here
are those of Kafka, and a group does not move its partitions when its coordinator changes from one to the other.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

_K = TypeVar("_K")
_MASK = 0xFFFF_FFFF
_LEAST_CAPACITY = 16
_FIBONACCI = 0x9E37_79B9_7F4A_7C15


@lru_cache(16_384)
def string_hash(text: str) -> int:
    """``String.hashCode``, as an unsigned number."""
    hashed = 0
    units = text.encode() if text.isascii() else memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    for unit in units:
        hashed = 31 * hashed + unit & _MASK
    return hashed


def uuid_hash(value: bytes) -> int:
    """``Uuid.hashCode``, as an unsigned number."""
    mixed = int.from_bytes(value[:8], "big") ^ int.from_bytes(value[8:], "big")
    return (mixed >> 32) ^ (mixed & _MASK)


def string_key(text: str) -> bytes:
    """A key that sorts texts as ``String.compareTo`` does."""
    return text.encode("utf-16-be", "surrogatepass")


def uuid_key(value: bytes) -> tuple[int, int]:
    """A key that sorts ids as ``Uuid.compareTo`` does: by two signed numbers."""
    return int.from_bytes(value[:8], "big", signed=True), int.from_bytes(value[8:], "big", signed=True)


def in_hash_order(keys: Sequence[_K], hash_of: Callable[[_K], int], *, capacity: int = _LEAST_CAPACITY) -> list[_K]:
    """The keys of a ``HashMap`` or ``HashSet`` to which they were added in this order. It begins with a capacity."""
    while len(keys) > 0.75 * capacity:
        capacity *= 2
    return _by_bucket(keys, hash_of, capacity)


def in_computed_order(calls: Iterable[_K], hash_of: Callable[[_K], int], *, capacity: int) -> list[_K]:
    """The keys of a ``HashMap`` to which ``computeIfAbsent`` was called with these keys, in this order. It puts a new
    key before the others of its bucket, and grows at the next call, whatever its key."""
    found: list[_K] = []
    known = set()
    for key in calls:
        if len(found) > 0.75 * capacity:
            capacity *= 2
        if key not in known:
            known.add(key)
            found.append(key)
    return _by_bucket(found[::-1], hash_of, capacity)


def _by_bucket(keys: Sequence[_K], hash_of: Callable[[_K], int], capacity: int) -> list[_K]:
    def bucket(key: _K) -> int:
        hashed = hash_of(key)
        return (hashed ^ hashed >> 16) & capacity - 1

    return sorted(keys, key=bucket)


def copied_set_capacity(size: int) -> int:
    """The capacity of a ``HashSet`` made of this number of elements."""
    return max(copied_map_capacity(size), _LEAST_CAPACITY)


def copied_map_capacity(size: int) -> int:
    """The capacity of a ``HashMap`` made of a map of this size."""
    return _LEAST_CAPACITY if size == 0 else 1 << (int(size / 0.75 + 1) - 1).bit_length()


def in_timeline_order(keys: Iterable[str], most: int) -> list[str]:
    """The keys of a ``TimelineHashMap`` that held at most ``most`` keys at once. It never shrinks."""
    bits = 1
    while most * 0.75 > 1 << bits:
        bits += 1
    youngest_first = list(keys)[::-1]  # within a slot
    return sorted(youngest_first, key=lambda key: (_signed(string_hash(key)) * _FIBONACCI & (1 << 64) - 1) >> 64 - bits)


def identity(number: int) -> int:
    """``Integer.hashCode``."""
    return number


def _signed(hashed: int) -> int:
    return hashed - (1 << 32) if hashed >> 31 else hashed
