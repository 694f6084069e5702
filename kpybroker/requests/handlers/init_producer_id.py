"""InitProducerId (22), versions 0-5: an identity for an idempotent or a transactional producer.

- Without a transactional id: a new producer id with epoch 0, as in Kafka even if the client sends its old id. An id
  without an epoch, or an epoch without an id, is INVALID_REQUEST (v3, KIP-360).
- With a transactional id: its coordinator answers, and aborts the transaction that its last producer left open. An
  empty id is INVALID_REQUEST. A timeout of 0 or less, or above ``transaction.max.timeout.ms``, is
  INVALID_TRANSACTION_TIMEOUT.
- v4: PRODUCER_FENCED; earlier versions INVALID_PRODUCER_EPOCH (KIP-588). v5: TRANSACTION_ABORTABLE (KIP-890).
- While the controller is not reachable: COORDINATOR_LOAD_IN_PROGRESS, which every client retries.
"""

from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.requests.serving.transaction_requests import transaction_request
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.deferred import Deferred
from kpywire import error_codes
from kpywire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(broker: Context, request: InitProducerIdRequest, call: Call) -> Any:
    """Hand out the next producer id, or ask the coordinator of the transactional id."""
    transactional_id = request.transactional_id
    if (request.producer_id == -1) != (request.producer_epoch == -1) or transactional_id == "":
        return _refused(error_codes.INVALID_REQUEST)
    if transactional_id is not None and not (
        0 < request.transaction_timeout_ms <= broker.config["transaction.max.timeout.ms"]
    ):
        return _refused(error_codes.INVALID_TRANSACTION_TIMEOUT)
    answer = Deferred()

    def receive(producer_id: int | None) -> None:
        if transactional_id is not None:
            answer.deliver(_ask(broker, request, transactional_id, call, -1 if producer_id is None else producer_id))
        elif producer_id is None:
            answer.deliver(_refused(error_codes.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            answer.deliver(
                InitProducerIdResponse(
                    throttle_time_ms=0, error_code=error_codes.NONE, producer_id=producer_id, producer_epoch=0
                )
            )

    broker.producer_ids.next(receive)
    return answer.response


def _ask(broker: Context, request: InitProducerIdRequest, transactional_id: str, call: Call, new_id: int) -> Any:
    return broker.transactions.submit(
        transactional_id,
        transaction_request(broker, request, call.api_version, new_producer_id=new_id),
        lambda code: _refused(coordinator_error(code)),
    )


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
