"""This node's replica of one partition: its log, its role, and the sessions and requests that wait for its changes.

The log is opened, or made, when it is first needed: a node may hold thousands of partitions, whose start costs nothing
then.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.session import CachedPartition
from kpybroker.machines.metadata.topic import Partition
from kpybroker.machines.metadata.topic_name import INTERNAL
from kpybroker.machines.partition.follower import PartitionFollower
from kpybroker.machines.partition.in_sync import UNKNOWN_OFFSET, PartitionState, Rules
from kpybroker.machines.partition.leader import NO_RULES, PartitionLeader
from kpybroker.machines.partition.role import Role
from kpybroker.machines.partition.validation import ValidationConfig
from kpystorage.log import Log
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.config.topic import TopicConfig


class Waiter(Protocol):
    """A request that waits for the high watermark or for the end of a leadership."""

    def check(self) -> None: ...


class HeldTopic:
    """A topic of which this node holds partitions, with the configuration they share."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "config",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "id",
        "is_guarded",
        "is_internal",
        "name",
        "produces",
        "records_in",
        "replicas",
        "validation",
    )

    def __init__(self, name: str, topic_id: bytes, config: "TopicConfig", validation: ValidationConfig) -> None:
        self.name = name
        self.id = topic_id
        self.config = config
        self.validation = validation
        self.is_internal = name in INTERNAL
        self.is_guarded = self.is_internal or config.is_mirror
        """Whether ordinary producers may not write to it."""
        self.replicas: dict[int, Replica] = {}
        self.records_in = self.bytes_in = self.bytes_out = 0
        self.produces = self.failed_produces = self.fetches = self.failed_fetches = 0
        """Partitions in requests, as Kafka counts them; failed are those with an error that Kafka did not expect."""

    def replica(self, index: int) -> "Replica":
        """The replica of a partition; raises KafkaError when this node has none of it."""
        replica = self.replicas.get(index)
        if replica is None:
            raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        return replica


