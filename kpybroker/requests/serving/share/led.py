"""One share partition on the leader of its partition: its state, its timer, and the requests that wait for it.

(Kafka: the outside of ``SharePartition``, and ``SharePartitionListener``.) It is loaded from the share coordinator, and
ends with the leadership, with the topic, or when the share coordinator knows of a newer leader.

Invariant: a change counts for members when it is stored. A share partition that has ended changes nothing any more.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.share import acknowledging
from kpybroker.machines.share.acknowledging import Acknowledgement
from kpybroker.machines.share.partition import (
    DeadLetters,
    ImpossibleState,
    SharePartition,
    StartedChange,
    StateWrite,
    StoredStateBatch,
)
from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.share import states
from kpybroker.requests.serving.share.metrics import ShareMetrics
from kpybroker.requests.serving.share.settings import ReadingSettings, start_offset
from kpybroker.requests.serving.time_lookup import when_found
from kpybroker.runtime.calls.pending import Parked
from kpybroker.runtime.io.scheduler import Timer
from kpystorage.errors import StorageError
from kpywire import error_codes
from kpywire.messages import read_share_group_state, write_share_group_state
from kpywire.time_search import Search

Stored = Callable[[int, str | None], object]
"""A callback for an error code and its message: a change is stored, or could not be."""

_MEMBERS_SEE: Final = {
    error_codes.NONE: error_codes.NONE,
    error_codes.NOT_COORDINATOR: error_codes.COORDINATOR_NOT_AVAILABLE,
    error_codes.COORDINATOR_NOT_AVAILABLE: error_codes.COORDINATOR_NOT_AVAILABLE,
    error_codes.COORDINATOR_LOAD_IN_PROGRESS: error_codes.COORDINATOR_NOT_AVAILABLE,
    error_codes.GROUP_ID_NOT_FOUND: error_codes.GROUP_ID_NOT_FOUND,
    error_codes.UNKNOWN_TOPIC_OR_PARTITION: error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    error_codes.FENCED_LEADER_EPOCH: error_codes.NOT_LEADER_OR_FOLLOWER,
    error_codes.FENCED_STATE_EPOCH: error_codes.NOT_LEADER_OR_FOLLOWER,
}
"""The errors of the share coordinator, as members see them; all others are UNKNOWN_SERVER_ERROR."""
_ENDING: Final = frozenset(
    {error_codes.GROUP_ID_NOT_FOUND, error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.NOT_LEADER_OR_FOLLOWER}
)
"""The errors after which a share partition ends, to be loaded again."""


class DeadLetterQueue(Protocol):
    """The dead letters that this node has to write (`kpybroker.requests.serving.share.dead_letter_writer`)."""

    def write(
        self, led: "LedSharePartition", some: Sequence[DeadLetters], settled: Callable[[DeadLetters], object]
    ) -> None:
        """Write dead letters, and call ``settled`` for each range once it is written or given up."""


class LeadingNode(Protocol):
    """The node's share partitions, as one of them sees them (`kpybroker.requests.serving.share.share_leader`)."""

    broker: Context
    metrics: ShareMetrics

    @property
    def dead_letters(self) -> DeadLetterQueue:
        """The dead letters that are to be written."""

    def settings_of(self, group_id: str) -> ReadingSettings:
        """The settings of a group."""

    def drop(self, led: "LedSharePartition", error: KafkaError) -> None:
        """Give up a share partition for this reason."""

    def rest(self, led: "LedSharePartition") -> None:
        """Give up a share partition, unless its group has sessions again, or it has dead letters to write."""


