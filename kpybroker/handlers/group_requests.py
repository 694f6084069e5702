"""What the handlers of groups have in common: the event a request becomes, Kafka's errors for it, answers of several.

(Kafka: ``GroupCoordinatorService``, ``CoordinatorOperationExceptionHelper``.)
"""

from collections.abc import Callable, Sequence
from ipaddress import IPv6Address
from typing import Any

from kpybroker.groups.events import GroupRequest
from kpybroker.groups.large_commit import LargeCommit
from kpybroker.handlers.context import Call, Context
from kpybroker.server.pending import Pending
from kpywire import error_codes

_ANSWERED_AS = {
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


def coordinator_error(code: int) -> int:
    """What a client of a coordinator is told when the log below it says ``code``."""
    return _ANSWERED_AS.get(code, code)


def group_request(
    broker: Context, message: Any, call: Call, *, require_stable: bool = False, prepared: LargeCommit | None = None
) -> Callable[[Any], GroupRequest]:
    """Makes the event of a request once the ticket is known."""
    timestamp_ms = broker.scheduler.now_ms()

    def event(ticket: Any) -> GroupRequest:
        return GroupRequest(
            ticket,
            message,
            call.api_version,
            timestamp_ms,
            call.client_id or "",
            java_address(call.connection.client_host),
            require_stable,
            prepared,
        )

    return event


def java_address(host: str) -> str:
    """An address as Java's ``InetAddress.toString`` writes it: ``/127.0.0.1``, ``/0:0:0:0:0:0:0:1``."""
    if ":" not in host:
        return f"/{host}"
    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    packed = address.packed
    return "/" + ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, 16, 2))


def commit_timeout_ms(broker: Context) -> int:
    """How long a write of the coordinator may wait to be committed."""
    return int(broker.config["offsets.commit.timeout.ms"])


def gathered(answers: Sequence[Any], combine: Callable[[list[Any]], Any]) -> Any:
    """The response that ``combine`` makes of all answers, in their order, once those are there that were `Pending`."""
    late = [place for place, answer in enumerate(answers) if isinstance(answer, Pending)]
    if not late:
        return combine(list(answers))
    results = list(answers)
    missing = len(late)
    whole = Pending()

    def arrived(place: int, result: Any) -> None:
        nonlocal missing
        results[place] = result
        missing -= 1
        if not missing:
            whole.resolve(combine(results))

    def forget() -> None:
        for place in late:
            answers[place].cancel()

    whole.when_cancelled(forget)
    for place in late:
        answers[place].when_resolved(lambda result, place=place: arrived(place, result))
    return whole