class Replica:
    """One partition as this node holds it.

    ``gone`` is set when the partition was deleted or moved away; ``offline`` when its log directory failed.
    """

    __slots__ = (
        "_monotonic_ms",
        "_node_id",
        "_open_log",
        "_rules",
        "checkpointed_high_watermark",
        "commit_waits",
        "follower",
        "following",
        "gone",
        "index",
        "leader",
        "notified",
        "offline",
        "partition",
        "topic",
        "watchers",
    )

    def __init__(
        self,
        topic: HeldTopic,
        index: int,
        partition: Partition,
        node_id: int,
        open_log: "Callable[[Replica], Log]",
        *,
        monotonic_ms: Callable[[], float] = float,
        rules: Rules = NO_RULES,
    ) -> None:
        """``rules`` are those by which a leader decides which followers are in sync."""
        self.topic = topic
        self.index = index
        self.partition = partition
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.gone = False
        self.offline = False
        self.checkpointed_high_watermark = UNKNOWN_OFFSET
        """The high watermark of the last role when it ended, or the one in the checkpoint of the node's last run."""
        self.watchers: dict[CachedPartition, None] = {}
        """Entries of consumers, in sessions and waiting requests, that are notified once of the next change."""
        self.notified: dict[CachedPartition, None] = {}
        """Entries of consumers that were notified and have not looked since."""
        self.following: dict[CachedPartition, None] = {}
        """Entries of other replicas that fetch here."""
        self.commit_waits: dict[Waiter, None] = {}
        self._node_id = node_id
        self._open_log = open_log
        self._monotonic_ms = monotonic_ms
        self._rules = rules

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    def led(self) -> PartitionLeader:
        """The leader's role, taken up at the first need.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, or UNKNOWN_TOPIC_OR_PARTITION when it is gone.
            DiskFailure: its log could not be opened.
        """
        leader = self.leader
        if leader is not None and not self.offline:
            return leader
        self._check_here()
        partition = self.partition
        if partition.leader != self._node_id:
            raise KafkaError(error_codes.NOT_LEADER_OR_FOLLOWER)
        self.leader = leader = PartitionLeader(
            self._open_log(self),
            self._node_id,
            _state(partition),
            max(self.checkpointed_high_watermark, 0),
            rules=self._rules,
            min_isr=self.topic.config.min_insync_replicas,
            now_ms=self._monotonic_ms(),
            is_fed=self.topic.config.is_fed,
            is_held=self.topic.config.is_mirror,
        )
        return leader

    def followed(self) -> PartitionFollower:
        """The follower's role, also while the partition has no leader; taken up at the first need. Raises the errors of
        `led`."""
        follower = self.follower
        if follower is not None and not self.offline:
            return follower
        self._check_here()
        if self.partition.leader == self._node_id:
            raise KafkaError(error_codes.NOT_LEADER_OR_FOLLOWER)
        found = self._open_log(self)
        high_watermark = max(self.checkpointed_high_watermark, 0)
        self.follower = follower = PartitionFollower(found, self.partition.leader_epoch, high_watermark)
        return follower

    def held(self) -> Role:
        """Whichever role this node has, taken up at the first need. Raises the errors of `led`."""
        return self.led() if self.partition.leader == self._node_id else self.followed()

    def _check_here(self) -> None:
        if self.gone:
            raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        if self.offline:
            raise KafkaError(error_codes.KAFKA_STORAGE_ERROR)

    @property
    def role(self) -> Role | None:
        """The role that has begun, None before its first need."""
        return self.follower if self.leader is None else self.leader

    @property
    def is_here(self) -> bool:
        """Whether the partition is here and its disk works: :meth:`held` gives the role."""
        return not self.gone and not self.offline

    @property
    def is_led_here(self) -> bool:
        """Whether this node leads the partition and can: :meth:`led` gives the role."""
        return self.partition.leader == self._node_id and not self.gone and not self.offline

    @property
    def log(self) -> Log | None:
        """The log, None if it was not needed yet."""
        role = self.role
        return None if role is None else role.log

    def update(self, partition: Partition) -> None:
        """Take over new metadata. With another leader the role ends, and the new one begins at its first use."""
        leader, role, before = self.leader, self.role, self.partition
        self.partition = partition
        if role is None:
            return
        # Between two epochs that do not follow each other another may have led: who followed that was cut, perhaps.
        goes_on = partition.leader == self._node_id and partition.leader_epoch <= before.leader_epoch + 1
        if leader is not None and goes_on:
            leader.update(_state(partition), self._monotonic_ms())
        elif leader is not None or partition.leader_epoch != before.leader_epoch:
            self.checkpointed_high_watermark = role.high_watermark.offset
            self.leader = self.follower = None
        self.changed()

    def changed(self) -> None:
        """Notify sessions and waiting requests: records, high watermark or leadership changed."""
        leader = self.leader
        if leader is not None and leader.waits:
            leader.recount(self._monotonic_ms())
        if self.following:
            for entry in list(self.following):
                entry.touch()
        if self.watchers:
            self._tell()
        for waiter in list(self.commit_waits):
            waiter.check()

    def appended(self) -> None:
        """Notify followers of an append at once, other sessions when it is committed."""
        for entry in list(self.following):
            entry.touch()
        leader = self.leader
        if leader is not None and leader.waits:
            leader.recount(self._monotonic_ms())
        if leader is None or leader.high_watermark.offset == leader.log.end.offset:
            self.committed()

    def committed(self) -> None:
        """Notify sessions and waiting requests of a new high watermark. Followers learn it with their next answer."""
        for entry in self.following:
            entry.mark()
        if self.watchers:
            self._tell()
        for waiter in list(self.commit_waits):
            waiter.check()

    def _tell(self) -> None:
        notified, self.watchers = self.watchers, {}
        self.notified |= notified
        for entry in notified:
            entry.touch()

    def check_waits(self) -> None:
        """Check all waiting requests."""
        for waiter in list(self.commit_waits):
            waiter.check()

    def log_start_moved(self) -> None:
        """Notify sessions of a new log start. No waiting request of a consumer is answered for it."""
        notified, self.watchers = self.watchers, {}
        for entry in notified:
            entry.mark()
            # Who waits is not woken by this, so it has to hear of what comes next.
            (self.notified if entry.session.wake is None else self.watchers)[entry] = None
        for entry in list(self.following):
            entry.touch()

    def forget(self) -> None:
        """Drop the role, since the partition is gone from this node, and notify everything that waits for it."""
        self.gone = True
        self.leader = self.follower = None
        self.changed()
        for entry in [*self.watchers, *self.notified, *self.following]:
            entry.unwatch()  # a session that nobody continues would keep all of this

    def fail(self) -> None:
        """Mark the replica offline, since its log directory failed, and notify everything that waits for it."""
        self.offline = True
        self.changed()


def _state(partition: Partition) -> PartitionState:
    return PartitionState(
        partition.leader_epoch, partition.partition_epoch, partition.replicas, partition.isr, partition.directories
    )
