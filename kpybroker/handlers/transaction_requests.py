"""What the handlers of transactions have in common: the event a request becomes, and where it goes. Not a handler."""

from collections.abc import Callable
from typing import Any

from kpybroker.handlers.context import Context
from kpybroker.transactions.events import TransactionRequest


def transaction_request(
    broker: Context, message: Any, api_version: int, *, new_producer_id: int = -1, group_partition: int = -1
) -> Callable[[Any], TransactionRequest]:
    """Makes the event of a request once the ticket is known."""
    timestamp_ms = broker.scheduler.now_ms()

    def event(ticket: Any) -> TransactionRequest:
        return TransactionRequest(ticket, message, api_version, timestamp_ms, new_producer_id, group_partition)

    return event
