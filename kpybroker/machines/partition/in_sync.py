"""The replicas of a partition that are in sync, as their leader sees them. Not here: asking the controller.

Only the controller changes the in-sync set. A leader proposes a set without a follower that has not been caught up for
``replica.lag.time.max.ms``, or with one that reached the high watermark and the start of the leader's epoch and may
join. Until it has an answer it counts with the larger of both sets. (Kafka: ``Partition``, ``PartitionState``,
``Replica``; KIP-497, KIP-841, KIP-903.)

Invariant: the committed set is one that the controller has granted; a replica that may be in it always counts.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, NamedTuple, Protocol

from kpybroker.machines.errors import KafkaError
from kpystorage.log_offset import LogOffset
from kpywire import error_codes

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
"""The epoch that a follower sends if it knows nothing of broker epochs: it is not compared."""
_UNKNOWN_END: Final = LogOffset(UNKNOWN_OFFSET)

BACK_TO_COMMITTED: Final = frozenset({error_codes.OPERATION_NOT_ATTEMPTED, error_codes.INELIGIBLE_REPLICA})
"""With these errors the controller answers that the proposal was not and will not be granted."""
WAIT_FOR_METADATA: Final = frozenset(
    {
        error_codes.UNKNOWN_TOPIC_OR_PARTITION,
        error_codes.UNKNOWN_TOPIC_ID,
        error_codes.FENCED_LEADER_EPOCH,
        error_codes.INVALID_UPDATE_VERSION,
        error_codes.INVALID_REQUEST,
        error_codes.NEW_LEADER_ELECTED,
    }
)
"""After these errors only the metadata can show which set is valid: a retried request may have been granted."""


class RegisteredBroker(Protocol):
    """A broker as the metadata describe it."""

    epoch: int
    fenced: bool

    @property
    def is_active(self) -> bool:
        """Whether it is neither fenced nor shutting down."""

    def can_use(self, directory: bytes) -> bool:
        """Whether this log directory of the broker works."""


class Rules:
    """The rules that all leaders of a node share."""

    __slots__ = ("brokers", "lag_max_ms")

    def __init__(self, lag_max_ms: float, brokers: Mapping[int, RegisteredBroker] | None = None) -> None:
        """``lag_max_ms`` is how long a follower may have been behind; ``brokers`` are the registered brokers by id."""
        self.lag_max_ms = lag_max_ms
        self.brokers: Mapping[int, RegisteredBroker] = {} if brokers is None else brokers

    def may_join(self, broker_id: int, broker_epoch: int | None) -> bool:
        """Whether the metadata allow a replica to join the in-sync set: its broker is neither fenced nor shutting down,
        and the process that fetches is the one that is registered. ``broker_epoch`` None: it never fetched.

        In ZooKeeper mode only the controller knows the epochs of brokers, and it decides.
        """
        broker = self.brokers.get(broker_id)
        if broker is None or broker_epoch is None or not broker.is_active:
            return False
        return broker.epoch == UNKNOWN_EPOCH or broker_epoch in (UNKNOWN_EPOCH, broker.epoch)

    def can_use(self, broker_id: int, directory: bytes | None) -> bool:
        """Whether a replica is in a directory that its broker can use, as far as the metadata contain that."""
        broker = self.brokers.get(broker_id)
        return directory is None or broker is None or broker.can_use(directory)

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def is_of_an_earlier_life(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker has registered again since it had this epoch."""
        broker = self.brokers.get(broker_id)
        known = broker is not None and not broker.fenced and broker_epoch != UNKNOWN_EPOCH
        return known and broker is not None and broker.epoch > broker_epoch


class FetchClock:
    """The time of the last fetch of a follower's session. All partitions that it is caught up with share one, so a
    fetch costs nothing for those it does not name."""

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = -inf


