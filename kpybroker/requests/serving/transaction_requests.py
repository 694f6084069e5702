"""The event that a request about a transaction becomes. Used by several handlers; not a handler itself."""

from collections.abc import Callable
from typing import Any

from kpybroker.machines.transactions.events import TransactionRequest
from kpybroker.requests.serving.context import Context


def transaction_request(
    broker: Context, message: Any, api_version: int, *, new_producer_id: int = -1, group_partition: int = -1
) -> Callable[[Any], TransactionRequest]:
    """Return a function that makes the event of a request from its ticket."""
    timestamp_ms = broker.scheduler.now_ms()

    def event(ticket: Any) -> TransactionRequest:
        return TransactionRequest(ticket, message, api_version, timestamp_ms, new_producer_id, group_partition)

    return event
