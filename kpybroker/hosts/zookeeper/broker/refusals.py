"""The answers of a broker that is not the controller to requests for the controller (``KafkaApis``). Pure."""

from typing import Any, Final

from kpybroker.machines.failed_response import failed_response
from kpywire import api, error_codes

_WITH_A_MESSAGE: Final = frozenset(
    {api.ALTER_PARTITION_REASSIGNMENTS, api.LIST_PARTITION_REASSIGNMENTS, api.UPDATE_FEATURES}
)
"""They fail as a whole, with the message of the error, and name no topic."""


def not_controller(request: Any, api_version: int) -> Any:
    """NOT_CONTROLLER as Kafka 3.9 says it for each API."""
    key = type(request).KEY
    if key == api.CONTROLLED_SHUTDOWN:  # ControllerMovedException
        return failed_response(request, api_version, error_codes.STALE_CONTROLLER_EPOCH)
    response = failed_response(request, api_version, error_codes.NOT_CONTROLLER)
    if key in _WITH_A_MESSAGE:
        response = api.response_class(key)(error_code=error_codes.NOT_CONTROLLER)
        response.error_message = error_codes.message(error_codes.NOT_CONTROLLER)
    elif key == api.CREATE_TOPICS:
        for topic in response.topics:
            topic.error_message = ""
    elif key == api.ELECT_LEADERS:
        response.error_code = error_codes.NONE
    return response
