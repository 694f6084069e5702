"""The records that all clients of a simulation saw, and the verdict of the checker of exactly-once on them."""

from typing import TYPE_CHECKING

from exactly_once.checker import check
from exactly_once.history import Committed, History, Poll, Seen, Transaction

if TYPE_CHECKING:
    from .world import World


class Records:
    """The history, as it grows."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.transactions: list[Transaction] = []
        self.polls: list[Poll] = []
        self.committed: list[Committed] = []

    def verdict(self, log: list[Seen]) -> str:
        """The fault, in a line; nothing if all is well. ``log``: all partitions, read committed to their ends."""
        found = check(History(self.transactions, self.polls, self.committed, log))
        return "" if not found else f"{found[0].kind}: {found[0].evidence} (of {len(found)} anomalies)"
