"""The answer of a handler that needs something else first, which is mostly there at once. Not a handler."""

from typing import Any

from kpybroker.server.pending import Pending


class Deferred:
    """An answer, or the `Pending` of one, that somebody delivers: before :attr:`response` is asked for, or later."""

    __slots__ = ("_answer", "_pending")

    def __init__(self) -> None:
        self._answer: Any = None
        self._pending: Pending | None = None

    @property
    def is_there(self) -> bool:
        """Whether the answer was delivered."""
        return self._answer is not None

    def deliver(self, answer: Any) -> None:
        """Here it is: a response or a `Pending`, exactly once."""
        self._answer = answer
        if self._pending is not None:
            _pass_on(answer, self._pending)

    @property
    def response(self) -> Any:
        """What the handler returns."""
        if self._answer is not None:
            return self._answer
        self._pending = Pending()
        return self._pending


def _pass_on(answer: Any, pending: Pending) -> None:
    if isinstance(answer, Pending):
        pending.when_cancelled(answer.cancel)
        answer.when_resolved(pending.resolve)
    else:
        pending.resolve(answer)
