"""ReadShareGroupState (84), version 0: a leader reads the states of share partitions.

- A newer leader epoch is stored before the answer is sent; an older one is FENCED_LEADER_EPOCH.
- A share partition that was not initialised is INVALID_REQUEST.
- A request without a group is answered with nothing, and so is one with a topic without partitions.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.share_state_requests import ask, has_empty_topic
from kpybroker.runtime.calls.call import Call
from kpywire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)


def handle(broker: Context, request: ReadShareGroupStateRequest, _call: Call) -> Generator[None, None, Any]:
    """Ask the shard of each share partition."""
    if has_empty_topic(request):
        return _response([])
    return (yield from ask(broker, request, "read share group state", _response))


def _response(topics: list[tuple[bytes, list[Any]]]) -> ReadShareGroupStateResponse:
    results = [ReadStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    return ReadShareGroupStateResponse(results=results)
