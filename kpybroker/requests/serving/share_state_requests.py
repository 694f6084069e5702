"""The code that the handlers of share partitions' states share (Kafka: ``ShareCoordinatorService``).

A request is divided: each share partition is asked of the shard that keeps it. Of a share partition that is named
twice, the last answer is sent. (Kafka sends the answers in the order of its hash tables.)
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from kpybroker.machines.share_coordinator.events import StateRequest
from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.requests import refused
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.runtime.calls.gathered import gathered
from kpybroker.runtime.calls.steps import each
from kpywire import error_codes

Asked = tuple[bytes, int]
"""A topic id and a partition."""


def ask(
    broker: Context, request: Any, action: str, combine: Callable[[list[tuple[bytes, list[Any]]]], Any]
) -> Generator[None, None, Any]:
    """Ask for each share partition of a request. ``combine`` makes the response from the results of each topic.

    ``action`` says in messages of errors what was to be done. A request without a group is answered with nothing.
    """
    if not request.group_id:
        return combine([])
    parts = [(topic.topic_id, part) for topic in request.topics for part in topic.partitions]
    answers = yield from each(parts, lambda part: _ask(broker, request.group_id, action, *part))
    names = [(topic_id, part.partition) for topic_id, part in parts]
    return gathered(answers, lambda results: combine(_by_topic(names, results)))


def has_empty_topic(request: Any) -> bool:
    """Whether a topic of a request names no partitions. Kafka answers most such requests with nothing."""
    return any(not topic.partitions for topic in request.topics)


def _ask(broker: Context, group_id: str, action: str, topic_id: bytes, part: Any) -> Any:
    key = SharePartitionKey(group_id, topic_id, part.partition)
    timestamp_ms = broker.scheduler.now_ms()

    def refuse(code: int) -> Any:
        return refused(part, coordinator_error(code), f"Unable to {action}: {error_codes.message(code)}")

    return broker.share_states.submit(
        str(key),
        lambda ticket: StateRequest(ticket, key, part, timestamp_ms),
        refuse,
        timeout_ms=int(broker.config["share.coordinator.write.timeout.ms"]),
    )


def _by_topic(names: Sequence[Asked], results: Sequence[Any]) -> list[tuple[bytes, list[Any]]]:
    topics: dict[bytes, dict[int, Any]] = {}
    for (topic_id, partition), result in zip(names, results, strict=True):
        topics.setdefault(topic_id, {})[partition] = result
    return [(topic_id, list(partitions.values())) for topic_id, partitions in topics.items()]
