"""WriteShareGroupState (85), versions 0-1: a leader writes the states of share partitions.

- v1: the number of completed deliveries behind the start offset (KIP-1226).
- An older leader epoch is FENCED_LEADER_EPOCH, an older state epoch FENCED_STATE_EPOCH.
- A share partition that was not initialised is INVALID_REQUEST.
- A request without a group is answered with nothing, and so is one with a topic without partitions.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.share_state_requests import ask, has_empty_topic
from kpybroker.runtime.calls.call import Call
from kpywire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def handle(broker: Context, request: WriteShareGroupStateRequest, _call: Call) -> Generator[None, None, Any]:
    """Ask the shard of each share partition."""
    if has_empty_topic(request):
        return _response([])
    return (yield from ask(broker, request, "write share group state", _response))


def _response(topics: list[tuple[bytes, list[Any]]]) -> WriteShareGroupStateResponse:
    results = [WriteStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    return WriteShareGroupStateResponse(results=results)
