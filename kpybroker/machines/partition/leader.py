"""This node leads a partition, in one leader epoch.

The leader orders records: it checks a produced batch, stamps its offset and epoch, and appends it. The leader of a
mirror orders nothing: it is fed with the batches of another cluster (`kpybroker.machines.mirror.feeding`).

Followers fetch the records they lack, so the leader knows how far each has come
(`kpybroker.machines.partition.in_sync`), and with that the high watermark: the smallest log end offset over the
replicas that are in sync or may be by now. It does not move while fewer replicas are in sync than
``min.insync.replicas`` (KIP-966). If this node is the only replica, an append moves it at once.

Invariant: the high watermark never goes back and never exceeds the log's end, nor that of a replica in the in-sync set.
(Kafka: ``Partition.appendRecordsToLeader``, ``Partition.maybeIncrementLeaderHW``, ``UnifiedLog.append``.)
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.in_sync import FetchClock, FollowerState, InSync, IsrChange, PartitionState, Rules
from kpybroker.machines.partition.role import Role
from kpybroker.machines.partition.validation import Accepted, ValidationConfig, restamp, validate
from kpybroker.machines.partition.verification import Verifications
from kpystorage.log import Log
from kpystorage.log_offset import LogOffset
from kpywire import error_codes
from kpywire.batch import (
    ATTRIBUTES,
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    NO_PRODUCER_ID,
    PRODUCER_ID,
    TRANSACTIONAL_MASK,
    BatchHeader,
    parse_header,
    placed,
)
from kpywire.control_record import marker_batch
from kpywire.varint import Buffer

Appended = tuple[int, int, int]
"""The offsets of a produced batch, ``[base_offset, next_offset)``, and the time of its append on LogAppendTime topics,
else -1. For a batch that had been appended before, the time is its largest timestamp, as in Kafka."""

_new: Final = tuple.__new__


class Noted(NamedTuple):
    """The consequences of a follower's fetch."""

    is_committed: bool
    """Whether the high watermark moved."""
    change: IsrChange | None
    """The change to propose to the controller."""


NOTHING_NEW: Final = Noted(is_committed=False, change=None)

NO_OFFSET: Final = -1
NO_LIMIT: Final = 1 << 62
NO_RULES: Final = Rules(0)
"""The rules of a leader without followers."""


class Marker(NamedTuple):
    """The end of a producer's transaction. ``coordinator_epoch`` is the leader epoch of its coordinator's partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """With 2 or more the epoch has to be above the producer's (KIP-890)."""


