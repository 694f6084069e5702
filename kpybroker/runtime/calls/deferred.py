"""The answer of a handler that needs another result first, which mostly is there at once."""

from typing import Any

from kpybroker.runtime.calls.pending import Pending


class Deferred:
    """An answer, or the `Pending` of one, that is delivered before :attr:`response` is read or later."""

    __slots__ = ("_answer", "_pending")

    def __init__(self) -> None:
        self._answer: Any = None
        self._pending: Pending | None = None

    @property
    def is_there(self) -> bool:
        """Whether the answer was delivered."""
        return self._answer is not None

    def deliver(self, answer: Any) -> None:
        """Set the answer, a response or a `Pending`. To be called exactly once."""
        self._answer = answer
        if self._pending is not None:
            pass_on(answer, self._pending)

    @property
    def response(self) -> Any:
        """The handler's return value: the answer, or a `Pending` of it."""
        if self._answer is not None:
            return self._answer
        self._pending = Pending()
        return self._pending


def pass_on(answer: Any, pending: Pending) -> None:
    """Resolve a `Pending` with an answer. If the answer is a `Pending` itself, do so when it is resolved."""
    if isinstance(answer, Pending):
        pending.when_cancelled(answer.cancel)
        answer.when_resolved(pending.resolve)
    else:
        pending.resolve(answer)
