"""Work of clients for one worker: the next piece is that of the client that has used the worker least.

A client is known by a name that its connections share, so it gains nothing by more connections, or by new ones. One
that comes after others have worked for a while begins where the one that was served last stands: it neither waits for
all that they have used, nor is paid for the time in which it wanted nothing.

Invariant: two clients that always want something get the worker for the same time, but for one piece of work. At most
`MOST_PARTIES` are remembered beside those that wait.
"""

from collections import deque
from typing import Generic, TypeVar

from kpybroker.runtime.fairness.times import MOST_PARTIES

T = TypeVar("T")


class Parties(Generic[T]):
    """The work that waits, by client."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        self._used_ns: dict[str, int] = {}
        """The time that each client has used, from a common beginning; the one noted last stands last."""
        self._least_ns = 0
        """The time of the client that was served last."""

    def put(self, party: str, work: T) -> None:
        """Let a piece of work wait for its turn."""
        waiting = self._waiting.get(party)
        if waiting is None:
            waiting = self._waiting[party] = deque()
            self._note(party, max(self._used_ns.get(party, 0), self._least_ns))
        waiting.append(work)

    def take(self) -> tuple[str, T] | None:
        """The client whose turn it is, and its work; None if nothing waits."""
        if not self._waiting:
            return None
        party = min(self._waiting, key=self._used_ns.__getitem__)
        self._least_ns = self._used_ns[party]
        waiting = self._waiting[party]
        work = waiting.popleft()
        if not waiting:
            del self._waiting[party]
        return party, work

    def charge(self, party: str, took_ns: int) -> None:
        """Add the time that a piece of a client's work took."""
        self._note(party, self._used_ns.get(party, self._least_ns) + took_ns)

    def _note(self, party: str, used_ns: int) -> None:
        self._used_ns.pop(party, None)
        self._used_ns[party] = used_ns
        if len(self._used_ns) > MOST_PARTIES + len(self._waiting):
            del self._used_ns[next(each for each in self._used_ns if each not in self._waiting)]
