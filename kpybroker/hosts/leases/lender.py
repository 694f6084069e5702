"""The shell around the leases of a node: it lends segments of the partitions that this node leads, and takes them back.

Nothing of it is imported before the second port is asked for a lease.

Invariant: the ends of a partition in a manifest and the bytes that are lent are of one moment, in which its leader had
not lost the leadership; bytes that are lent are never changed again.
"""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kpybroker.hosts.leases.leases import LeaseEnded, Leases, TooManyLeases
from kpybroker.hosts.replicas.replica import HeldTopic, Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lease_manifest import AbortedSpan, LeaseRequest, Manifest, PartitionManifest
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpystorage.disk import Disk
from kpystorage.errors import StorageError
from kpystorage.lending import LentSegment, lend, take_back
from kpywire import error_codes

log = logging.getLogger("kpybroker.leases")

ID_BITS: Final = 128


class Lender:
    """Lends segments."""

    def __init__(
        self,
        identity: tuple[str, int],
        leases: Leases,
        replicas: Replicas,
        disk: Disk,
        scheduler: Scheduler,
        rng: random.Random,
    ) -> None:
        """``identity`` is the id of the cluster and that of this node; ``leases`` the table of the node."""
        self._cluster_id, self._node_id = identity
        self._replicas = replicas
        self._disk = disk
        self._scheduler = scheduler
        self._rng = rng
        self.leases = leases
        self._timer: Timer | None = None

    def borrow(
        self,
        wanted: Sequence[LeaseRequest],
        duration_ms: int,
        may_read: Callable[[str], bool],
        done: Callable[[Manifest], object],
    ) -> None:
        """Begin a lease on these partitions; ``done`` gets its manifest when all are lent, a few in each turn of the
        loop. Raises TooManyLeases."""
        lease_id = self._rng.getrandbits(ID_BITS)
        self.leases.begin(lease_id, duration_ms)
        self._scheduler.in_pieces(self._lend_all(lease_id, wanted, may_read, done))

    def renew(self, lease: str) -> int | None:
        """Let a lease last longer; for how many milliseconds from now on, or None if it is over."""
        lease_id, now_ms = _id_of(lease), self._now_ms()
        is_over = lease_id is None or lease_id in self.leases.due(now_ms)  # perhaps before its timer was called
        duration_ms = None if lease_id is None or is_over else self.leases.renew(lease_id, now_ms)
        self._set_timer()
        return duration_ms

    def give_back(self, lease: str) -> bool:
        """End a lease; whether there was one."""
        lease_id = _id_of(lease)
        segments = None if lease_id is None else self.leases.end(lease_id)
        if segments is None:
            return False
        self._scheduler.in_pieces(self._take_back(segments))
        return True

    def stop(self) -> None:
        """End all leases: no second name stays on the disk."""
        if self._timer is not None:
            self._timer.cancel()
        for lease_id in self.leases.all():
            for _ in self._take_back(self.leases.end(lease_id) or []):
                pass

    # In pieces.

    def _lend_all(
        self,
        lease_id: int,
        wanted: Sequence[LeaseRequest],
        may_read: Callable[[str], bool],
        done: Callable[[Manifest], object],
    ) -> Iterator[None]:
        partitions: list[PartitionManifest] = []
        refused: list[tuple[str, int, str]] = []
        for lease_request in {(each.topic, each.partition): each for each in wanted}.values():
            try:
                partitions.append(self._lend(lease_id, lease_request, may_read))
            except (KafkaError, StorageError, OSError, TooManyLeases, LeaseEnded) as error:
                refused.append((lease_request.topic, lease_request.partition, str(error)))
            except Exception:
                log.exception(
                    "Partition %d of %s could not be lent because of a defect",
                    lease_request.partition,
                    lease_request.topic,
                )
                refused.append(
                    (lease_request.topic, lease_request.partition, "it could not be lent because of a defect")
                )
            yield
        duration_ms = self.leases.renew(lease_id, self._now_ms())
        if duration_ms is None:
            refused += [(each.topic, each.partition, "the lease has ended") for each in partitions]
            partitions, duration_ms = [], 0
        self._set_timer()
        done(Manifest(self._cluster_id, self._node_id, f"{lease_id:032x}", duration_ms, partitions, refused))

    def _lend(self, lease_id: int, lease_request: LeaseRequest, may_read: Callable[[str], bool]) -> PartitionManifest:
        if not may_read(lease_request.topic):
            raise KafkaError(error_codes.TOPIC_AUTHORIZATION_FAILED, "the user may not read the topic")
        held = self._replicas.topics.get(lease_request.topic)
        if held is None:
            raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, "no such partition on this node")
        replica = held.replica(lease_request.partition)
        leader = replica.led()
        start_offset = max(lease_request.start_offset, leader.log.log_start_offset)
        if start_offset < leader.log.local_log_start_offset:
            raise KafkaError(error_codes.OFFSET_MOVED_TO_TIERED_STORAGE, "its first records are only in a store")
        segments = lend(self._disk, leader.log, start_offset, leader.high_watermark, lease_id)
        try:
            self.leases.add(lease_id, segments)
        except Exception:
            for _ in self._take_back(segments):
                pass
            raise
        return _manifest_of(held, replica, start_offset, segments)

    def _take_back(self, segments: Sequence[LentSegment]) -> Iterator[None]:
        for segment in segments:
            try:
                take_back(self._disk, segment)
            except OSError as error:
                log.warning("%s could not be removed: %s; the next start removes it", segment.path, error.strerror)
            yield

    # Time.

    def _now_ms(self) -> int:
        return int(self._scheduler.monotonic_ms())

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        end_ms = self.leases.next_end_ms()
        if end_ms is not None:
            self._timer = self._scheduler.call_later(max(end_ms - self._now_ms(), 0), self._end_due)

    def _end_due(self) -> None:
        self._timer = None
        for lease_id in self.leases.due(self._now_ms()):
            self._scheduler.in_pieces(self._take_back(self.leases.end(lease_id) or []))
        self._set_timer()


def _manifest_of(
    held: HeldTopic, replica: Replica, start_offset: int, segments: list[LentSegment]
) -> PartitionManifest:
    leader = replica.led()
    log = leader.log
    end_offset = leader.high_watermark.offset
    aborted = log.aborted_transactions(min(start_offset, end_offset), end_offset)
    return PartitionManifest(
        topic=held.name,
        topic_id=held.id,
        partition=replica.index,
        leader_epoch=leader.epoch,
        log_start_offset=log.log_start_offset,
        last_stable_offset=leader.last_stable_offset().offset,
        high_watermark=end_offset,
        recovery_point=min(log.recovery_point, end_offset),
        segments=segments,
        aborted=[AbortedSpan(each.producer_id, each.first_offset, each.last_offset) for each in aborted],
    )


def _id_of(lease: str) -> int | None:
    try:
        return int(lease, 16)
    except ValueError:
        return None
