"""The group coordinator of one partition of ``__consumer_offsets``: a machine for `kpybroker.machines.journal`.

It decides how requests of members, the passing of time and changes of the metadata affect the groups of its partition
(Kafka: ``GroupCoordinatorShard``). Durable decisions are records, which are applied before the next input. Requests
that wait, and what they wait for, are soft state and are lost with the machine.

A decision is short. Work over many groups is done in slices, each at a deadline that has already passed, and a decision
on timers ends with the first record. So neither a rebalance of 1 000 members nor the expiry of a million offsets blocks
the loop for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.coordination.events import Loaded, MetadataChanged
from kpybroker.machines.coordination.sweeps import PAUSE_MS
from kpybroker.machines.groups import deletion, listing
from kpybroker.machines.groups.counts import Counts
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import DeleteGroup, ExpireOffsets, GroupRequest, GroupTimersDue, ListGroups
from kpybroker.machines.groups.kind import GroupKind, Tables, merged
from kpybroker.machines.groups.kinds import KINDS
from kpybroker.machines.groups.mixed.downgrade import downgrade
from kpybroker.machines.groups.mixed.kinds import CHANGES
from kpybroker.machines.groups.offsets import commit, expiry, offset_deletion, offset_fetch
from kpybroker.machines.groups.offsets.commit_record import CommitRecord
from kpybroker.machines.groups.offsets.replay import take_commit, take_marker, take_new_commit, take_new_commits
from kpybroker.machines.groups.resting import answer_again
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.journal import Effects, EventTooLarge, Prepared, ProducerEpoch
from kpywire import error_codes
from kpywire.group_records.legacy_offset_commit import LegacyOffsetCommitKey
from kpywire.group_records.offset_commit import OffsetCommitKey
from kpywire.messages.offset_commit import OffsetCommitRequest
from kpywire.messages.offset_delete import OffsetDeleteRequest
from kpywire.messages.offset_fetch import OffsetFetchRequestGroup
from kpywire.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from kpybroker.machines.groups.record import GroupRecord
    from kpybroker.machines.groups.settings import GroupSettings
    from kpybroker.machines.metadata.topic_view import TopicView

WORK_AT_ONCE = 1_000
"""How many groups, members and offsets one slice of a sweep covers. Each takes well under a microsecond."""

REPLIES_AT_ONCE = 2_000
"""A decision on timers ends after this many replies. The other timers that are due follow in the next decision."""

_OF_EVERY_KIND: Final = Tables(
    deciders={
        DeleteGroup: deletion.delete_group,
        ListGroups: listing.list_groups,
        OffsetCommitRequest: commit.commit_offsets,
        OffsetDeleteRequest: offset_deletion.delete_offsets,
        OffsetFetchRequestGroup: offset_fetch.fetch_offsets,
        TxnOffsetCommitRequest: commit.commit_offsets_in_transaction,
    },
    refusals={
        DeleteGroup: deletion.refuse_deletion,
        OffsetCommitRequest: commit.refuse_commit,
        OffsetDeleteRequest: offset_deletion.refuse_offset_deletion,
        TxnOffsetCommitRequest: commit.refuse_transactional_commit,
    },
    events={ExpireOffsets: (expiry.expire_offsets,), MetadataChanged: (offset_deletion.forget_partitions,)},
)
"""The decisions that are the same for groups of every kind."""


class GroupCoordinator:
    """The state machine for the groups of one partition. It starts empty, is filled by a replay and gets `Loaded`; then
    it takes requests."""

    def __init__(
        self,
        settings: Callable[[], GroupSettings],
        topics: Callable[[], TopicView],
        rng: random.Random,
        counts: Counts | None = None,
        members_of_node: Callable[[], int] | None = None,
        kinds: Sequence[GroupKind] = KINDS,
    ) -> None:
        """``settings`` and ``topics`` are read for every decision; ``rng`` makes the ids of members, which should be
        hard to guess. ``counts`` and ``members_of_node``, which counts the members as `members` does, are for all
        coordinators of a node."""
        self.shard = GroupShard(downgrade, counts or Counts(), members_of_node or self.members)
        self._tables = merged((_OF_EVERY_KIND, *(kind.tables for kind in kinds), CHANGES))
        self._settings = settings
        self._topics = topics
        self._rng = rng

    def members(self) -> int:
        """The number of members whose heartbeats this coordinator awaits, or a few more: those that have to give up
        partitions count twice. Members of classic groups are not among them."""
        return len(self.shard.member_timers)

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings of one group as they are now."""
        return self._settings().of_group(group_id)

    def decide(self, event: Any, now_ms: int) -> Effects:
        """Decide on an input. ``now_ms`` is monotonic; the wall clock comes with the event."""
        if isinstance(event, EventTooLarge):
            return self._decide_too_large(event.event, now_ms)
        shard = self.shard
        decision = self._new_decision(event, now_ms)
        producer = None
        if type(event) is GroupRequest:
            producer = self._tables.deciders[type(event.message)](shard, event, decision)
        elif type(event) is GroupTimersDue:
            self._run_timers(decision)
        elif type(event) is Loaded:
            self._begin(decision)
        elif type(event) in self._tables.events:
            for decide in self._tables.events[type(event)]:
                decide(shard, event, decision)
        else:
            raise TypeError(f"The group coordinator does not handle {type(event).__name__}")
        shard.sweeps.due_ms = now_ms + PAUSE_MS
        return Effects(decision.records, producer, decision.replies, (), decision.then)

    def answer_again(self, message: Any, now_ms: int) -> Any | None:
        """The answer to a heartbeat of a member at rest, from which nothing follows. None if a message is to be
        decided. Asked only while all records are committed."""
        shard = self.shard
        repeats = self._tables.repeats
        if type(message) in repeats:
            answer = repeats[type(message)](shard, message, now_ms)
        else:
            answer = answer_again(shard, message, self._settings(), self._topics().version, now_ms)
        if answer is not None:
            shard.sweeps.due_ms = now_ms + PAUSE_MS
        return answer

    def apply(self, record: GroupRecord | CommitRecord | Prepared, offset: int, producer: ProducerEpoch | None) -> None:
        """Apply one record of the log, replayed or just written."""
        if type(record) is Prepared:
            self.shard.next_offset = offset + len(record.records)
            take_new_commits(self.shard, record.records, offset, producer)
            return
        shard = self.shard
        shard.next_offset = offset + 1
        if type(record) is CommitRecord:
            take_new_commit(shard, record, offset, producer)
            return
        kind = type(record.key)
        if kind is OffsetCommitKey or kind is LegacyOffsetCommitKey:
            take_commit(shard, record.key, record.value, offset, producer)
        else:
            self._tables.replays[kind](shard, record.key, record.value)

    def apply_marker(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:
        """Apply the end of a producer's transaction: its pending offsets become valid, or are dropped."""
        self.shard.next_offset = offset + 1
        take_marker(self.shard, producer.producer_id, commit=commit)

    def next_deadline_ms(self) -> int | None:
        """The time when `GroupTimersDue` has to come, on the clock of ``now_ms``; None if nothing waits for time to
        pass.

        It may change with every input, so it has to be read again after each. It may have passed already: then there is
        more work to do.
        """
        shard = self.shard
        deadline_ms = shard.timers.next_deadline_ms()
        return shard.sweeps.sooner(deadline_ms) if shard.sweeps.waiting else deadline_ms

    def _new_decision(self, event: Any, now_ms: int) -> GroupDecision:
        shard = self.shard
        settings, topics = self._settings(), self._topics()
        return GroupDecision(
            now_ms, event.timestamp_ms, settings, topics, self._rng,
            shard.timers, shard.stories, shard.counts, shard.loaded_ms,
        )  # fmt: skip

    def _begin(self, decision: GroupDecision) -> None:
        shard, begins = self.shard, self._tables.begins
        shard.loaded_ms = decision.now_ms

        def visit(shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
            group = shard.groups.get(group_id)
            begin = None if group is None else begins.get(type(group.membership))
            return begin is None or begin(shard, group_id, decision)

        loaded = [
            group_id
            for group_id, group in shard.groups.items()
            if group.membership.size and type(group.membership) in begins
        ]
        if loaded:
            shard.sweeps.begin(loaded, visit)

    def _run_timers(self, decision: GroupDecision) -> None:
        timers = self.shard.timers
        while not decision.records and len(decision.replies) < REPLIES_AT_ONCE:
            timer = timers.pop_due(decision.now_ms)
            if timer is None:
                self.shard.sweeps.advance(self.shard, decision, WORK_AT_ONCE, self._size_of)
                return
            timer.fire(*timer.context, decision)

    def _size_of(self, group_id: str) -> int:
        group = self.shard.groups.get(group_id)
        return 0 if group is None else group.size

    def _decide_too_large(self, event: Any, now_ms: int) -> Effects:
        """Refuse an event whose records did not fit into a batch, as Kafka does."""
        shard = self.shard
        decision = self._new_decision(event, now_ms)
        tables, kind = self._tables, type(getattr(event, "message", None))
        if kind in tables.group_refusals:
            tables.group_refusals[kind](shard, event, decision)
        elif kind in tables.refusals:
            tables.refusals[kind](event, error_codes.UNKNOWN_SERVER_ERROR, decision)
        return Effects(replies=decision.replies)
