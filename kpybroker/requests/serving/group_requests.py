"""The code that the handlers of groups share: the event that a request becomes, and Kafka's errors for it.

(Kafka: ``GroupCoordinatorService``, ``CoordinatorOperationExceptionHelper``.)
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final

from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.offsets.large_commit import LargeCommit
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls import address
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes

_ANSWERED_AS: Final = {
    error_codes.NETWORK_EXCEPTION: error_codes.COORDINATOR_LOAD_IN_PROGRESS,
    error_codes.UNKNOWN_TOPIC_OR_PARTITION: error_codes.COORDINATOR_NOT_AVAILABLE,
    error_codes.NOT_ENOUGH_REPLICAS: error_codes.COORDINATOR_NOT_AVAILABLE,
    error_codes.REQUEST_TIMED_OUT: error_codes.COORDINATOR_NOT_AVAILABLE,
    error_codes.NOT_LEADER_OR_FOLLOWER: error_codes.NOT_COORDINATOR,
    error_codes.KAFKA_STORAGE_ERROR: error_codes.NOT_COORDINATOR,
    error_codes.MESSAGE_TOO_LARGE: error_codes.UNKNOWN_SERVER_ERROR,
    error_codes.RECORD_LIST_TOO_LARGE: error_codes.UNKNOWN_SERVER_ERROR,
    error_codes.INVALID_FETCH_SIZE: error_codes.UNKNOWN_SERVER_ERROR,
}

_REMEMBERED_ADDRESSES: Final = 4096
DENIED_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def coordinator_error(code: int) -> int:
    """The error that a coordinator's client gets when the log below the coordinator reports ``code``."""
    return _ANSWERED_AS.get(code, code)


def group_request(
    broker: Context,
    message: Any,
    call: Call,
    *,
    require_stable: bool = False,
    prepared: LargeCommit | None = None,
    visible: Callable[[Collection[str]], Collection[str]] | None = None,
) -> Callable[[Any], GroupRequest]:
    """Return a function that makes the event of a request from its ticket."""
    timestamp_ms = broker.scheduler.now_ms()

    def event(ticket: Any) -> GroupRequest:
        return GroupRequest(
            ticket,
            message,
            call.api_version,
            timestamp_ms,
            call.client_id or "",
            java_address(call.client.host),
            require_stable=require_stable,
            prepared=prepared,
            visible=visible,
            software=call.client.software[0],
        )

    return event


def is_blank(text: str | None) -> bool:
    """Whether a text is there and has nothing but white space and control characters (``String.trim``)."""
    return text is not None and all(character <= " " for character in text)


@lru_cache(_REMEMBERED_ADDRESSES)
def java_address(host: str) -> str:
    """An address as Java's ``InetAddress.toString`` writes it: ``/127.0.0.1``, ``/0:0:0:0:0:0:0:1``."""
    return "/" + address.java_address(host.partition("%")[0])


def commit_timeout_ms(broker: Context) -> int:
    """The longest time that a write of the coordinator may wait to be committed."""
    return broker.config.offsets_commit_timeout_ms
