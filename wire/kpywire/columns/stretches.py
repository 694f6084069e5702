"""The stretches of a record section: records that are alike, and records that are found one by one.

Invariant: stretches come out only if the lengths of the records fill the section to its last byte.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from kpywire.columns.alike import Alike, alike
from kpywire.columns.walked import Walked
from kpywire.columns.walking import walk
from kpywire.errors import Malformed

SMALLEST_BYTES: Final = 7
"""A record has one byte for each of its fields at least: so the memory for positions is bounded by that of sections."""
WALKED_AT_ONCE: Final = 256
"""The records that are walked before it is tried again whether the next ones are alike."""


def stretches(section: memoryview, count: int) -> Iterator[Alike | Walked]:
    """The stretches of ``count`` records, in their order.

    Raises:
        Malformed: a length is negative or cut off, or the records do not fill the section.
    """
    if count * SMALLEST_BYTES > len(section):
        raise Malformed(f"{len(section)} bytes are no {count} records")
    whole = b""
    position, left = 0, count
    while left > 0:
        found = alike(section, position, left)
        if found is None:
            whole = whole or bytes(section)
            start, pieces = position, []
            while found is None and left > 0:
                walked, position = walk(whole, position, min(left, WALKED_AT_ONCE))
                pieces.append(np.array(walked, np.int64))
                left -= len(walked)
                found = alike(section, position, left)
            yield Walked(whole[start:position], np.concatenate(pieces) - start)
        if found is not None:
            yield found
            position += found.count * found.size
            left -= found.count
    if position != len(section):
        raise Malformed(f"{len(section) - position} bytes follow the last of {count} records")
