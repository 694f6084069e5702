"""Requests that the active controller decides: sent on as they are, answered with what it answers.

On one node the controller sits in the same process and the same messages take the same way (KIP-590 without its
envelope). The handler modules of these API keys only say what belongs to their key.
"""

from collections.abc import Callable
from typing import Any

from kpybroker.handlers.context import Call, Context
from kpybroker.server.pending import Pending


def forward(broker: Context, request: Any, call: Call, complete: Callable[[Any], Any] | None = None) -> Pending:
    """Send a request to the active controller in its own version; the response, completed if need be, is the answer."""
    pending = Pending()

    def answer(response: Any) -> None:
        if not pending.resolved:
            pending.resolve(response if complete is None else complete(response))

    broker.controller.send(request, answer, api_version=call.api_version)
    return pending
