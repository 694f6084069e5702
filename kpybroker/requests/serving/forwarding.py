"""The forwarding of requests to the active controller."""

from collections.abc import Callable
from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending


def forward(broker: Context, request: Any, call: Call, complete: Callable[[Any], Any] | None = None) -> Pending:
    """Send a client's request to the active controller in its own version. The answer is the response, after
    ``complete``."""
    pending = Pending()

    def answer(response: Any) -> None:
        if not pending.resolved:
            pending.resolve(response if complete is None else complete(response))

    broker.controller.forward(request, call, answer)
    return pending
