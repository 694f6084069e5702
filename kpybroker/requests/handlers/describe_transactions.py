"""DescribeTransactions (65), version 0: the state of transactional ids at their coordinators (KIP-664).

- Each id has its own error: TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
"""

from typing import Any

from kpybroker.machines.transactions.describe import undescribed
from kpybroker.machines.transactions.events import DescribeTransaction
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work, asked_once
from kpywire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(broker: Context, request: DescribeTransactionsRequest, _call: Call) -> Work:
    """Ask the coordinator about each transactional id."""
    ids = request.transactional_ids
    return (yield from asked_once(ids, lambda transactional_id: _describe(broker, transactional_id), _together))


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