class FollowerState:
    """The leader's knowledge of one follower (Kafka's ``ReplicaState``). Times are of a monotonic clock."""

    __slots__ = (
        "_caught_up_ms",
        "_clock",
        "_fetched_ms",
        "broker_epoch",
        "id",
        "leader_end_at_fetch",
        "log_end",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, caught_up_ms: float = -inf) -> None:
        self.id = broker_id
        self.log_end = _UNKNOWN_END
        self.log_start_offset = UNKNOWN_OFFSET
        self.leader_end_at_fetch = UNKNOWN_OFFSET
        self.broker_epoch: int | None = None
        self._fetched_ms = -inf
        self._caught_up_ms = caught_up_ms
        self._clock: FetchClock | None = None
        """Set while every fetch of its session finds it at the end that the leader had at the last fetch noted here."""

    @property
    def fetched_ms(self) -> float:
        """The time of its last fetch."""
        return self._fetched_ms if self._clock is None else max(self._fetched_ms, self._clock.ms)

    @property
    def caught_up_ms(self) -> float:
        """The last time at which it had all records of the leader."""
        return self._caught_up_ms if self._clock is None else max(self._caught_up_ms, self._clock.ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_max_ms: float) -> bool:
        """Whether it is at the leader's end, or was within the last ``lag_max_ms``."""
        return self.log_end.offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms

    def note_fetch(
        self,
        log_end: LogOffset,
        log_start_offset: int,
        broker_epoch: int,
        leader_end_offset: int,
        now_ms: float,
        clock: FetchClock | None,
    ) -> None:
        """Note a fetch. It asks for records from ``log_end`` on, so it has all records before."""
        fetched_ms, caught_up_ms = self.fetched_ms, self.caught_up_ms
        if log_end.offset >= leader_end_offset:
            caught_up_ms = max(caught_up_ms, now_ms)
        elif log_end.offset >= self.leader_end_at_fetch:
            caught_up_ms = max(caught_up_ms, fetched_ms)
        self._caught_up_ms, self._fetched_ms = caught_up_ms, now_ms
        self._clock = clock if log_end.offset >= leader_end_offset else None
        self.log_end = log_end
        self.log_start_offset = log_start_offset
        self.leader_end_at_fetch = max(leader_end_offset, self.leader_end_at_fetch)
        self.broker_epoch = broker_epoch

    def leave_session(self, clock: FetchClock | None) -> None:
        """Stop using this clock: the session no longer fetches the partition, so its clock says nothing about this
        follower."""
        if clock is not None and self._clock is clock:
            self._caught_up_ms, self._fetched_ms = self.caught_up_ms, self.fetched_ms
            self._clock = None

    def begin_epoch(self, leader_end_offset: int, now_ms: float, *, in_sync: bool) -> None:
        """Begin a new epoch of the same leader (``Replica.resetReplicaState``)."""
        self._clock = None
        self.leader_end_at_fetch = leader_end_offset
        self._fetched_ms = self._caught_up_ms = now_ms if in_sync else -inf


class IsrChange:
    """An in-sync set that was proposed to the controller. Two of them are equal only if they are the same object."""

    __slots__ = ("added", "epochs", "isr", "leader_epoch", "partition_epoch", "removed")

    def __init__(
        self,
        isr: tuple[int, ...],
        leader_epoch: int,
        partition_epoch: int,
        added: int | None,
        removed: Sequence[int],
        epochs: Mapping[int, int],
    ) -> None:
        """One replica is ``added``, or some are ``removed``. ``epochs`` are the broker epochs seen in fetches: a
        later registration of a broker may lack records that this one had, so the same proposal must not let it in
        (KIP-903)."""
        self.isr = isr
        self.epochs = epochs
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.added = added
        self.removed = tuple(removed)


class PartitionState(NamedTuple):
    """The state of a partition as the controller has committed it. Replicas are broker ids."""

    leader_epoch: int
    partition_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    directories: Sequence[bytes] = ()
    """The log directories of the replicas; empty if the metadata do not contain them."""


