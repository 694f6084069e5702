"""The page on which the positions of a group are set: what is asked for, and what would change. Pure."""

from dataclasses import dataclass
from typing import Final

EARLIEST, LATEST, OFFSET, TIME, SHIFT = "earliest", "latest", "offset", "time", "shift"
TARGETS: Final = {
    EARLIEST: "the first record",
    LATEST: "the end, behind the last record",
    OFFSET: "an offset",
    TIME: "the first record at or after a time (UTC)",
    SHIFT: "some records on, or back if negative",
}
WITH_VALUE: Final = (OFFSET, TIME, SHIFT)
"""The targets that need a value."""


@dataclass(frozen=True, slots=True)
class ResetRow:
    """The new position of a group in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The position now; None without one."""
    offset: int
    moved: int | None
    """The records by which it goes on; negative if it goes back."""
    note: str


@dataclass(frozen=True, slots=True)
class ResetPage:
    """The outcome of a reset of a group, before anything is changed."""

    id: str
    type: str
    target: str
    value: str
    topic: str
    partition: str
    problem: str
    """Why there is nothing to preview, if what is asked for cannot be; empty otherwise."""
    topics: tuple[str, ...]
    """The topics in which the group has positions."""
    members: int
    """Positions are set only while it has no member."""
    rows: tuple[ResetRow, ...]
    plan: str
    """The new positions as lines of topic, partition and offset: what has to be sent to set them."""
    missing: tuple[str, ...]
    """The partitions that are left out, and why."""
    may_reset: bool
