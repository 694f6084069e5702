"""Tiered storage of the partitions that a node leads: what is where, and why nothing is copied. Pure."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.listing import Keys


@dataclass(frozen=True, slots=True)
class TierRow:
    """A partition of a tiered topic."""

    topic: str
    partition: int
    wait: str
    """The kind of the reason: NOTHING, COPYING, TRANSACTION and so on; empty if a copy may begin."""
    reason: str
    """Why no copy begins, in words."""
    until_s: float | None
    """The time after which the wait ends by itself; None if it does not, or if that is unknown."""
    lag_bytes: int
    lag_segments: int
    """The closed segments that are not copied yet."""
    remote_bytes: int
    segments: int
    """The segments in the store."""
    local_bytes: int
    log_start: int
    local_log_start: int
    copied: int
    """The last offset that is copied, -1 if there is none."""
    end: int
    unfinished: int
    """The copies that began and have not ended."""
    last_error: str


@dataclass(frozen=True, slots=True)
class TiersPage:
    """Tiered storage of a node; ``is_on`` is false where it is not configured."""

    store: str
    store_error: str
    """The reason why the last call to the store failed; empty if it did not."""
    page: int
    pages: int
    total: int
    partitions: tuple[TierRow, ...]
    remote_bytes: int
    lag_bytes: int
    lag_segments: int
    """The sums over the partitions that the viewer may see."""
    copy_throttle_ms: float
    fetch_throttle_ms: float
    """The average time that the quotas made copies and reads wait lately."""
    is_on: bool


NOT_CONFIGURED: Final = TiersPage("", "", 1, 1, 0, (), 0, 0, 0, 0.0, 0.0, is_on=False)
TIER_KEYS: Final[Keys[TierRow]] = {
    "partition": lambda row: (row.topic, row.partition),
    "lag": lambda row: row.lag_bytes,
    "why": lambda row: row.reason,
    "remote": lambda row: row.remote_bytes,
    "local": lambda row: row.local_bytes,
    "copied": lambda row: row.copied,
    "unfinished": lambda row: row.unfinished,
    "error": lambda row: row.last_error or None,
}
"""The columns by which a viewer sorts them."""
WORST_FIRST: Final = "-lag"
