"""InitProducerId (22), versions 0-5: an identity for an idempotent producer.

- Without a transactional id: a new producer id in epoch 0, also when the client names its old one, as in Kafka; an id
  without an epoch or an epoch without an id is INVALID_REQUEST (v3, KIP-360).
- A transactional id is refused with a fatal error, since transactions are not served; an empty one is INVALID_REQUEST.
- While the controller can't be asked: COORDINATOR_LOAD_IN_PROGRESS, which every client retries.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.server.pending import Pending
from kpywire import error_codes
from kpywire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(broker: Context, request: InitProducerIdRequest, _call: Call) -> InitProducerIdResponse | Pending:
    """Hand out the next producer id."""
    if request.transactional_id == "" or (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(error_codes.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    pending = Pending()

    def receive(producer_id: int | None) -> None:
        if producer_id is None:
            pending.resolve(_refused(error_codes.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            pending.resolve(
                InitProducerIdResponse(
                    throttle_time_ms=0, error_code=error_codes.NONE, producer_id=producer_id, producer_epoch=0
                )
            )

    broker.producer_ids.next(receive)
    return pending


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
