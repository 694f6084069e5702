"""The newest offset of every key, in a table of fixed size (Kafka's SkimpyOffsetMap).

A key is represented by 128 bits: two values of Python's own hash of bytes (SipHash with a secret of this process), one
of the key and one of the key behind a salt. Kafka uses MD5, for which two keys with the same value can be constructed.
So a map is only meaningful in its own process, and the keys cannot be read from it.

Not here: how many keys a map may take before a pass ends; the caller decides that, as in Kafka.

Invariant: 24 bytes a slot, and a few megabytes for the most recent keys; a slot never becomes free again.
"""

import sys
from hashlib import md5
from mmap import mmap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

ENTRY_BYTES: Final = 24
NOT_FOUND: Final = -1
_SALT: Final = b"the other half"
_IS_SIPHASH: Final = sys.hash_info.algorithm.startswith("siphash") and sys.hash_info.width == 64
_POSITIVE: Final = 0x7FFF_FFFF_FFFF_FFFF
_REMEMBERED_BYTES: Final = 128
_MOST_REMEMBERED: Final = 1 << 14
_REST: Final = 8
_HOPS: Final = 64
"""The number of probes for a key in distant slots. After them, the slots next to the last one are probed."""


class OffsetMap:
    """A map from keys to offsets. ``count`` keys are in it."""

    __slots__ = ("_hits", "_recent", "_rest", "_room", "_slots", "_table", "count", "latest_offset")

    def __init__(self, slots: int) -> None:
        """Make an empty map with ``slots`` slots, at least one of which must stay free."""
        self._slots = max(slots, 2)
        self._room = mmap(-1, ENTRY_BYTES * self._slots)
        self._table = memoryview(self._room).cast("q")
        self._recent: dict[bytes, int] = {}
        """The places of recently put keys, as long as many of them are put again."""
        self._hits = 0
        self._rest = 0
        """The number of keys put before the next attempt to remember them."""
        self.count = 0
        self.latest_offset = NOT_FOUND
        """The last offset that the map covers; nothing is known of the offsets behind it."""

    def put(self, key: bytes, offset: int) -> int:
        """Note the newest offset of a key. Return the one before, ``NOT_FOUND`` for a new key. The map must not be
        full."""
        table = self._table
        if self._rest == 0:
            known = self._recent.get(key)
            if known is not None:
                self._hits += 1
                found: int = table[known]
                table[known] = offset + 1
                return found - 1
        low: i64
        high: i64
        if _IS_SIPHASH:
            low = hash(key)
            high = hash(_SALT + key)
        else:
            low, high = _digest(key)
        place = self._place(low, high)
        before: int = table[place + 2]
        if before == 0:
            table[place] = low
            table[place + 1] = high
            self.count += 1
        table[place + 2] = offset + 1
        if self._rest > 0:
            self._rest -= 1
        elif len(key) <= _REMEMBERED_BYTES:
            self._remember(key, place + 2)
        return before - 1

    def _remember(self, key: bytes, place: int) -> None:
        recent = self._recent
        if len(recent) >= _MOST_REMEMBERED:
            if self._hits < len(recent):
                self._rest = _REST * _MOST_REMEMBERED
            self._hits = 0
            recent.clear()
        recent[key] = place

    def get(self, key: bytes) -> int:
        """The newest offset of a key, ``NOT_FOUND`` if it was not put."""
        low: i64
        high: i64
        if _IS_SIPHASH:
            low = hash(key)
            high = hash(_SALT + key)
        else:
            low, high = _digest(key)
        found: int = self._table[self._place(low, high) + 2]
        return found - 1

    def _place(self, low: "i64", high: "i64") -> "i64":
        """The place in the table where the key is, or would be put."""
        table = self._table
        slots: i64 = self._slots
        slot: i64 = (low & _POSITIVE) % slots
        step: i64 = (high & _POSITIVE) % slots
        hops: i64 = 0
        while True:
            place: i64 = 3 * slot
            first: i64 = table[place]
            if first == low:
                second: i64 = table[place + 1]
                if second == high:
                    return place
            if first == 0:
                taken: i64 = table[place + 2]
                if taken == 0:
                    return place
            hops += 1
            slot += step if hops < _HOPS else 1
            if slot >= slots:
                slot -= slots

    def close(self) -> None:
        """Free the memory."""
        self._table.release()
        self._room.close()


def _digest(key: bytes) -> tuple[int, int]:
    digest = md5(key, usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big", signed=True), int.from_bytes(digest[8:], "big", signed=True)
