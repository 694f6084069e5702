"""Tiered storage of one node: the door to this room (Kafka: ``RemoteLogManager``).

It follows the partitions that this node holds, has the leaders' work done (`led_tier`), answers which segments the disk
may lose, and reads for clients what is in the store alone (`reads`, `time_search`).
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.peer import Peer
from kpybroker.hosts.remote_log.auxiliary_states import AuxiliaryStates
from kpybroker.hosts.remote_log.empty_leaders import EmptyLeaders
from kpybroker.hosts.remote_log.figures import ThrottleTimes, TierState
from kpybroker.hosts.remote_log.first_times import FirstTimes, StoredPosition
from kpybroker.hosts.remote_log.led_tier import LedTier, TierParts
from kpybroker.hosts.remote_log.local_view import local_log
from kpybroker.hosts.remote_log.metadata_pulse import MetadataPulse
from kpybroker.hosts.remote_log.partition_deletions import PartitionDeletions
from kpybroker.hosts.remote_log.reads import RemoteReads, StoredRecords, WantedRecords
from kpybroker.hosts.remote_log.sweeping import Sweeping
from kpybroker.hosts.remote_log.time_search import TimeSearches
from kpybroker.hosts.replicas.replica import HeldTopic, Replica
from kpybroker.hosts.replicas.tiering import NoTiering
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.partition.role import Role
from kpybroker.machines.remote_log import expiry
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import Timer
from kpystorage.log import Log
from kpystorage.unmade import LogStart
from kpywire import error_codes

logger = logging.getLogger("kpybroker.tiered")

NOTHING_COPIED: Final = -1


class StoreReaders(NamedTuple):
    """The reading of records that only the store has, by offset and by time, and of the time at an offset."""

    reads: RemoteReads
    searches: TimeSearches
    times: FirstTimes


class LogBeginnings(NamedTuple):
    """The logs that begin behind what the store has: those of followers, and those of leaders that lost their disks."""

    followers: AuxiliaryStates
    leaders: EmptyLeaders


class StoreUpkeep(NamedTuple):
    """The deletion of what no topic and no segment needs."""

    deletions: PartitionDeletions
    sweeping: Sweeping
    pulse: MetadataPulse


class RemoteLog:
    """The tiered partitions of one node."""

    def __init__(
        self,
        parts: TierParts,
        config: Callable[[], BrokerConfig],
        readers: StoreReaders,
        beginnings: LogBeginnings,
        upkeep: StoreUpkeep,
        throttle_times: Callable[[], ThrottleTimes],
    ) -> None:
        self._parts = parts
        self._config = config
        self._reads, self._searches, self._times = readers
        self._auxiliary, self._empty_leaders = beginnings
        self.throttle_times = throttle_times
        self.figures = parts.figures
        self.store = parts.storage.name
        """The store in words without secrets."""
        self._untiered = NoTiering()
        self._led: dict[tuple[bytes, int], LedTier] = {}
        self._held: set[tuple[bytes, int]] = set()
        self._deletions, self._sweeping, self._pulse = upkeep
        parts.metadata.changed.append(self._metadata_changed)
        self._timer: Timer | None = None
        self._is_looking = False

    def start(self) -> None:
        """Begin to copy and to expire, once the broker serves."""
        self._parts.metadata.start()
        self._sweeping.start()
        self._timer = self._parts.scheduler.call_later(self._interval_ms(), self._periodic)

    def stop(self) -> None:
        """End all work. What was begun in the store is found by the next leader."""
        if self._timer is not None:
            self._timer.cancel()
        self._sweeping.stop()
        self._empty_leaders.stop()
        for tier in self._led.values():
            tier.stop()
        self._led.clear()
        self._parts.metadata.stop()

    # Following the metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change, after the replicas did."""
        self._pulse.note(image)
        self._parts.metadata.apply(image, delta)
        self._deletions.apply(image, delta)
        self._sweeping.apply(image)
        for topic in delta.deleted_topics.values():
            self.figures.forget(topic.name)
            for index in topic.partitions:
                self._release(topic.id, index)
        for topic_id, partitions in delta.partitions.items():
            held = self._parts.replicas.by_id.get(topic_id)
            for index in partitions:
                self._follow(topic_id, index, None if held is None else held.replicas.get(index))
        for kind, name in delta.configs:
            configured = self._parts.replicas.topics.get(name) if kind == TOPIC_RESOURCE else None
            for replica in () if configured is None else configured.replicas.values():
                self._follow(replica.topic.id, replica.index, replica)

    def _follow(self, topic_id: bytes, index: int, replica: Replica | None) -> None:
        key = (topic_id, index)
        tier = self._led.get(key)
        if replica is None or not _may_be_tiered(replica.topic):
            self._release(topic_id, index)
            return
        if key not in self._held:
            self._held.add(key)
            self._parts.metadata.need(topic_id, index)
        is_led = replica.is_led_here
        if tier is not None and not (is_led and tier.epoch == replica.partition.leader_epoch):
            tier.stop()
            del self._led[key]
            tier = None
        if tier is None and is_led:
            tier = self._led[key] = LedTier(self._parts, replica, replica.partition.leader_epoch)
        if tier is not None:
            tier.soon()

    def _release(self, topic_id: bytes, index: int) -> None:
        key = (topic_id, index)
        tier = self._led.pop(key, None)
        if tier is not None:
            tier.stop()
        if key in self._held:
            self._held.discard(key)
            self._parts.metadata.release(topic_id, index)

    def _metadata_changed(self, topic_id: bytes, index: int) -> None:
        """Look at a partition again: its metadata were read for the first time."""
        tier = self._led.get((topic_id, index))
        if tier is not None and not tier.is_begun:
            tier.soon()

    # Periodic work

    def _interval_ms(self) -> float:
        return float(self._config()["remote.log.manager.task.interval.ms"])

    def _periodic(self) -> None:
        self._timer = self._parts.scheduler.call_later(self._interval_ms(), self._periodic)
        if not self._is_looking:
            self._is_looking = True
            self._parts.scheduler.in_pieces(self._look_in_pieces())

    def _look_in_pieces(self) -> Iterator[None]:
        try:
            for tier in list(self._led.values()):
                try:
                    yield from tier.expire()
                    tier.look()
                    yield from tier.compact()
                except Exception:
                    logger.exception("The periodic work on %s in the store failed because of a defect", tier)
                yield
            yield from self._deletions.look()
        finally:
            self._is_looking = False

    # Questions of the replicas (`kpybroker.hosts.replicas.tiering.Tiering`)

    def expendable(self, replica: Replica, role: Role, now_ms: int) -> int:
        """The number of a log's oldest segments that may be deleted from the disk."""
        tier = replica.topic.config.tier
        if tier is None:
            return self._untiered.expendable(replica, role, now_ms)
        segments = self._parts.metadata.segments_of(replica.topic.id, replica.index)
        led = self._led.get((replica.topic.id, replica.index))
        if segments is None or (led is not None and led.fails_to_copy):
            return 0  # a store that fails may have lost what it had
        return len(expiry.local_expiry(local_log(role.log, role), segments, tier, now_ms).segments)

    def begin_in_middle(self, replica: Replica, leader: Peer, done: Callable[[str | None], object]) -> None:
        """Make the log of a follower begin where its leader's begins on the disk."""
        self._auxiliary.begin(replica, leader, done)

    def skips_tiered(self, replica: Replica) -> bool:
        """Whether a follower is empty, and is to begin behind what is copied."""
        return self._auxiliary.skips_tiered(replica)

    def check_beginning(self, replica: Replica, log: Log) -> None:
        """Check the log of a tiered topic before this node's leadership begins with it. KafkaError."""
        self._empty_leaders.check(replica, log)

    def beginning(self, replica: Replica) -> LogStart | None:
        """The place where the log of a led partition begins that has no files. KafkaError."""
        return self._empty_leaders.beginning(replica)

    # Questions of requests

    def read(self, wanted: WantedRecords, role: Role) -> StoredRecords | None:
        """The records that are wanted, which only the store has; None while they are read. Raises KafkaError."""
        segments = self._parts.metadata.segments_of(wanted.topic_id, wanted.partition)
        if segments is None:
            raise _not_read_yet(role)
        try:
            return self._reads.read(wanted, role, segments)
        except KafkaError as error:
            is_unknown = error.code == error_codes.OFFSET_OUT_OF_RANGE
            if is_unknown and self._may_lack_segments(wanted.topic_id, wanted.partition):
                raise _not_read_yet(role) from None
            raise

    def _may_lack_segments(self, topic_id: bytes, index: int) -> bool:
        """Whether this node leads a partition, and has not caught up with what the leader before it wrote."""
        tier = self._led.get((topic_id, index))
        return tier is not None and not tier.is_begun

    def find_timestamp(self, replica: Replica, role: Role, timestamp: int) -> Pending | None:
        """A search among the records that only the store has; None if none of its segments can have one. The answer is
        an OffsetForTimestamp, None, or a KafkaError."""
        segments = self._parts.metadata.segments_of(replica.topic.id, replica.index)
        if segments is None or self._may_lack_segments(replica.topic.id, replica.index):
            raise _not_read_yet(role)
        return self._searches.find(role, segments, timestamp)

    def first_time(self, replica: Replica, role: Role, offset: int) -> int | None:
        """The time of the first batch at or behind an offset that only the store has, in ms, -1 if it has none; None
        while that is read, or where the store does not say."""
        segments = self._parts.metadata.segments_of(replica.topic.id, replica.index)
        if segments is None:
            return None
        position = StoredPosition(replica.topic.id, replica.index, role.epoch, offset)
        return self._times.at(position, role, segments)

    def copied_offset(self, replica: Replica) -> int:
        """The last offset of a led partition that is in the store; -1 without one."""
        tier = self._led.get((replica.topic.id, replica.index))
        return NOTHING_COPIED if tier is None else tier.copied_offset

    def fetch_wait_ms(self) -> int:
        """The time for which a fetch waits for the store."""
        return int(self._config()["remote.fetch.max.wait.ms"])

    # The present, for people

    @property
    def store_error(self) -> str:
        """The reason why the last call to the store failed; empty if it did not."""
        return self._reads.last_error or next((each.last_error for each in self._led.values() if each.last_error), "")

    def states(self) -> Iterator[TierState]:
        """The partitions of tiered topics that this node leads."""
        for tier in list(self._led.values()):
            state = tier.state()
            if state is not None:
                yield state


def _may_be_tiered(topic: HeldTopic) -> bool:
    """Whether a topic has, or may still have, a part in the store (KIP-950: also while that is deleted)."""
    config = topic.config
    return config.tier is not None or "remote.storage.enable" in config.overrides


def _not_read_yet(role: Role) -> KafkaError:
    return KafkaError(error_codes.KAFKA_STORAGE_ERROR, f"{role.name}: the metadata of the store are not read yet")
