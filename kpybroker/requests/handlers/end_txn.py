"""EndTxn (26), versions 0-5: commit or abort a transaction.

- Answered when the outcome is decided; the partitions get their markers afterwards. A producer that begins its next
  transaction before that gets CONCURRENT_TRANSACTIONS and retries.
- v2: PRODUCER_FENCED; earlier versions INVALID_PRODUCER_EPOCH. v5: each end gives the producer a new epoch, or a new id
  when the epochs are used up (KIP-890).
"""

from typing import Any, Final

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.requests.serving.transaction_requests import transaction_request
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.deferred import Deferred
from kpywire.messages.end_txn import EndTxnRequest, EndTxnResponse

LAST_EPOCHS: Final = 0x7FFF - 2
"""The first epoch at which a new producer id may be needed."""


def handle(broker: Context, request: EndTxnRequest, call: Call) -> Any:
    """Ask the transaction's coordinator."""
    if request.producer_epoch < LAST_EPOCHS:
        return _ask(broker, request, call, -1)
    answer = Deferred()
    broker.producer_ids.next(lambda new: answer.deliver(_ask(broker, request, call, -1 if new is None else new)))
    return answer.response


def _ask(broker: Context, request: EndTxnRequest, call: Call, new_producer_id: int) -> Any:
    call.client.in_transactions = True
    return broker.transactions.submit(
        request.transactional_id,
        transaction_request(broker, request, call.api_version, new_producer_id=new_producer_id),
        lambda code: _refused(coordinator_error(code)),
    )


def _refused(code: int) -> EndTxnResponse:
    return EndTxnResponse(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
