"""What a process of our own does with memory it has given back: it keeps some, since the next request wants it again.

A request of a megabyte, and what it inflates to, are taken and given back in a moment. glibc returns such pieces to the
system each time, unless one of their size was given back before (mallopt(3): its thresholds follow the largest). The
kernel then makes every page anew, which is two thirds of the CPU that compressed batches cost. Elsewhere this changes
nothing.
"""

from typing import Final

KEPT_BYTES: Final = 4 << 20
"""Smaller pieces come from memory that is kept, of which at most twice as much lies free at its end."""


def keep_freed_memory() -> None:
    """Give back a piece that nothing was written to, so that smaller ones are kept from now on."""
    bytes(KEPT_BYTES)
