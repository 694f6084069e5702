"""ReadShareGroupStateSummary (87), versions 0-1: states without their batches, for lag.

- v1: the number of completed deliveries behind the start offset (KIP-1226).
- A share partition without a state is no error: its start offset is -1.
- A request without a group is answered with nothing, and so is one with a topic without partitions.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.share_state_requests import ask, has_empty_topic
from kpybroker.runtime.calls.call import Call
from kpywire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


def handle(broker: Context, request: ReadShareGroupStateSummaryRequest, _call: Call) -> Generator[None, None, Any]:
    """Ask the shard of each share partition."""
    if has_empty_topic(request):
        return _response([])
    return (yield from ask(broker, request, "read share group state summary", _response))


def _response(topics: list[tuple[bytes, list[Any]]]) -> ReadShareGroupStateSummaryResponse:
    results = [ReadStateSummaryResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    return ReadShareGroupStateSummaryResponse(results=results)
