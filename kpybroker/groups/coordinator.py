"""The group coordinator of one partition of ``__consumer_offsets``: a machine for `kpybroker.journal`.

It decides what requests of members, the passing of time and changes of the metadata mean for the groups of its
partition (Kafka: ``GroupCoordinatorShard``). What it decides durably stands in records, which are applied before the
next input; who waits for whom is soft, and dies with the machine.

A decision is short: work over many groups is done in slices, each at a deadline that has come already, and a decision
on timers ends with the first record. So 1 000 members rebalance, or a million offsets expire, without a long stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kpybroker.groups import commit, deletion, describe, expiry, heartbeat, join, leave, offset_fetch, sync
from kpybroker.groups.decision import Decision
from kpybroker.groups.events import (
    DeleteGroup,
    DescribeGroup,
    ExpireOffsets,
    GroupRequest,
    ListGroups,
    Loaded,
    PartitionsDeleted,
    TimersDue,
)
from kpybroker.groups.lookup import wake
from kpybroker.groups.shard import Shard, Sweep
from kpybroker.journal import Effects, Prepared, ProducerEpoch, TooLarge
from kpywire import error_codes
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest
from kpywire.messages.leave_group import LeaveGroupRequest
from kpywire.messages.offset_commit import OffsetCommitRequest
from kpywire.messages.offset_delete import OffsetDeleteRequest
from kpywire.messages.offset_fetch import OffsetFetchRequestGroup
from kpywire.messages.sync_group import SyncGroupRequest
from kpywire.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from kpybroker.groups.group import Group
    from kpybroker.groups.record import Record
    from kpybroker.groups.settings import GroupSettings

WORK_AT_ONCE = 1_000
"""How many groups, members and positions a slice of a sweep looks at; each takes well under a microsecond."""

REPLIES_AT_ONCE = 2_000
"""With as many replies a decision on timers ends; what else is due comes with the next."""

SWEEP_PAUSE_MS = 1

_DECIDERS: dict[type, Callable[[Shard, GroupRequest, Decision], ProducerEpoch | None]] = {
    DeleteGroup: deletion.delete_group,
    DescribeGroup: describe.describe_group,
    HeartbeatRequest: heartbeat.heartbeat,
    JoinGroupRequest: join.join_group,
    LeaveGroupRequest: leave.leave_group,
    ListGroups: describe.list_groups,
    OffsetCommitRequest: commit.commit_offsets,
    OffsetDeleteRequest: deletion.delete_offsets,
    OffsetFetchRequestGroup: offset_fetch.fetch_offsets,
    SyncGroupRequest: sync.sync_group,
    TxnOffsetCommitRequest: commit.commit_offsets_in_transaction,
}

_REFUSALS: dict[type, Callable[[GroupRequest, int, Decision], None]] = {
    DeleteGroup: deletion.refuse_deletion,
    JoinGroupRequest: join.refuse,
    LeaveGroupRequest: leave.refuse,
    OffsetCommitRequest: commit.refuse_commit,
    OffsetDeleteRequest: deletion.refuse_offset_deletion,
    TxnOffsetCommitRequest: commit.refuse_transactional_commit,
}
"""Of requests whose records may not fit into a batch; SyncGroup's refusal touches the whole group."""


class GroupCoordinator:
    """Decides on the groups of one partition. Made empty, filled by a replay, told `Loaded`, then asked."""

    def __init__(self, settings: Callable[[], GroupSettings], rng: random.Random) -> None:
        """``settings`` is asked with every decision; ``rng`` makes the ids of members, which should not be guessed."""
        self.shard = Shard()
        self._settings = settings
        self._rng = rng
        self._sweep_due_ms = 0

    def decide(self, event: Any, now_ms: int) -> Effects:
        """What an input means. ``now_ms`` is monotonic; the wall clock comes with the event."""
        if isinstance(event, TooLarge):
            return self._decide_too_large(event.event, now_ms)
        decision = Decision(now_ms, event.timestamp_ms, self._settings(), self.shard.timers, self._rng)
        producer = None
        if type(event) is GroupRequest:
            producer = _DECIDERS[type(event.message)](self.shard, event, decision)
        elif type(event) is TimersDue:
            self._run_timers(decision)
        elif type(event) is Loaded:
            self._begin(decision)
        elif type(event) is ExpireOffsets:
            expiry.expire_offsets(self.shard)
        elif type(event) is PartitionsDeleted:
            deletion.forget_partitions(self.shard, event.partitions)
        else:
            raise TypeError(f"The group coordinator is not told of {type(event).__name__}")
        self._sweep_due_ms = now_ms + SWEEP_PAUSE_MS
        return Effects(decision.records, producer, decision.replies)

    def apply(self, record: Record | Prepared, offset: int, producer: ProducerEpoch | None) -> None:
        """One record of the log, old or written just now."""
        if type(record) is Prepared:
            for each_offset, each in enumerate(record.records, offset):
                self.shard.apply(each, each_offset, producer)
        else:
            self.shard.apply(record, offset, producer)

    def apply_marker(self, producer: ProducerEpoch, commit: bool, offset: int) -> None:
        """A producer's transaction ended: what it has pending counts, or is forgotten."""
        self.shard.next_offset = offset + 1
        self.shard.apply_marker(producer.producer_id, commit)

    def next_deadline_ms(self) -> int | None:
        """When `TimersDue` is to come, on the clock of ``now_ms``; None if nothing waits for time to pass.

        To be asked anew after every input. It may have passed already: then there is more to do.
        """
        deadline_ms = self.shard.timers.next_deadline_ms()
        if self.shard.sweeps and (deadline_ms is None or deadline_ms > self._sweep_due_ms):
            return self._sweep_due_ms
        return deadline_ms

    def _begin(self, decision: Decision) -> None:
        self.shard.loaded_ms = decision.now_ms
        groups = self.shard.groups.values()
        asleep = [group.group_id for group in groups if group.recorded is not None and group.recorded.members]
        if asleep:
            self.shard.sweeps.append(Sweep(asleep, _wake))

    def _run_timers(self, decision: Decision) -> None:
        timers = self.shard.timers
        while not decision.records and len(decision.replies) < REPLIES_AT_ONCE:
            timer = timers.pop_due(decision.now_ms)
            if timer is None:
                self._sweep(decision)
                return
            timer.fire(*timer.context, decision)

    def _sweep(self, decision: Decision) -> None:
        shard = self.shard
        work = 0
        while shard.sweeps and work < WORK_AT_ONCE and not decision.records:
            group_ids, visit = shard.sweeps[0].group_ids, shard.sweeps[0].visit
            if not group_ids:
                shard.sweeps.popleft()
                continue
            group = shard.groups.get(group_ids.popleft())
            if group is not None:
                work += group.size
                if not visit(shard, group, decision):
                    group_ids.appendleft(group.group_id)

    def _decide_too_large(self, event: Any, now_ms: int) -> Effects:
        """The records of an event did not fit into a batch: say so, as Kafka does."""
        decision = Decision(now_ms, event.timestamp_ms, self._settings(), self.shard.timers, self._rng)
        message = getattr(event, "message", None)
        if type(message) is SyncGroupRequest:
            sync.refuse_too_large(self.shard, event, decision)
        elif type(message) in _REFUSALS:
            _REFUSALS[type(message)](event, error_codes.UNKNOWN_SERVER_ERROR, decision)
        return Effects(replies=decision.replies)


def _wake(_: Shard, group: Group, decision: Decision) -> bool:
    if group.classic is None and group.foreign is None:
        wake(group, decision)
    return True
