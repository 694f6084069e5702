"""The decisions on requests about one share partition, with Kafka's checks in Kafka's order.

- INVALID_REQUEST: a negative partition or epoch, or a share partition that was not initialised.
- FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH: an epoch below the newest one.
- UNKNOWN_TOPIC_OR_PARTITION: the topic is not in the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kpybroker.machines.share_coordinator.record import Record, ShareSnapshot, ShareStateEnd, Update
from kpybroker.machines.share_coordinator.shard import ShareShard, ShareState
from kpybroker.machines.share_coordinator.state_batches import UNCHANGED, StateBatch, combine
from kpywire import error_codes
from kpywire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kpybroker.machines.share_coordinator.decision import ShareDecision
    from kpybroker.machines.share_coordinator.events import StateRequest

NEGATIVE_PARTITION = "The partition id cannot be a negative number."
NEGATIVE_LEADER_EPOCH = "The leader epoch cannot be a negative number."
NEGATIVE_STATE_EPOCH = "The state epoch cannot be a negative number."
WRITE_UNINITIALIZED = "Write operation on uninitialized share partition not allowed."
READ_UNINITIALIZED = "Read operation on uninitialized share partition not allowed."

Refusal = tuple[int, str | None]
"""An error code and its message."""


def initialize(shard: ShareShard, request: StateRequest, decision: ShareDecision) -> Any:
    """Begin the state of a share partition, or begin it again with a newer state epoch."""
    key, part = request.key, request.part
    state = shard.states.get(key)
    refusal = (
        _negative(request, state_epoch=part.state_epoch)
        or _fenced(
            part.state_epoch, None if state is None else state.newest_state_epoch, error_codes.FENCED_STATE_EPOCH
        )
        or _unknown(request, decision)
    )
    if refusal is None:
        epoch = 0 if state is None else state.current.snapshot_epoch + 1
        complete = UNCHANGED if part.start_offset == UNCHANGED else 0
        now_ms = decision.timestamp_ms
        decision.write(ShareSnapshot(key, epoch, part.state_epoch, 0, part.start_offset, complete, now_ms, now_ms, ()))
    return _result(part, refusal)


def write(shard: ShareShard, request: StateRequest, decision: ShareDecision) -> Any:
    """Change the state: by an update, or by a snapshot after a number of updates."""
    part = request.part
    state, refusal = _initialized(shard, request, decision, WRITE_UNINITIALIZED, part.state_epoch)
    if state is not None:
        batches = [
            StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state)
            for each in part.state_batches
        ]
        complete, epoch = part.delivery_complete_count, state.current.leader_epoch
        decision.write(_change(state, decision, part.start_offset, complete, epoch, batches))
    return _result(part, refusal)


def read(shard: ShareShard, request: StateRequest, decision: ShareDecision) -> Any:
    """Answer with the state, and note the leader epoch of the reader if it is newer."""
    part = request.part
    state, refusal = _initialized(shard, request, decision, READ_UNINITIALIZED, None)
    result = _result(part, refusal)
    if state is None:
        return result
    current = state.current
    result.state_epoch, result.start_offset = current.state_epoch, current.start_offset
    result.state_batches = [
        read_share_group_state.StateBatch(
            first_offset=first, last_offset=last, delivery_state=delivery_state, delivery_count=count
        )
        for first, last, count, delivery_state in current.batches
    ]
    if part.leader_epoch != state.newest_leader_epoch:
        complete = current.delivery_complete_count
        decision.write(_change(state, decision, current.start_offset, complete, part.leader_epoch, ()))
    return result


def delete(shard: ShareShard, request: StateRequest, decision: ShareDecision) -> Any:
    """End the state. A share partition without one is no error."""
    refusal = _negative(request) or _unknown(request, decision)
    if refusal is None and request.key in shard.states:
        decision.write(ShareStateEnd(request.key))
    return _result(request.part, refusal)


def read_summary(shard: ShareShard, request: StateRequest, decision: ShareDecision) -> Any:
    """Answer with the state without its batches. A share partition without one is no error."""
    refusal = _negative(request) or _unknown(request, decision)
    result = _result(request.part, refusal)
    if refusal is None:
        state = shard.states.get(request.key)
        if state is None:
            result.start_offset = UNCHANGED
        else:
            current = state.current
            result.state_epoch, result.leader_epoch = current.state_epoch, current.leader_epoch
            result.start_offset = current.start_offset
            result.delivery_complete_count = current.delivery_complete_count
    return result


def _change(
    state: ShareState,
    decision: ShareDecision,
    start_offset: int,
    delivery_complete_count: int,
    leader_epoch: int,
    batches: Sequence[StateBatch],
) -> Record:
    """The record of a change: mostly an update, and a snapshot after a number of updates. The start never goes back."""
    current = state.current
    if start_offset == current.start_offset:
        delivery_complete_count = max(delivery_complete_count, current.delivery_complete_count)
    elif start_offset < current.start_offset:
        delivery_complete_count = current.delivery_complete_count
    start_offset = max(start_offset, current.start_offset)
    if state.updates < decision.settings.updates_per_snapshot:
        new = combine((), batches, start_offset)
        return Update(current.key, current.snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, new)
    return current._replace(
        snapshot_epoch=current.snapshot_epoch + 1,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        create_timestamp_ms=decision.timestamp_ms,
        write_timestamp_ms=decision.timestamp_ms,
        batches=combine(current.batches, batches, start_offset),
    )


def _initialized(
    shard: ShareShard, request: StateRequest, decision: ShareDecision, uninitialized: str, state_epoch: int | None
) -> tuple[ShareState | None, Refusal | None]:
    """The state that a leader may read or write, or the reason why it may not. ``uninitialized`` says that there is
    none. Who reads has no ``state_epoch``."""
    state = shard.states.get(request.key)
    refusal = _negative(request, request.part.leader_epoch, state_epoch)
    if refusal is None and state is None:
        refusal = (error_codes.INVALID_REQUEST, uninitialized)
    if state is None or refusal is not None:
        return None, refusal
    refusal = (
        _fenced(request.part.leader_epoch, state.newest_leader_epoch, error_codes.FENCED_LEADER_EPOCH)
        or _fenced(state_epoch, state.newest_state_epoch, error_codes.FENCED_STATE_EPOCH)
        or _unknown(request, decision)
    )
    return (state, None) if refusal is None else (None, refusal)


def _negative(request: StateRequest, leader_epoch: int | None = None, state_epoch: int | None = None) -> Refusal | None:
    for number, text in (
        (request.key.partition, NEGATIVE_PARTITION),
        (leader_epoch, NEGATIVE_LEADER_EPOCH),
        (state_epoch, NEGATIVE_STATE_EPOCH),
    ):
        if number is not None and number < 0:
            return error_codes.INVALID_REQUEST, text
    return None


def _fenced(epoch: int | None, newest: int | None, code: int) -> Refusal | None:
    if newest is None or epoch is None or epoch >= newest:
        return None
    return code, error_codes.message(code)


def _unknown(request: StateRequest, decision: ShareDecision) -> Refusal | None:
    if request.key.partition < decision.partition_count(request.key.topic_id):
        return None
    code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    return code, error_codes.message(code)


def refused(part: Any, code: int, message: str | None) -> Any:
    """The result of a request that fails. ``part`` is the part of the request."""
    return _RESULTS[type(part)](partition=part.partition, error_code=code, error_message=message)


def _result(part: Any, refusal: Refusal | None) -> Any:
    return refused(part, *(refusal or (error_codes.NONE, None)))


_RESULTS: dict[type, Any] = {
    delete_share_group_state.PartitionData: delete_share_group_state.PartitionResult,
    initialize_share_group_state.PartitionData: initialize_share_group_state.PartitionResult,
    read_share_group_state.PartitionData: read_share_group_state.PartitionResult,
    read_share_group_state_summary.PartitionData: read_share_group_state_summary.PartitionResult,
    write_share_group_state.PartitionData: write_share_group_state.PartitionResult,
}
