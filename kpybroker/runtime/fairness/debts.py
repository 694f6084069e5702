"""Long work of clients by address: the next connection from there waits for the account, as the one that worked would.

A client that connects again is therefore where it was. Each piece of long work has one heir, so other clients at the
address do not pay for it again and again, and while the account holds something nobody waits. Where no connection
follows, it is forgotten.

Invariant: `MOST_ADDRESSES` and for each of them `MOST_DEBTS` are remembered, for `DEBT_LASTS_MS`.
"""

from kpybroker.runtime.fairness.times import DEBT_LASTS_MS, MOST_ADDRESSES, MOST_DEBTS


class Debts:
    """The pieces of long work that have no heir yet."""

    def __init__(self) -> None:
        self._of: dict[str, list[float]] = {}
        """By address, the one that worked last at the end: the time of each piece."""

    def leave(self, address: str, now_ms: float) -> None:
        """Note a piece of long work of a connection."""
        times_ms = self._of.pop(address, [])
        times_ms.append(now_ms)
        del times_ms[:-MOST_DEBTS]
        self._of[address] = times_ms
        if len(self._of) > MOST_ADDRESSES:
            del self._of[next(iter(self._of))]

    def take(self, address: str, now_ms: float) -> bool:
        """Whether a new connection has to wait for the account: it is the heir of the last piece."""
        times_ms = self._of.get(address)
        if times_ms is None:
            return False
        is_recent = now_ms - times_ms.pop() <= DEBT_LASTS_MS
        if not times_ms or not is_recent:
            del self._of[address]
        return is_recent
