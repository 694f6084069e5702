"""AllocateProducerIds: blocks of producer ids, never handed out twice (KIP-730)."""

from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1_000
MAX_PRODUCER_ID = 2**63 - 1


def allocate_producer_ids(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Give a broker the next block of producer ids."""
    message: AllocateProducerIdsRequest = request.message
    state.broker(message.broker_id, message.broker_epoch)
    first = max(state.image.next_producer_id, 0)
    if first > MAX_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(
            error_codes.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    record = ProducerIdsRecord(
        broker_id=message.broker_id, broker_epoch=message.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return [record], AllocateProducerIdsResponse(
        throttle_time_ms=0, error_code=error_codes.NONE, producer_id_start=first, producer_id_len=BLOCK_SIZE
    )
