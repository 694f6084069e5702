"""The few facts about a kind of request that decide when it is served."""

from typing import Final


class Trait:
    """One kind of request. Kinds are compared by identity: each has a `Trait` of its own."""

    __slots__ = ("goes_first", "is_greeting", "is_whole", "overlaps")

    def __init__(
        self, *, overlaps: bool = False, goes_first: bool = False, is_whole: bool = False, is_greeting: bool = False
    ) -> None:
        self.overlaps = overlaps
        """Whether the next one of a connection may start before this one is answered."""
        self.goes_first = goes_first
        """Whether others wait for its end, so that it is served before all other requests (`fairness.aside`)."""
        self.is_whole = is_whole
        """Whether it is decided in one piece, whatever its size."""
        self.is_greeting = is_greeting
        """Whether it is served to everybody, and asks for nothing yet."""


ORDINARY: Final = Trait()
"""A request that is none of these."""