class InSync:
    """The replicas of a partition as its leader sees them. ``isr`` is the set that was granted last."""

    __slots__ = (
        "directories",
        "followers",
        "isr",
        "leaving",
        "min_isr",
        "node_id",
        "partition_epoch",
        "pending",
        "replicas",
        "rules",
    )

    def __init__(self, node_id: int, state: PartitionState, rules: Rules, now_ms: float, min_isr: int) -> None:
        """Nothing is known of the followers yet; those in the set have ``lag_max_ms`` from now to fetch."""
        self.node_id = node_id
        self.partition_epoch = state.partition_epoch
        self.replicas = tuple(state.replicas)
        self.isr = tuple(state.isr)
        self.rules = rules
        self.min_isr = min_isr
        self.directories = dict(zip(state.replicas, state.directories, strict=False))
        self.pending: IsrChange | None = None
        self.followers = {
            broker_id: FollowerState(broker_id, now_ms if broker_id in self.isr else -inf)
            for broker_id in self.replicas
            if broker_id != node_id
        }
        self.leaving = self._leaving({})
        """Brokers that are in sync and no replicas any more: in ZooKeeper mode the end of a reassignment takes them out
        of the replicas first. Until they have left the set they may be elected, so they bound the high watermark. (In
        Kafka they do not, and what is committed meanwhile may be lost.)"""

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """All replicas that are in sync or may be by now: the granted set, and the one that was proposed to join."""
        pending = self.pending
        return self.isr if pending is None or pending.added is None else pending.isr

    @property
    def effective_min_isr(self) -> int:
        """How many replicas have to be in sync; a partition with fewer replicas than the minimum needs them all."""
        return min(self.min_isr, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether no records can be committed now, since too few replicas would have them (KIP-966)."""
        return len(self.isr) < self.effective_min_isr

    # What the metadata say

    def assign(self, state: PartitionState) -> bool:
        """Take over the committed state; False if the controller has already answered with a newer one.

        A state with the current partition epoch does not end a proposal. The proposal may still be granted, so the
        replica that it adds has to count (Kafka drops it here, and could commit records that such a replica lacks).
        """
        _, partition_epoch, replicas, isr, directories = state
        if partition_epoch < self.partition_epoch:
            return False
        pending = self.pending
        if partition_epoch > self.partition_epoch or (pending is not None and not set(pending.isr) <= set(replicas)):
            self.pending = None
        self.partition_epoch = partition_epoch
        self.isr = tuple(isr)
        self.directories = dict(zip(replicas, directories, strict=False))
        if tuple(replicas) != self.replicas:
            self.replicas = tuple(replicas)
            known = self.followers | {each.id: each for each in self.leaving}
            self.followers = {
                broker_id: known.get(broker_id) or FollowerState(broker_id)
                for broker_id in self.replicas
                if broker_id != self.node_id
            }
            self.leaving = self._leaving(known)
        return True

    def _leaving(self, known: Mapping[int, FollowerState]) -> tuple[FollowerState, ...]:
        return tuple(
            known.get(broker_id) or FollowerState(broker_id)
            for broker_id in self.isr
            if broker_id != self.node_id and broker_id not in self.replicas
        )

    def begin_epoch(self, leader_end_offset: int, now_ms: float) -> None:
        """Begin another epoch of this leader."""
        for follower in self.followers.values():
            follower.begin_epoch(leader_end_offset, now_ms, in_sync=follower.id in self.isr)

    # What followers show

    def follower(self, broker_id: int, *, knows_epoch: bool) -> FollowerState:
        """The state of a replica that fetches.

        Raises:
            KafkaError: this leader does not know the replica. UNKNOWN_LEADER_EPOCH if both have the same epoch, so that
            one of
                them has yet to learn of the other's replicas (KIP-841), else NOT_LEADER_OR_FOLLOWER.
        """
        follower = self.followers.get(broker_id)
        if follower is None:
            code = error_codes.UNKNOWN_LEADER_EPOCH if knows_epoch else error_codes.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(code)
        return follower

    def check_life(self, broker_id: int, broker_epoch: int) -> None:
        """Refuse a fetch that a broker sent before it registered again (KIP-903)."""
        if self.rules.is_of_an_earlier_life(broker_id, broker_epoch):
            raise KafkaError(
                error_codes.NOT_LEADER_OR_FOLLOWER, f"Received stale fetch state update. broker epoch={broker_epoch}"
            )

    def holding_back(self, leader_end_offset: int, now_ms: float) -> tuple[FollowerState, ...]:
        """The followers whose log ends bound the high watermark: those of the maximal set, and those that are about to
        join, which could not reach a high watermark that runs ahead of them. A replica whose log directory failed is
        not about to join (Kafka waits for it as long as it would count as caught up)."""
        isr, rules = self.maximal_isr, self.rules
        return tuple(
            follower
            for follower in self.followers.values()
            if follower.id in isr
            or (
                follower.is_caught_up(leader_end_offset, now_ms, rules.lag_max_ms)
                and rules.may_join(follower.id, follower.broker_epoch)
                and rules.can_use(follower.id, self.directories.get(follower.id))
            )
        ) + tuple(follower for follower in self.leaving if follower.id in isr)

    def low_watermark(self, own_log_start_offset: int) -> int:
        """The smallest log start of all replicas with live brokers; -1 while one of them is unknown."""
        alive = (each.log_start_offset for each in self.followers.values() if self.rules.is_alive(each.id))
        return min((own_log_start_offset, *alive))

    # What is proposed

    def out_of_sync(self, leader_end_offset: int, now_ms: float) -> list[int]:
        """The replicas that have not been caught up for too long."""
        followers, lag_max_ms = self.followers, self.rules.lag_max_ms
        return [
            broker_id
            for broker_id in self.isr
            if broker_id != self.node_id
            and not (
                broker_id in followers and followers[broker_id].is_caught_up(leader_end_offset, now_ms, lag_max_ms)
            )
        ]

    def shrink(self, leader_epoch: int, leader_end_offset: int, now_ms: float) -> IsrChange | None:
        """Propose the set without the replicas that are out of sync, if there are any and nothing else is proposed."""
        if self.pending is not None:
            return None
        removed = self.out_of_sync(leader_end_offset, now_ms)
        if not removed:
            return None
        isr = tuple(broker_id for broker_id in self.isr if broker_id not in removed)
        self.pending = IsrChange(isr, leader_epoch, self.partition_epoch, None, removed, self._epochs())
        return self.pending

    def expand(self, broker_id: int, leader_epoch: int, needed_offset: int) -> IsrChange | None:
        """Propose the set with a follower that has everything below ``needed_offset``, if it may join."""
        if self.pending is not None or broker_id in self.isr:
            return None
        follower = self.followers.get(broker_id)
        if follower is None or follower.log_end.offset < needed_offset:
            return None
        if not self.rules.may_join(broker_id, follower.broker_epoch):
            return None
        isr = (*self.isr, broker_id)
        self.pending = IsrChange(isr, leader_epoch, self.partition_epoch, broker_id, (), self._epochs())
        return self.pending

    def _epochs(self) -> dict[int, int]:
        return {each.id: each.broker_epoch for each in self.followers.values() if each.broker_epoch is not None}

    def with_epochs(self, change: IsrChange, own_epoch: int) -> list[tuple[int, int]]:
        """The brokers of a proposed set with their epochs, -1 where none was seen."""
        seen = {**change.epochs, self.node_id: own_epoch}
        return [(broker_id, seen.get(broker_id, UNKNOWN_EPOCH)) for broker_id in change.isr]

    # What is answered

    def granted(self, change: IsrChange, leader_epoch: int, partition_epoch: int, isr: Sequence[int]) -> bool:
        """Take over the set that the controller answered with; whether that is news."""
        if self.pending is not change or leader_epoch != change.leader_epoch:
            return False
        if partition_epoch < self.partition_epoch:
            return False
        self.isr, self.partition_epoch, self.pending = tuple(isr), partition_epoch, None
        return True

    def refused(self, change: IsrChange, error_code: int) -> bool:
        """Handle a refusal of the controller; whether the change has to be proposed again."""
        if self.pending is not change:
            return False
        if error_code in BACK_TO_COMMITTED:
            self.pending = None
            return False
        return error_code not in WAIT_FOR_METADATA
