"""The share coordinator of one partition of ``__share_group_state``: a machine for `kpybroker.machines.journal`.

It decides on the requests of share partitions' leaders and of the group coordinator (Kafka: ``ShareCoordinatorShard``),
deletes the state of deleted topics, and lets the log be cut. The log holds a snapshot of each share partition and the
updates after it, so it can be cut below the oldest of the last snapshots. A share partition in which nothing happens
would hold it back, and gets a new snapshot at intervals.

A decision is short: work over many share partitions is done in slices, each at a deadline that has already passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kpybroker.machines.coordination.events import Loaded, MetadataChanged
from kpybroker.machines.coordination.sweeps import PAUSE_MS
from kpybroker.machines.journal import NOTHING, Effects, EventTooLarge, OutgoingRequest, ProducerEpoch
from kpybroker.machines.share_coordinator import requests
from kpybroker.machines.share_coordinator.decision import ShareDecision
from kpybroker.machines.share_coordinator.events import TO_OWN_LOG, DeleteBelow, Prune, ShareTimersDue, StateRequest
from kpybroker.machines.share_coordinator.record import ShareStateEnd
from kpybroker.machines.share_coordinator.shard import ShareShard
from kpywire import error_codes
from kpywire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kpybroker.machines.share_coordinator.key import SharePartitionKey
    from kpybroker.machines.share_coordinator.record import Record
    from kpybroker.machines.share_coordinator.settings import ShareCoordinatorSettings

WORK_AT_ONCE = 20_000
"""How many share partitions one decision covers."""

_DECIDERS: dict[type, Callable[[ShareShard, StateRequest, ShareDecision], Any]] = {
    delete_share_group_state.PartitionData: requests.delete,
    initialize_share_group_state.PartitionData: requests.initialize,
    read_share_group_state.PartitionData: requests.read,
    read_share_group_state_summary.PartitionData: requests.read_summary,
    write_share_group_state.PartitionData: requests.write,
}


class ShareCoordinator:
    """The state machine for the share partitions of one partition. It starts empty, is filled by a replay and gets
    `Loaded`; then it takes requests."""

    def __init__(
        self, settings: Callable[[], ShareCoordinatorSettings], partition_count: Callable[[bytes], int]
    ) -> None:
        """``settings`` is read for every decision. ``partition_count`` returns how many partitions the topic with an
        id has now, 0 if there is none."""
        self.shard = ShareShard()
        self._settings = settings
        self._partition_count = partition_count
        self._cold_due_ms: int | None = None

    def decide(self, event: Any, now_ms: int) -> Effects:
        """Decide on an input. ``now_ms`` is monotonic; the wall clock comes with the event."""
        kind = type(event)
        if kind is EventTooLarge:
            return self._decide_too_large(event.event)
        shard = self.shard
        decision = ShareDecision(now_ms, event.timestamp_ms, self._settings(), self._partition_count)
        if kind is StateRequest:
            decision.reply(event.ticket, _DECIDERS[type(event.part)](shard, event, decision))
        elif kind is ShareTimersDue:
            self._run_timers(decision)
        elif kind is Prune:
            offset = shard.last_redundant_offset()
            return NOTHING if offset is None else Effects(sends=[OutgoingRequest(TO_OWN_LOG, DeleteBelow(offset))])
        elif kind is MetadataChanged:
            deleted = frozenset(event.deleted_ids)
            shard.sweeps.begin([key for key in shard.states if key.topic_id in deleted], _delete)
        elif kind is Loaded:
            self._cold_due_ms = now_ms + decision.settings.cold_snapshot_interval_ms
        else:
            raise TypeError(f"The share coordinator does not handle {kind.__name__}")
        shard.sweeps.due_ms = now_ms + PAUSE_MS
        return Effects(decision.records, replies=decision.replies)

    def apply(self, record: Record, offset: int, _producer: ProducerEpoch | None) -> None:
        """Apply one record of the log, replayed or just written."""
        self.shard.apply(record, offset, self._settings().updates_per_snapshot)

    def apply_marker(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:  # noqa: ARG002
        """Do nothing: no producer writes to ``__share_group_state`` in a transaction."""
        raise ValueError(f"A transaction marker of producer {producer.producer_id} at offset {offset}")

    def next_deadline_ms(self) -> int | None:
        """The time when `ShareTimersDue` has to come, on the clock of ``now_ms``; None if nothing waits for time to
        pass."""
        return self.shard.sweeps.sooner(self._cold_due_ms)

    def _run_timers(self, decision: ShareDecision) -> None:
        shard = self.shard
        if self._cold_due_ms is not None and decision.now_ms >= self._cold_due_ms:
            self._cold_due_ms = decision.now_ms + decision.settings.cold_snapshot_interval_ms
            current = [state.current for state in shard.states.values()]
            # If all are cold already, none of them holds back the log more than another.
            if any(each.create_timestamp_ms == each.write_timestamp_ms for each in current):
                before_ms = decision.timestamp_ms - decision.settings.cold_snapshot_interval_ms
                cold = [each.key for each in current if each.write_timestamp_ms <= before_ms]
                shard.sweeps.begin(cold, _snapshot_if_cold)
        shard.sweeps.advance(shard, decision, WORK_AT_ONCE, _weigh)

    def _decide_too_large(self, event: Any) -> Effects:
        """Refuse a request whose record did not fit into a batch, as Kafka does."""
        if type(event) is not StateRequest:
            return NOTHING
        code = error_codes.UNKNOWN_SERVER_ERROR
        return Effects(replies=[(event.ticket, requests.refused(event.part, code, error_codes.message(code)))])


def _weigh(_key: SharePartitionKey) -> int:
    return 1


def _delete(shard: ShareShard, key: SharePartitionKey, decision: ShareDecision) -> bool:
    if key in shard.states:
        decision.deleted.add(key)
        decision.write(ShareStateEnd(key))
    return True


def _snapshot_if_cold(shard: ShareShard, key: SharePartitionKey, decision: ShareDecision) -> bool:
    """Write the state again, unless it was written or deleted since the sweep began."""
    state = None if key in decision.deleted else shard.states.get(key)
    now_ms, interval_ms = decision.timestamp_ms, decision.settings.cold_snapshot_interval_ms
    if state is not None and now_ms - state.current.write_timestamp_ms >= interval_ms:
        epoch = state.current.snapshot_epoch + 1
        decision.write(state.current._replace(snapshot_epoch=epoch, write_timestamp_ms=now_ms))
    return True
