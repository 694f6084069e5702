"""The freed memory of a broker's process: some is kept, since the next request needs it again.

A request of a megabyte, and its decompressed records, are allocated and freed within a moment. glibc returns such
pieces to the system each time, unless a piece of their size was freed before (mallopt(3): its thresholds follow the
largest freed piece). The kernel then has to provide every page again, which takes two thirds of the CPU that compressed
batches cost. With other allocators this module changes nothing.
"""

from typing import Final

KEPT_BYTES: Final = 4 << 20
"""Pieces below this size come from memory that the process keeps. At most twice as much stays free at its end."""


def keep_freed_memory() -> None:
    """Allocate and free a piece without writing to it, so that smaller ones are kept from now on."""
    bytes(KEPT_BYTES)
