"""UnregisterController (KIP-1312). The registration of controllers is in ``brokers.py``."""

from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata import metadata_version
from kpywire import error_codes
from kpywire.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from kpywire.metadata_records.unregister_controller_record import UnregisterControllerRecord


def unregister_controller(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Forget a controller that will not come back; one that is alive registers again (KIP-1312)."""
    message: UnregisterControllerRequest = request.message
    if message.controller_id == state.settings.node_id:
        raise KafkaError(error_codes.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if state.image.level < metadata_version.UNREGISTERED_CONTROLLERS:
        text = "The current MetadataVersion is too old to support controller unregistration."
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, text)
    if message.controller_id not in state.image.controllers:
        text = f"Controller ID {message.controller_id} is not currently registered."
        raise KafkaError(error_codes.CONTROLLER_ID_NOT_REGISTERED, text)
    record = UnregisterControllerRecord(controller_id=message.controller_id)
    response = UnregisterControllerResponse(throttle_time_ms=0, error_code=error_codes.NONE, error_message="")
    return [record], response
