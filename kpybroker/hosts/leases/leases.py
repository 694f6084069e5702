"""The leases of one node: who has borrowed which segments, until when. Pure.

Invariants: a segment is in one lease only, since each lease has names of its own; a lease that has ended is given out
once, with all its segments; there are never more than `MOST_LEASES`, nor more lent segments than `MOST_SEGMENTS`.
"""

from typing import Final

from kpystorage.lending import LentSegment

MOST_LEASES: Final = 1_000
MOST_SEGMENTS: Final = 100_000
"""Each lent segment holds two names, and its space after it was deleted."""
SHORTEST_MS: Final = 1_000
LONGEST_MS: Final = 24 * 3_600_000
DEFAULT_MS: Final = 10 * 60_000


class TooManyLeases(Exception):
    """No lease can be given until others have ended."""


class LeaseEnded(Exception):
    """A lease that has ended gets no more segments."""


class Lease:
    """One lease."""

    __slots__ = ("duration_ms", "ends_ms", "segments")

    def __init__(self, duration_ms: int) -> None:
        self.duration_ms = duration_ms
        self.ends_ms: int | None = None
        """The time when it ends; None as long as its segments are being lent, since nobody can renew it then."""
        self.segments: list[LentSegment] = []


class Leases:
    """All leases of a node, by id."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}
        self._segments = 0

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def segments(self) -> int:
        """The number of segments that are lent."""
        return self._segments

    def begin(self, lease_id: int, duration_ms: int) -> None:
        """Begin a lease without segments. Its time begins with the first `renew`. Raises TooManyLeases."""
        if len(self._leases) >= MOST_LEASES:
            raise TooManyLeases(f"there are {MOST_LEASES} leases; end some, or wait until they end")
        self._leases[lease_id] = Lease(max(SHORTEST_MS, min(duration_ms, LONGEST_MS)))

    def add(self, lease_id: int, segments: list[LentSegment]) -> None:
        """Note that segments were lent. Raises TooManyLeases, and LeaseEnded if the lease has ended meanwhile."""
        lease = self._leases.get(lease_id)
        if lease is None:
            raise LeaseEnded("the lease has ended")
        if self._segments + len(segments) > MOST_SEGMENTS:
            raise TooManyLeases(f"{MOST_SEGMENTS} segments are lent; end some leases, or ask for fewer partitions")
        lease.segments += segments
        self._segments += len(segments)

    def renew(self, lease_id: int, now_ms: int) -> int | None:
        """Let a lease last for its duration from now on; that duration, or None if there is no such lease."""
        lease = self._leases.get(lease_id)
        if lease is None:
            return None
        lease.ends_ms = now_ms + lease.duration_ms
        return lease.duration_ms

    def end(self, lease_id: int) -> list[LentSegment] | None:
        """End a lease; the segments to take back, or None if there is no such lease."""
        lease = self._leases.pop(lease_id, None)
        if lease is None:
            return None
        self._segments -= len(lease.segments)
        return lease.segments

    def due(self, now_ms: int) -> list[int]:
        """The leases whose time is over."""
        ends = [(lease_id, lease.ends_ms) for lease_id, lease in self._leases.items()]
        return [lease_id for lease_id, ends_ms in ends if ends_ms is not None and ends_ms <= now_ms]

    def all(self) -> list[int]:
        """All leases."""
        return list(self._leases)

    def next_end_ms(self) -> int | None:
        """The time when the next lease ends; None if there is none."""
        ends = [lease.ends_ms for lease in self._leases.values()]
        return min((each for each in ends if each is not None), default=None)
