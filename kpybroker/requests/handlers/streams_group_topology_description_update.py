"""StreamsGroupTopologyDescriptionUpdate (93), version 0: a member describes the topology of its group (KIP-1331).

- Answered UNSUPPORTED_VERSION while ``streams.version`` is below 1, and, with Kafka's words for a broker without a
  plug-in, where ``kpybroker.group.streams.topology.description.max.bytes`` is 0.
- The sender has to be a member (UNKNOWN_MEMBER_ID), and the epoch that of the group's topology (INVALID_REQUEST).
- What a node of its type cannot have is dropped, and what it names twice is kept once, as by Kafka.
- A description that is too large is STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, and not asked for again. If there is no
  room for it, the error is the same, and a member is asked again later.
"""

from collections.abc import Generator
from typing import Final

from kpybroker.machines.groups.streams.descriptions import update_error
from kpybroker.machines.groups.streams.events import StoreDescription
from kpybroker.requests.serving.consumer_protocol import serves_streams_groups
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request, is_blank
from kpybroker.requests.serving.topology_descriptions import (
    InvalidDescription,
    TooLarge,
    encoded,
    most_description_bytes,
)
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work
from kpywire import error_codes
from kpywire.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest

NO_PLUGIN: Final = "The broker has no streams group topology description plugin configured."


def handle(broker: Context, request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call) -> Work:
    """Pass the description to the group's coordinator."""
    if not serves_streams_groups(broker):
        return update_error(error_codes.UNSUPPORTED_VERSION)
    most_bytes = most_description_bytes(broker)
    if not most_bytes:
        return update_error(error_codes.UNSUPPORTED_VERSION, NO_PLUGIN)
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
        if is_blank(value):
            return update_error(error_codes.INVALID_REQUEST, f"{name} can't be empty.")
    message = yield from _to_store(request, most_bytes)
    return broker.groups.submit(
        request.group_id,
        group_request(broker, message, call),
        lambda code: update_error(coordinator_error(code)),
        timeout_ms=commit_timeout_ms(broker),
    )


def _to_store(
    request: StreamsGroupTopologyDescriptionUpdateRequest, most_bytes: int
) -> Generator[None, None, StoreDescription]:
    names = request.group_id, request.member_id, request.topology_epoch
    try:
        return StoreDescription(*names, (yield from encoded(request, most_bytes)))
    except InvalidDescription as fault:
        return StoreDescription(*names, b"", str(fault))
    except TooLarge:
        return StoreDescription(*names, None)
