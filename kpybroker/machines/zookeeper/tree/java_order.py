"""The order in which Java writes the keys of ``Properties``: that of its hash table (``ConcurrentHashMap``). Pure.

Kafka writes configs in this order. It makes no difference to readers; equal bytes make two trees easy to compare.
"""

from collections.abc import Iterable
from typing import Final

_FIRST_TABLE: Final = 16
"""The length of the table of new ``Properties``."""
_Bin = list[tuple[int, str]]


def in_java_order(keys: Iterable[str]) -> list[str]:
    """The keys, which were put in this order, as Java lists them."""
    table: list[_Bin] = [[] for _ in range(_FIRST_TABLE)]
    for count, key in enumerate(keys, 1):
        spread = _spread(key)
        table[spread & len(table) - 1].append((spread, key))
        if count >= len(table) * 3 // 4:
            table = _doubled(table)
    return [key for each in table for _, key in each]


def _spread(key: str) -> int:
    """The hash code of a string (``String.hashCode``), spread as the table does it."""
    code = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        code = code * 31 + (units[index] << 8 | units[index + 1]) & 0xFFFF_FFFF
    return (code ^ code >> 16) & 0x7FFF_FFFF


def _doubled(table: list[_Bin]) -> list[_Bin]:
    """A table of twice the length. The last run of keys that stay together keeps its order, those before it turn
    round."""
    bit = len(table)
    doubled: list[_Bin] = [[] for _ in range(2 * bit)]
    for index, each in enumerate(table):
        start = len(each)
        while start > 1 and each[start - 2][0] & bit == each[-1][0] & bit:
            start -= 1
        run = max(start - 1, 0)
        for number in (index, index + bit):
            wanted = number & bit
            before = [entry for entry in each[:run] if entry[0] & bit == wanted]
            after = [entry for entry in each[run:] if entry[0] & bit == wanted]
            doubled[number] = [*reversed(before), *after]
    return doubled
