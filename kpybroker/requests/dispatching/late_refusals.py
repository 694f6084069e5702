"""Failed logins whose answers wait for ``connection.failed.authentication.delay.ms``, as in Kafka.

Their connections read nothing meanwhile, and are closed after the answer. So a client that guesses
passwords needs a connection for each guess. The number of those that wait is bounded: one more, and the oldest gets its
answer at once.
"""

from typing import TYPE_CHECKING, Final

from kpybroker.runtime.calls.pending import Pending

if TYPE_CHECKING:
    from kpybroker.requests.server.connection import Connection
    from kpybroker.runtime.io.scheduler import Timer

MOST_WAITING: Final = 1024


class _Refusal:
    """One answer that waits."""

    def __init__(self, connection: "Connection", pending: Pending, reply: bytes | None) -> None:
        self.connection = connection
        self.pending = pending
        self.reply = reply
        self.timer: Timer | None = None


class LateRefusals:
    """The answers that wait, over all listeners of a node."""

    def __init__(self, delay_ms: float, most_waiting: int = MOST_WAITING) -> None:
        self.delay_ms = delay_ms
        self._most_waiting = most_waiting
        self._waiting: dict[_Refusal, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, connection: "Connection", reply: bytes | None) -> Pending:
        """Answer a failed login later, and close its connection then; None for no answer."""
        if len(self._waiting) >= self._most_waiting:
            self._say(next(iter(self._waiting)))
        pending = Pending()
        refusal = _Refusal(connection, pending, reply)
        self._waiting[refusal] = None
        pending.when_cancelled(lambda: self._forget(refusal))
        refusal.timer = connection.server.scheduler.call_later(self.delay_ms, self._say, refusal)
        connection.pause()
        return pending

    def _say(self, refusal: _Refusal) -> None:
        self._forget(refusal)
        refusal.pending.resolve(refusal.reply)
        refusal.connection.close()

    def _forget(self, refusal: _Refusal) -> None:
        self._waiting.pop(refusal, None)
        if refusal.timer is not None:
            refusal.timer.cancel()
            refusal.timer = None
