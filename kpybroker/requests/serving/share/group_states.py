"""The states that a group's coordinator wants initialised or deleted, asked of the share coordinators.

(Kafka: ``GroupCoordinatorService.persisterInitialize``.)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kpybroker.machines.groups.share.events import Initialize
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.share.states import ask_all
from kpybroker.runtime.calls.pending import Pending
from kpywire import error_codes
from kpywire.messages import delete_share_group_state, initialize_share_group_state

Results = dict[bytes, list[Any]]
"""The results of share partitions by topic id."""


def initialize(broker: Context, group_id: str, wanted: Initialize, done: Callable[[Results], object]) -> None:
    """Have states initialised."""
    parts = {
        topic_id: [
            initialize_share_group_state.PartitionData(
                partition=index, state_epoch=wanted.state_epoch, start_offset=start_offset
            )
            for index, start_offset in offsets.items()
        ]
        for topic_id, offsets in wanted.start_offsets.items()
    }
    ask_all(broker, group_id, parts, done)


def delete(
    broker: Context, group_id: str, partitions: Mapping[bytes, Sequence[int]], done: Callable[[Results], object]
) -> None:
    """Have states deleted."""
    parts = {
        topic_id: [delete_share_group_state.PartitionData(partition=index) for index in indexes]
        for topic_id, indexes in partitions.items()
    }
    ask_all(broker, group_id, parts, done)


def first_error(results: Results) -> tuple[int, str | None]:
    """The first error among the results with its message; NONE if all is well."""
    for each in (result for some in results.values() for result in some):
        if each.error_code:
            return int(each.error_code), each.error_message
    return error_codes.NONE, None


def then(answer: Any, go_on: Callable[[Any], Any]) -> Any:
    """Go on with an answer that is there, or that comes later; the result, or a `Pending` of it."""
    if not isinstance(answer, Pending):
        return go_on(answer)
    pending = Pending()
    pending.when_cancelled(answer.cancel)

    def deliver(found: Any) -> None:
        result = go_on(found)
        if isinstance(result, Pending):
            pending.when_cancelled(result.cancel)
            result.when_resolved(pending.resolve)
        else:
            pending.resolve(result)

    answer.when_resolved(deliver)
    return pending
