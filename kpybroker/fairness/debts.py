"""The debts of connections that have closed, by address: the next connections from there take them over.

Each debt is taken over by one connection, so a client that comes again is where it was, and others from the same
address are not made to pay for it again and again. A debt that nobody takes over is forgotten after a while.

Invariant: `MOST_ADDRESSES` and for each of them `MOST_DEBTS` are remembered, for `DEBT_LASTS_MS`.
"""

from typing import NamedTuple

from kpybroker.fairness.times import DEBT_LASTS_MS, MOST_ADDRESSES, MOST_DEBTS, NEWCOMER_OWES_NS


class Debt(NamedTuple):
    """The debt of one connection."""

    owed_ns: int
    is_long: bool
    """Whether its next request has to wait for the account."""


NOTHING = Debt(NEWCOMER_OWES_NS, is_long=False)
"""The debt of a connection from an address that left none."""


class Debts:
    """All debts that wait for somebody to take them over."""

    def __init__(self) -> None:
        self._of: dict[str, list[tuple[float, Debt]]] = {}
        """By address, the one that left a debt last at the end: when each was left, and the debt."""

    def leave(self, address: str, debt: Debt, now_ms: float) -> None:
        """Note the debt of a connection that has closed."""
        if not debt.is_long and debt.owed_ns <= NEWCOMER_OWES_NS:
            return
        debts = self._of.pop(address, [])
        debts.append((now_ms, debt))
        del debts[:-MOST_DEBTS]
        self._of[address] = debts
        if len(self._of) > MOST_ADDRESSES:
            del self._of[next(iter(self._of))]

    def take(self, address: str, now_ms: float) -> Debt:
        """The debt with which a new connection begins: the one that was left last."""
        debts = self._of.get(address)
        if debts is None:
            return NOTHING
        left_ms, debt = debts.pop()
        if not debts or now_ms - left_ms > DEBT_LASTS_MS:
            del self._of[address]
        return debt if now_ms - left_ms <= DEBT_LASTS_MS else NOTHING