class PartitionLeader(Role):
    """The role of a partition's leader. ``node_id`` is this broker.

    A term is the time in which this node leads without a break; the leader epoch may rise meanwhile.
    """

    __slots__ = (
        "_alone",
        "_bounds",
        "_limit",
        "epoch_start_offset",
        "in_sync",
        "is_fed",
        "term",
        "verifications",
        "waits",
    )

    def __init__(  # noqa: PLR0913
        self,
        log: Log,
        node_id: int,
        state: PartitionState,
        high_watermark: int,
        *,
        rules: Rules = NO_RULES,
        min_isr: int = 1,
        now_ms: float = 0.0,
        is_fed: bool = False,
        is_held: bool = False,
    ) -> None:
        """``now_ms`` is of a monotonic clock, as everywhere with followers. ``is_fed``: the batches come from another
        cluster, and so do their epochs. ``is_held``: nothing more is shown before `show_up_to`."""
        epoch = state.leader_epoch
        super().__init__(log, epoch, high_watermark)
        self.term = epoch
        self.in_sync = InSync(node_id, state, rules, now_ms, min_isr)
        self.verifications = Verifications()
        self.epoch_start_offset = log.log_end_offset
        self.is_fed = is_fed
        self._limit = self.high_watermark.offset if is_held else NO_LIMIT
        """The offset above which the high watermark does not move, though the log is replicated beyond."""
        if is_fed:
            log.epochs.truncate_from_end(log.log_end_offset)  # of a leader that ordered records, and wrote none
        else:
            log.epochs.assign(epoch, log.log_end_offset)
        self._alone = False
        """Whether this node's own log alone determines the high watermark."""
        self._bounds: tuple[FollowerState, ...] = ()
        """The followers whose log ends bound the high watermark, as of the last `recount`."""
        self.waits = False
        """Whether one of them is not in the in-sync set: it counts only as long as it may be about to join."""
        self.recount(now_ms)

    # In sync

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync set that was granted last."""
        return self.in_sync.isr

    @property
    def partition_epoch(self) -> int:
        """The partition epoch of the controller's newest state."""
        return self.in_sync.partition_epoch

    def update(self, state: PartitionState, now_ms: float) -> None:
        """Take over new metadata while this node goes on leading (``Partition.makeLeader``)."""
        if not self.in_sync.assign(state):
            return
        epoch = state.leader_epoch
        if epoch > self.epoch:
            self.epoch = epoch
            self.epoch_start_offset = self.log.log_end_offset
            if not self.is_fed:
                self.log.epochs.assign(epoch, self.epoch_start_offset)
            self.in_sync.begin_epoch(self.epoch_start_offset, now_ms)
        self.recount(now_ms)

    def require_in_sync(self, min_isr: int, now_ms: float) -> bool:
        """Set the topic's ``min.insync.replicas``; whether the high watermark moved."""
        self.in_sync.min_isr = min_isr
        return self.recount(now_ms)

    def has_enough_in_sync(self, min_insync_replicas: int) -> bool:
        """Whether acks=all may be promised; a topic with fewer replicas than the minimum needs them all (KIP-966)."""
        in_sync = self.in_sync
        count = len(in_sync.isr)
        return count >= min_insync_replicas or count >= len(in_sync.replicas)

    def has_reached_enough(self, min_insync_replicas: int) -> bool:
        """Whether enough replicas have everything below the high watermark, including those that are about to join."""
        in_sync = self.in_sync
        count = len(in_sync.maximal_isr)
        return count >= min_insync_replicas or count >= len(in_sync.replicas)

    def check_follower(self, broker_id: int, broker_epoch: int, *, knows_epoch: bool) -> FollowerState:
        """The state of a follower that fetches. KafkaError: it is no replica, or the broker has registered again
        since."""
        follower = self.in_sync.follower(broker_id, knows_epoch=knows_epoch)
        self.in_sync.check_life(broker_id, broker_epoch)
        return follower

    def note_fetch(
        self,
        follower: FollowerState,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: float,
        clock: FetchClock | None = None,
    ) -> Noted:
        """Note a follower's fetch from ``fetch_offset``, which is within the log.

        ``clock`` is that of its fetch session, set after all partitions of a request are noted.

        Raises:
            DiskFailure: the position of the offset could not be read.
        """
        log, before = self.log, follower.log_end
        end = before
        if fetch_offset != before.offset:
            end = log.end if fetch_offset == log.end.offset else LogOffset(fetch_offset)
        follower.note_fetch(end, log_start_offset, broker_epoch, log.end.offset, now_ms, clock)
        change = None
        if follower.id not in self.in_sync.isr:
            # Before the high watermark runs away from it, as in Kafka.
            needed_offset = max(self.high_watermark.offset, self.epoch_start_offset)
            change = self.in_sync.expand(follower.id, self.epoch, needed_offset)
        if end is before and change is None:
            return NOTHING_NEW
        return _new(Noted, (self.recount(now_ms), change))

    def shrink_in_sync(self, now_ms: float) -> IsrChange | None:
        """The change to propose to the controller, if a follower has not been caught up for too long."""
        return self.in_sync.shrink(self.epoch, self.log.end.offset, now_ms)

    def isr_granted(
        self, change: IsrChange, leader_epoch: int, partition_epoch: int, isr: Sequence[int], now_ms: float
    ) -> bool:
        """Take over the set that the controller answered with; whether that is news."""
        if not self.in_sync.granted(change, leader_epoch, partition_epoch, isr):
            return False
        self.recount(now_ms)
        return True

    def isr_refused(self, change: IsrChange, error_code: int, now_ms: float) -> bool:
        """Handle a refusal of the controller; whether the change has to be proposed again."""
        again = self.in_sync.refused(change, error_code)
        self.recount(now_ms)
        return again

    def low_watermark(self) -> int:
        """The offset below which no replica with a live broker has records; -1 while it is unknown for one of them."""
        return self.in_sync.low_watermark(self.log.log_start_offset)

    def recount(self, now_ms: float) -> bool:
        """Find the followers that bound the high watermark, and how far they have come; whether the high watermark
        moved."""
        in_sync = self.in_sync
        has_others = in_sync.followers or in_sync.leaving
        self._bounds = in_sync.holding_back(self.log.end.offset, now_ms) if has_others else ()
        self._alone = not self._bounds and not in_sync.is_under_min_isr
        self.waits = any(follower.id not in in_sync.isr for follower in self._bounds)
        return self.advance_high_watermark()

    # Writing

    def append(
        self,
        records: bytes | memoryview,
        config: ValidationConfig,
        now_ms: int,
        *,
        transactional: bool = False,
        is_verified: bool = False,
        at_once: bool = False,
    ) -> Appended:
        """Append one produced batch, stamped for the log. Returns (base offset, next offset, append time or -1).

        ``transactional``: the request has a transactional id; without one it cannot write into a transaction.
        ``is_verified``: the transaction's coordinator has just confirmed that this partition belongs to it.
        ``at_once``: only if it takes little work to check it, else Laborious is raised.

        Raises:
            KafkaError: the batch is refused; nothing was appended.
            DiskFailure: the log's directory failed.
        """
        log = self.log
        base_offset = log.end.offset
        fields, buffer, append_time_ms = validate(
            records, config, now_ms, self.epoch, base_offset, self.name, at_once=at_once
        )
        next_offset: int = base_offset + fields[LAST_OFFSET_DELTA] + 1
        if fields[ATTRIBUTES] & TRANSACTIONAL_MASK:
            if not transactional:
                raise KafkaError(error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            header = placed(fields, base_offset, self.epoch)
            return self.append_in_transaction(
                header, buffer, now_ms, append_time_ms=append_time_ms, is_verified=is_verified
            )
        if fields[PRODUCER_ID] != NO_PRODUCER_ID or not log.append_batch(
            buffer, fields[MAX_TIMESTAMP], next_offset, self.epoch, now_ms
        ):
            header = placed(fields, base_offset, self.epoch)
            if header.producer_id >= 0:
                if header.producer_id in self.verifications.of_producers:
                    self._check_beside_verification(header)
                duplicate = log.producers.check(header)
                if duplicate is not None:
                    return duplicate.first_offset, duplicate.last_offset + 1, duplicate.timestamp
            log.append((header,), buffer, now_ms)
        if self._alone:
            self.high_watermark = log.end
        else:
            self.advance_high_watermark()
        return base_offset, next_offset, append_time_ms

    def append_checked(
        self, accepted: Accepted, now_ms: int, *, transactional: bool = False, is_verified: bool = False
    ) -> Appended:
        """Like `append`, for a batch that was checked elsewhere; its bytes can be written."""
        log = self.log
        base_offset = log.end.offset
        fields, buffer, append_time_ms = accepted
        assert not isinstance(buffer, bytes)
        restamp(buffer, self.epoch, base_offset)
        header = placed(fields, base_offset, self.epoch)
        if header.is_transactional:
            if not transactional:
                raise KafkaError(error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return self.append_in_transaction(
                header, buffer, now_ms, append_time_ms=append_time_ms, is_verified=is_verified
            )
        if header.producer_id >= 0:
            if header.producer_id in self.verifications.of_producers:
                self._check_beside_verification(header)
            duplicate = log.producers.check(header)
            if duplicate is not None:
                return duplicate.first_offset, duplicate.last_offset + 1, duplicate.timestamp
        log.append((header,), buffer, now_ms)
        self._appended()
        return base_offset, base_offset + header.last_offset_delta + 1, append_time_ms

    def append_built(self, batch: bytes, count: int, config: ValidationConfig, now_ms: int) -> tuple[int, int]:
        """Append a batch of ``count`` records that this node built for the log's end and this epoch. Returns (base
        offset, next offset).

        The batch has no producer; all its records have keys and the time ``now_ms``.

        Raises:
            KafkaError: it is too large; nothing was appended.
            DiskFailure: the log's directory failed.
        """
        if config.log_append_time or config.codec not in (None, batch[ATTRIBUTES_POSITION + 1] & CODEC_MASK):
            # What the topic wants otherwise is for a batch to be stamped.
            base_offset, next_offset, _ = self.append(memoryview(bytearray(8) + batch[8:]), config, now_ms)
            return base_offset, next_offset
        size = len(batch)
        if size > config.max_message_bytes:
            raise KafkaError(error_codes.MESSAGE_TOO_LARGE)
        if size > config.segment_bytes:
            raise KafkaError(error_codes.RECORD_LIST_TOO_LARGE)
        log = self.log
        base_offset = log.end.offset
        next_offset = base_offset + count
        if not log.append_batch(batch, now_ms, next_offset, self.epoch, now_ms):
            log.append((parse_header(batch),), batch, now_ms)
        if self._alone:
            self.high_watermark = log.end
        else:
            self.advance_high_watermark()
        return base_offset, next_offset

    def _check_beside_verification(self, header: BatchHeader) -> None:
        """Check a batch outside of a transaction whose producer has a verification under way: it may not overtake an
        earlier batch either."""
        producers = self.log.producers
        if producers.repeated(header) is None:
            producers.check_epoch(header)
            self.verifications.check_sequence(header, producers)

    def append_in_transaction(
        self, header: BatchHeader, batch: Buffer, now_ms: int, *, append_time_ms: int = -1, is_verified: bool = False
    ) -> Appended:
        """Append a checked batch of a transactional producer, stamped for the log's end.

        It has a sequence if the producer sent it itself, and none if a coordinator writes on its behalf. The
        transaction has to be open here, or verified with its coordinator. For a batch that is new, ``append_time_ms``
        is returned.

        Raises:
            KafkaError, StorageError: the batch is refused; nothing was appended.
        """
        log, producer_id = self.log, header.producer_id
        producers = log.producers
        sent_by_producer = header.base_sequence >= 0
        if sent_by_producer:
            before = producers.repeated(header)
            if before is not None:
                return before.first_offset, before.last_offset + 1, before.timestamp
        needs_verification = not is_verified and not producers.has_open_transaction(producer_id, header.producer_epoch)
        if needs_verification:
            self.verifications.require(producer_id)
        producers.check_epoch(header)
        if sent_by_producer:
            if needs_verification:
                self.verifications.check_sequence(header, producers)
            producers.check(header)
        log.append((header,), batch, now_ms)
        self.verifications.end(producer_id)
        self._appended()
        base_offset = header.base_offset
        return base_offset, base_offset + header.last_offset_delta + 1, append_time_ms

    def _appended(self) -> None:
        """Move the high watermark after an append, if possible."""
        if self._alone:
            end = self.high_watermark = self.log.end
            self.log.producers.replicated_to(end.offset)
        else:
            self.advance_high_watermark()

    def append_marker(self, marker: Marker, now_ms: int, *, log_append_time: bool = False) -> int:
        """End a producer's transaction here; the marker's offset. ``log_append_time``: the topic's type of timestamps.

        Raises:
            StorageError: the producer or the coordinator is fenced, or the log's directory failed.
        """
        log = self.log
        offset = log.end.offset
        log.producers.check_marker(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, offset, marker.transaction_version
        )
        batch = marker_batch(
            offset,
            self.epoch,
            now_ms,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            log_append_time=log_append_time,
        )
        self.verifications.end(marker.producer_id)
        if marker.commit and log.append_batch(batch, now_ms, offset + 1, self.epoch, now_ms):
            producer_id, producer_epoch = marker.producer_id, marker.producer_epoch
            log.producers.commit(producer_id, producer_epoch, marker.coordinator_epoch, offset, now_ms)
        else:
            log.append((parse_header(batch),), batch, now_ms)
        self._appended()
        return offset

    # Batches of another cluster

    def cut_to_source(self) -> None:
        """Note that the log was cut, or began again, as its source's: nothing is known of what followers have behind
        its end."""
        log = self.log
        start_offset, end_offset = max(log.local_log_start_offset, log.log_start_offset), log.end.offset
        for follower in self.in_sync.followers.values():
            follower.log_end = LogOffset(min(follower.log_end.offset, end_offset))
        self.high_watermark = log.position_of(min(max(self.high_watermark.offset, start_offset), end_offset))

    def cut_at(self, offset: int, now_ms: int) -> None:
        """Cut the log of a mirror that is fed no more, and order records from there on. DiskFailure."""
        log = self.log
        log.truncate_to(offset, now_ms)
        for follower in self.in_sync.followers.values():
            if follower.log_end.offset > offset:
                follower.log_end = LogOffset(NO_OFFSET)  # until it fetches again
        self.high_watermark = log.position_of(min(self.high_watermark.offset, log.end.offset))
        self.end_feed()

    def followers_at_end(self) -> Iterator[int] | None:
        """The followers in sync, if the last fetch that is known of each was at the log's end; else None."""
        followers, end_offset = self.in_sync.followers, self.log.end.offset
        wanted = [each for each in self.in_sync.maximal_isr if each in followers]
        are_there = all(followers[each].log_end.offset == end_offset for each in wanted)
        return iter(wanted) if are_there else None

    def replicated_to(self) -> int:
        """The offset up to which all replicas in sync have the log: the high watermark without a limit."""
        if self.in_sync.is_under_min_isr:
            return self.high_watermark.offset
        ends = [self.log.end.offset, *(follower.log_end.offset for follower in self._bounds)]
        return max(min(ends), self.high_watermark.offset)

    def show_up_to(self, offset: int = NO_LIMIT) -> bool:
        """Keep the high watermark at ``offset`` at most, or where it is above it. Return whether it moved."""
        self._limit = offset
        return self.advance_high_watermark()

    def begin_feed(self) -> None:
        """Order no more records: an epoch without records is forgotten, since the source has none of it."""
        self.is_fed = True
        self.log.epochs.truncate_from_end(self.log.log_end_offset)

    def end_feed(self) -> None:
        """Begin to order records: from the log's end on they are of this leader's epoch."""
        self.is_fed = False
        self.epoch_start_offset = self.log.log_end_offset
        self.log.epochs.assign(self.epoch, self.epoch_start_offset)

    def advance_high_watermark(self) -> bool:
        """Set the high watermark by the log ends that bound it; whether it moved."""
        reached = self.log.end
        if not self._alone:
            if self.in_sync.is_under_min_isr:
                return False
            for follower in self._bounds:
                if follower.log_end.offset < reached.offset:
                    reached = follower.log_end
        before = self.high_watermark.offset
        if reached.offset > self._limit:
            reached = LogOffset(max(self._limit, before))
        if reached.offset < before:
            return False
        if reached.position < 0:
            if reached.offset == before:
                return False
            reached = self.log.position_of(reached.offset)
        # Also where the offset is the same: after a roll it lies in another segment.
        self.high_watermark = reached
        self.log.producers.replicated_to(reached.offset)
        return reached.offset > before
