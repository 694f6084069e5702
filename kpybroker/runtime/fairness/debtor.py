"""The debt of one connection: how much more of the loop's time it has used than its share."""

from collections.abc import Callable

from kpybroker.runtime.fairness.line import Line
from kpybroker.runtime.fairness.times import CREDIT_NS, LONG_NS, LONG_WHOLE_NS, MOST_OWED_NS, NEWCOMER_OWES_NS, PIECE_NS
from kpybroker.runtime.fairness.trait import ORDINARY, Trait


class Debtor:
    """A connection with its debt. A connection that owes anything is served in the line."""

    __slots__ = ("_line", "is_admitted", "is_long", "on_long_work", "owed_ns", "slow_kind")

    def __init__(self, line: Line) -> None:
        self._line = line
        self.owed_ns = NEWCOMER_OWES_NS
        self.is_long = False
        """Whether its last request took long and could not be cut into slices."""
        self.on_long_work: Callable[[], object] | None = None
        """Called after such a request: the next connection of its client is charged too (`fairness.debts`)."""
        self.is_admitted = False
        """Whether the account has let it in."""
        self.slow_kind: Trait = ORDINARY
        """The kind of its last request that took longer than a piece should."""

    def settle(self, took_ns: int) -> None:
        """Pay for a piece that used so much CPU. (Time on the clock would also count what other processes used.)"""
        if took_ns <= PIECE_NS:
            self.owed_ns = max(0, self.owed_ns - CREDIT_NS)
        else:
            self.costs(took_ns, is_long=took_ns > (LONG_WHOLE_NS if self.slow_kind.is_whole else LONG_NS))

    def costs(self, took_ns: int, *, is_long: bool) -> None:
        """Add to the debt; ``is_long``: this work could not be cut into slices, and is charged to the account too."""
        self.owed_ns = min(self.owed_ns + took_ns, MOST_OWED_NS)
        self._line.took(took_ns, self)
        if is_long:
            self.is_long = True
            self._line.charge(took_ns)
            if self.on_long_work is not None:
                self.on_long_work()