class LedSharePartition:
    """One group at one led partition."""

    __slots__ = (
        "_leader", "_lingers", "_timer", "_timer_at_ms", "end", "is_loaded", "key", "load_started_ms",
        "lock_timeouts", "partition", "replica", "waiting",
    )  # fmt: skip

    def __init__(self, leader: LeadingNode, key: SharePartitionKey, replica: Replica) -> None:
        self._leader = leader
        self.key = key
        self.replica = replica
        settings = leader.settings_of(key.group_id)
        self.partition = SharePartition(replica.led().epoch, settings.partition)
        self.is_loaded = False
        self.end: KafkaError | None = None
        """The reason why it has ended."""
        self.waiting: dict[Parked, None] = {}
        self.lock_timeouts = 0
        """Records whose acquisition locks have ended."""
        self.load_started_ms = leader.broker.scheduler.monotonic_ms()
        self._lingers = False
        """Whether the share partition stays only for its dead letters."""
        self._timer: Timer | None = None
        self._timer_at_ms = 0.0
        replica.commit_waits[self] = None

    def load(self) -> None:
        """Ask for the stored state."""
        part = read_share_group_state.PartitionData(
            partition=self.key.partition, leader_epoch=self.partition.leader_epoch
        )
        states.ask(self._leader.broker, self.key, part, self._loaded)

    def _loaded(self, result: Any) -> None:
        code = _MEMBERS_SEE.get(result.error_code, error_codes.UNKNOWN_SERVER_ERROR)
        if code and self.end is None:
            self._leader.drop(self, KafkaError(code, result.error_message))
        elif self.end is None and result.start_offset < 0:
            party = f"share group {self.key.group_id}"
            when_found(self._leader.broker.labour, party, self._first_start, partial(self._begin, result))
        else:
            self._begin(result, result.start_offset)

    def _first_start(self, search: Search) -> int | KafkaError:
        reset = self._leader.settings_of(self.key.group_id).reset
        try:
            return start_offset(self.replica.led(), reset, self._leader.broker.scheduler.now_ms(), search)
        except KafkaError as error:
            return error
        except StorageError as error:
            return KafkaError(self._leader.broker.replicas.code_of(error), str(error))

    def _begin(self, result: Any, start: int | KafkaError) -> None:
        if self.end is not None:
            return
        try:
            if isinstance(start, KafkaError):
                raise start
            batches = [
                StoredStateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in result.state_batches
            ]
            self.refresh()
            unsettled = self.partition.load(start, result.state_epoch, batches)
        except KafkaError as error:
            self._leader.drop(self, error)
        except ImpossibleState as error:
            text = f"The state of share partition {self.key} contradicts itself: {error}"
            self._leader.drop(self, KafkaError(error_codes.UNKNOWN_SERVER_ERROR, text))
        else:
            self.is_loaded = True
            self._leader.metrics.loaded(self._leader.broker.scheduler.monotonic_ms() - self.load_started_ms)
            self.wake()
            self._write_dead_letters(unsettled)

    def check(self) -> None:
        """Look at the partition, which has changed: more is committed, or this node does not lead it any more."""
        replica = self.replica
        if not replica.is_led_here or replica.partition.leader_epoch != self.partition.leader_epoch:
            code = error_codes.UNKNOWN_TOPIC_OR_PARTITION if replica.gone else error_codes.NOT_LEADER_OR_FOLLOWER
            self._leader.drop(self, KafkaError(code))
        elif self.waiting:
            self.wake()

    def wake(self) -> None:
        """Let waiting requests look again."""
        for each in list(self.waiting):
            each.wake()

    def ended(self, error: KafkaError) -> None:
        """Change nothing any more: another leader may have begun."""
        self.end = error
        self.replica.commit_waits.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        self.wake()

    # Changes by members

    def acknowledge(self, member_id: str, batches: Sequence[Acknowledgement], stored: Stored) -> None:
        """Take acknowledgements of a member."""
        try:
            self.refresh()
            change = acknowledging.acknowledge(self.partition, member_id, batches, self.now_ms())
        except KafkaError as error:
            stored(error.code, error.message or error_codes.message(error.code))
            return
        self.limit_locks()  # some may have been renewed
        self._store(change, stored)

    def release(self, member_id: str) -> None:
        """Take back all records that a member has."""
        self.refresh()
        self._store(acknowledging.release(self.partition, member_id), _has_no_waiters)

    def _store(self, change: StartedChange | None, stored: Stored) -> None:
        if change is None:
            stored(error_codes.NONE, None)
            return
        partition, started = self.partition, change.started

        def answered(result: Any) -> None:
            code = _MEMBERS_SEE.get(result.error_code, error_codes.UNKNOWN_SERVER_ERROR)
            dead_letters = partition.settle(started, is_stored=code == error_codes.NONE)
            self._written(code, result.error_message)
            stored(code, result.error_message)
            self._write_dead_letters(dead_letters)

        self._write(change.write, answered)

    def _write(self, write: StateWrite, answered: Callable[[Any], object]) -> None:
        part = write_share_group_state.PartitionData(
            partition=self.key.partition,
            state_epoch=write.state_epoch,
            leader_epoch=write.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            state_batches=[
                write_share_group_state.StateBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.delivery_state,
                    delivery_count=each.delivery_count,
                )
                for each in write.batches
            ],
        )
        states.ask(self._leader.broker, self.key, part, answered)

    def _written(self, code: int, text: str | None) -> None:
        if self.end is not None:
            return
        if code in _ENDING:
            self._leader.drop(self, KafkaError(code, text))
            return
        self.wake()
        if self._lingers:
            self._leader.rest(self)

    # Dead letters

    def linger(self, *, for_dead_letters: bool) -> None:
        """Stay: for dead letters that are not settled, or since its group has sessions again."""
        self._lingers = for_dead_letters

    def _write_dead_letters(self, dead_letters: Sequence[DeadLetters]) -> None:
        if self.end is None:
            self._leader.dead_letters.write(self, dead_letters, self._settled)

    def _settled(self, dead_letters: DeadLetters) -> None:
        """Archive records whose dead letters are written or given up."""
        self._write(self.partition.archive(dead_letters), self._archived)

    def _archived(self, result: Any) -> None:
        """Go on: records that are archived stay so, stored or not, as those whose locks have ended."""
        self.partition.move_start()
        code = _MEMBERS_SEE.get(result.error_code, error_codes.UNKNOWN_SERVER_ERROR)
        self._written(code, result.error_message)

    # Locks

    def now_ms(self) -> int:
        """The clock of the locks."""
        return int(self._leader.broker.scheduler.monotonic_ms())

    def refresh(self) -> None:
        """Take over the settings of the group, which may have changed."""
        self.partition.settings = self._leader.settings_of(self.key.group_id).partition

    def limit_locks(self) -> None:
        """Set the timer for the lock that ends next."""
        due_ms = self.partition.next_deadline_ms()
        if due_ms is None or self.end is not None or (self._timer is not None and self._timer_at_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        scheduler = self._leader.broker.scheduler
        self._timer_at_ms = due_ms
        self._timer = scheduler.call_later(max(due_ms - scheduler.monotonic_ms(), 0) + 1, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self.end is not None:
            return
        self.refresh()
        expiry = self.partition.expire(self.now_ms())
        if expiry is not None:
            write, dead_letters = expiry
            self.lock_timeouts += sum(each.last_offset - each.first_offset + 1 for each in write.batches)

            def answered(result: Any) -> None:
                self._archived(result)
                self._write_dead_letters(dead_letters)

            self._write(write, answered)
            self.wake()
        self.limit_locks()


def _has_no_waiters(_code: int, _text: str | None) -> None:
    """Ignore the outcome: records that could not be released come back when their locks end."""
