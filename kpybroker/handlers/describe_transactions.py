"""DescribeTransactions (65), version 0: what the coordinator knows of transactional ids (KIP-664).

- Each is answered by itself: TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.group_requests import coordinator_error, gathered
from kpybroker.server.slices import each
from kpybroker.transactions.describe import undescribed
from kpybroker.transactions.events import DescribeTransaction
from kpywire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(broker: Context, request: DescribeTransactionsRequest, _call: Call) -> Generator[None, None, Any]:
    """Ask the coordinator about each."""
    states = yield from each(request.transactional_ids, lambda transactional_id: _describe(broker, transactional_id))
    return gathered(states, _together)


def _describe(broker: Context, transactional_id: str) -> Any:
    timestamp_ms = broker.scheduler.now_ms()
    return broker.transactions.submit(
        transactional_id,
        lambda ticket: DescribeTransaction(ticket, transactional_id, timestamp_ms),
        lambda code: undescribed(transactional_id, coordinator_error(code)),
        writes=False,
    )


def _together(states: list[TransactionState]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states)
