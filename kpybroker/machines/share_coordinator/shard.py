"""The state of one partition of ``__share_group_state``, and how its records change it.

Invariant: what a record changes here depends on the records before it alone, so a replay ends where the live shard is.
The number of updates since a snapshot is the exception: it starts over when the updates are cut off the log.

The newest epochs are kept beside the state, as in Kafka: the state of a share partition that is initialised again names
leader epoch 0, while older leaders are still fenced.
"""

from kpybroker.machines.coordination.sweeps import Sweeps
from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.record import Record, ShareSnapshot, ShareStateEnd, Update
from kpybroker.machines.share_coordinator.state_batches import UNCHANGED, combine

NO_EPOCH = -1


class ShareState:
    """One share partition: its state, the newest epochs seen, and the updates since its last snapshot."""

    __slots__ = ("current", "newest_leader_epoch", "newest_state_epoch", "updates")

    def __init__(self, current: ShareSnapshot, state_epoch: int) -> None:
        self.current = current
        self.newest_leader_epoch = current.leader_epoch
        self.newest_state_epoch = state_epoch
        self.updates = 0


class ShareShard:
    """The share partitions of one partition of the topic."""

    __slots__ = ("_deleted_at", "_snapshots", "states", "sweeps")

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.sweeps = Sweeps()
        self._snapshots: dict[SharePartitionKey, int] = {}
        """The offset of each last snapshot."""
        self._deleted_at: int | None = None
        """The offset of the last snapshot, if it was a deletion: it bounds what may be cut until the next one."""

    def apply(self, record: Record, offset: int, updates_per_snapshot: int) -> None:
        """Apply one record of the log."""
        if isinstance(record, Update):
            self._update(record)
            return
        self._deleted_at = None
        if isinstance(record, ShareStateEnd):
            self.states.pop(record.key, None)
            self._snapshots.pop(record.key, None)
            self._deleted_at = offset
            return
        self._snapshots[record.key] = offset
        state = self.states.get(record.key)
        if state is None:
            self.states[record.key] = ShareState(record, record.state_epoch)
            return
        state.current = record
        state.newest_leader_epoch = max(state.newest_leader_epoch, record.leader_epoch)
        state.newest_state_epoch = max(state.newest_state_epoch, record.state_epoch)
        if state.updates >= updates_per_snapshot:
            state.updates = 0

    def _update(self, update: Update) -> None:
        key, snapshot_epoch, leader_epoch, start_offset, complete, batches = update
        state = self.states.get(key)
        if state is None:  # its snapshot was cut off the log
            found = ShareSnapshot(key, snapshot_epoch, 0, leader_epoch, start_offset, complete, 0, 0, batches)
            state = self.states[key] = ShareState(found, NO_EPOCH)
        else:
            state.newest_leader_epoch = max(state.newest_leader_epoch, leader_epoch)
            before = state.current
            if start_offset == UNCHANGED:
                start_offset = before.start_offset
            state.current = before._replace(
                start_offset=start_offset,
                delivery_complete_count=complete,
                leader_epoch=before.leader_epoch if leader_epoch == NO_EPOCH else leader_epoch,
                batches=combine(before.batches, batches, start_offset),
            )
        state.updates += 1

    def last_redundant_offset(self) -> int | None:
        """The offset below which no record is needed; None if nothing can be cut off (Kafka:
        ``ShareCoordinatorOffsetsManager``)."""
        offsets = list(self._snapshots.values())
        if self._deleted_at is not None:
            offsets.append(self._deleted_at)
        lowest = min(offsets, default=0)
        return lowest if lowest > 0 else None
