"""Transaction markers for the partitions that this node leads, one batch for each (Kafka: ``EndTransactionMarker``).

Not here: requests for markers, and retries. A marker in a partition of ``__consumer_offsets`` passes through the
journal of the group coordinator's shard, so that the offsets it concerns become visible, or are dropped, in the order
of the log.

Invariant: a marker is reported as written only when the high watermark has passed it.
"""

from collections.abc import Callable

from kpybroker.hosts.coordinators.shards import Shards
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.machines.partition.leader import Marker, PartitionLeader
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpystorage.errors import StorageError
from kpywire import error_codes

Done = Callable[[int], object]
"""A callback for the error code of one partition."""


class UncommittedMarker:
    """A marker that other replicas do not have yet."""

    def __init__(self, scheduler: Scheduler, replica: Replica, leader: PartitionLeader, next_offset: int) -> None:
        self._scheduler = scheduler
        self._replica = replica
        self._leader = leader
        self._next_offset = next_offset
        self._done: Done = lambda _code: None
        self._timer: Timer | None = None

    def wait(self, timeout_ms: int, done: Done) -> None:
        """Call ``done`` with the outcome within ``timeout_ms``: NONE, NOT_LEADER_OR_FOLLOWER or REQUEST_TIMED_OUT."""
        self._done = done
        self._timer = self._scheduler.call_later(timeout_ms, self._finish, error_codes.REQUEST_TIMED_OUT)
        self._replica.commit_waits[self] = None

    def check(self) -> None:
        """Check again, since the high watermark or the leadership changed."""
        if self._replica.leader is not self._leader:
            self._finish(error_codes.NOT_LEADER_OR_FOLLOWER)
        elif self._leader.high_watermark.offset >= self._next_offset:
            self._finish(error_codes.NONE)

    def _finish(self, code: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._replica.commit_waits.pop(self, None)
        self._done(code)


class Markers:
    """Writes markers into logs."""

    def __init__(self, scheduler: Scheduler, replicas: Replicas, groups: Shards) -> None:
        self._scheduler = scheduler
        self._replicas = replicas
        self._groups = groups

    def write(self, topic: str, index: int, marker: Marker) -> int | UncommittedMarker:
        """End a transaction in one partition; the error code, or an `UncommittedMarker` if other replicas do not have
        the marker yet.

        Error codes: NONE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (also while a group coordinator loads),
        KAFKA_STORAGE_ERROR, NOT_ENOUGH_REPLICAS, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        try:
            replica = self._replicas.find(topic, index)
            leader = replica.led()
            if not leader.has_enough_in_sync(replica.topic.config.min_insync_replicas):
                raise KafkaError(error_codes.NOT_ENOUGH_REPLICAS)
            next_offset = self._append(replica, leader, marker)
        except (KafkaError, StorageError) as error:
            return self._replicas.code_of(error)
        if next_offset <= leader.high_watermark.offset:
            return error_codes.NONE
        return UncommittedMarker(self._scheduler, replica, leader, next_offset)

    def _append(self, replica: Replica, leader: PartitionLeader, marker: Marker) -> int:
        if replica.topic.name == GROUP_OFFSETS_TOPIC:
            shard = self._groups.shards.get(replica.index)
            if shard is None or not shard.journal.is_open:
                raise KafkaError(error_codes.NOT_LEADER_OR_FOLLOWER)
            return shard.mark(marker)
        if replica.topic.config.is_sealed:
            return leader.high_watermark.offset  # no transaction of this cluster is in a mirror
        offset = leader.append_marker(
            marker, self._scheduler.now_ms(), log_append_time=replica.topic.validation.log_append_time
        )
        replica.changed()
        return offset + 1
