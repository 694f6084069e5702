"""DeleteShareGroupState (86), version 0: end the states of share partitions.

- A share partition without a state is no error.
- A request without a group is answered with nothing, and so is one with a topic without partitions.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.share_state_requests import ask, has_empty_topic
from kpybroker.runtime.calls.call import Call
from kpywire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
)


def handle(broker: Context, request: DeleteShareGroupStateRequest, _call: Call) -> Generator[None, None, Any]:
    """Ask the shard of each share partition."""
    if has_empty_topic(request):
        return _response([])
    return (yield from ask(broker, request, "delete share group state", _response))


def _response(topics: list[tuple[bytes, list[Any]]]) -> DeleteShareGroupStateResponse:
    results = [DeleteStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    return DeleteShareGroupStateResponse(results=results)
