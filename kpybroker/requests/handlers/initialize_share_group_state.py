"""InitializeShareGroupState (83), version 0: begin the state of share partitions.

- A state that is there begins again with a newer state epoch; an older one is FENCED_STATE_EPOCH.
- A start offset of -1 leaves it to the partition's leader where the group begins to read.
- A request without a group is answered with nothing, and so is a topic without partitions.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.share_state_requests import ask
from kpybroker.runtime.calls.call import Call
from kpywire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
)


def handle(broker: Context, request: InitializeShareGroupStateRequest, _call: Call) -> Generator[None, None, Any]:
    """Ask the shard of each share partition."""
    return (yield from ask(broker, request, "initialize share group state", _response))


def _response(topics: list[tuple[bytes, list[Any]]]) -> InitializeShareGroupStateResponse:
    results = [InitializeStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    return InitializeShareGroupStateResponse(results=results)
