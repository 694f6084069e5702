"""The memory and open files held by replies that clients do not read, over all connections.

A connection whose socket accepts no more data reports how much it holds. Above the limits, the connections that have
made no progress for the longest time are closed. So clients that never read cannot use up what the others need.
"""

from typing import Final, NamedTuple, Protocol


class Holder(Protocol):
    """A connection whose client does not read its replies."""

    last_active_ms: float

    def give_up(self, reason: str) -> None:
        """Close the connection, log the reason, and call `Backlog.release`."""


class HeldResources(NamedTuple):
    """Bytes in memory and files kept open."""

    size_bytes: int
    files: int


NOTHING: Final = HeldResources(0, 0)


class Backlog:
    """The unread replies of all connections. Invariant: above a limit there is at most one holder."""

    def __init__(self, limit: HeldResources) -> None:
        self.limit = limit
        self.size_bytes = 0
        self.files = 0
        self._held: dict[Holder, HeldResources] = {}

    def hold(self, owner: Holder, held: HeldResources) -> None:
        """Record what ``owner`` holds now, in place of what it held before."""
        before = self._held.get(owner, NOTHING)
        self._held[owner] = held
        self.size_bytes += held.size_bytes - before.size_bytes
        self.files += held.files - before.files
        while len(self._held) > 1 and (self.size_bytes > self.limit.size_bytes or self.files > self.limit.files):
            slowest = min(self._held, key=lambda holder: holder.last_active_ms)
            slowest.give_up("it does not read its replies, and too much waits for clients that do not")

    def release(self, owner: Holder) -> None:
        """Forget ``owner``: it has sent everything, or has closed."""
        held = self._held.pop(owner, NOTHING)
        self.size_bytes -= held.size_bytes
        self.files -= held.files
