"""This node leads a partition, in one leader epoch.

The leader orders records: it checks a produced batch, stamps its offset and epoch, and appends it. It knows how far
every in-sync replica has come, hence the high watermark: the smallest log end offset over the in-sync replicas. With
this node as the only one in sync, an append moves the high watermark at once.

Invariant: the high watermark never goes back and never exceeds the log's end.
(Kafka: ``Partition.appendRecordsToLeader``, ``Partition.maybeIncrementLeaderHW``, ``UnifiedLog.append``.)
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kpybroker.errors import KafkaError
from kpybroker.partition.role import Role
from kpybroker.partition.validation import ValidationConfig, validate
from kpybroker.partition.verification import Verifications
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
)
from kpywire.control_record import marker_batch
from kpywire.varint import Buffer

Appended = tuple[int, int, int]
"""Where a produced batch went, ``[base_offset, next_offset)``, and the time of its append on LogAppendTime topics, else
-1; of a batch that was there before, its largest timestamp, as Kafka answers."""

_new: Final = tuple.__new__


class Marker(NamedTuple):
    """The end of a producer's transaction. ``coordinator_epoch`` is the leader epoch of its coordinator's partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """From 2 on the epoch has to be above the producer's (KIP-890)."""


class Leader(Role):
    """The role of a partition's leader. ``replicas`` and ``isr`` are broker ids; ``node_id`` is this broker."""

    __slots__ = (
        "_alone",
        "follower_ends",
        "isr",
        "node_id",
        "partition_epoch",
        "replicas",
        "verifications",
    )
    isr: frozenset[int]

    def __init__(
        self,
        log: Log,
        node_id: int,
        epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        high_watermark: int,
    ) -> None:
        super().__init__(log, epoch, high_watermark)
        self.node_id = node_id
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self.change_isr(isr)
        self.follower_ends: dict[int, LogOffset] = {}
        self.verifications = Verifications()
        log.epochs.assign(epoch, log.log_end_offset)
        self.advance_high_watermark()

    def change_isr(self, isr: Sequence[int]) -> None:
        """Other replicas count from now on."""
        self.isr = frozenset(isr)
        self._alone = self.isr == {self.node_id}

    def has_enough_in_sync(self, min_insync_replicas: int) -> bool:
        """Whether acks=all may be promised; a topic with fewer replicas than the minimum needs them all (KIP-966)."""
        in_sync = len(self.isr)
        return in_sync >= min_insync_replicas or in_sync >= len(self.replicas)

    # Writing

    def append(
        self,
        records: memoryview,
        config: ValidationConfig,
        now_ms: int,
        transactional: bool = False,
        is_verified: bool = False,
    ) -> Appended:
        """Append one produced batch; it is stamped in place. (base offset, next offset, append time or -1).

        ``transactional``: its sender has a transactional id, without which it can't write into a transaction.
        ``is_verified``: its transaction's coordinator was asked just now, and knows of this partition.

        Raises:
            KafkaError: the batch is refused; nothing was appended.
            DiskFailure: the log's directory failed.
        """
        log = self.log
        base_offset = log.end.offset
        fields, buffer, append_time_ms = validate(records, config, now_ms, self.epoch, base_offset, self.name)
        next_offset: int = base_offset + fields[LAST_OFFSET_DELTA] + 1
        if fields[ATTRIBUTES] & TRANSACTIONAL_MASK:
            if not transactional:
                raise KafkaError(error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            appended = self.append_in_transaction(_new(BatchHeader, fields), buffer, now_ms, is_verified)
            return appended if append_time_ms < 0 or appended[2] >= 0 else (*appended[:2], append_time_ms)
        if fields[PRODUCER_ID] != NO_PRODUCER_ID or not log.append_batch(
            buffer, fields[MAX_TIMESTAMP], next_offset, self.epoch, now_ms
        ):
            header = _new(BatchHeader, fields)
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

    def append_built(self, batch: bytes, count: int, config: ValidationConfig, now_ms: int) -> tuple[int, int]:
        """Append a batch of ``count`` records without a producer that this node built for the log's end, in this
        epoch, all with keys and the time ``now_ms``. [base offset, next offset).

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
        """A batch of no transaction, whose producer asked for one that is not open here: it may not overtake either."""
        producers = self.log.producers
        if producers.repeated(header) is None:
            producers.check_epoch(header)
            self.verifications.check_sequence(header, producers)

    def append_in_transaction(
        self, header: BatchHeader, batch: Buffer, now_ms: int, is_verified: bool = False
    ) -> Appended:
        """Append a checked batch of a transactional producer, stamped for the log's end.

        It has a sequence if the producer sent it itself, and none if a coordinator writes on its behalf. The
        transaction has to be open here, or verified with its coordinator.

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
        return base_offset, base_offset + header.last_offset_delta + 1, -1

    def _appended(self) -> None:
        """The log has become longer."""
        if self._alone:
            end = self.high_watermark = self.log.end
            self.log.producers.replicated_to(end.offset)
        else:
            self.advance_high_watermark()

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        """End a producer's transaction here; the marker's offset.

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
        )
        self.verifications.end(marker.producer_id)
        log.append((parse_header(batch),), batch, now_ms)
        self._appended()
        return offset

    def advance_high_watermark(self) -> bool:
        """Take over what the in-sync replicas have reached; whether the high watermark moved."""
        reached = self.log.end
        for replica in self.isr:
            if replica != self.node_id:
                reached = min(reached, self.follower_ends.get(replica, self.high_watermark))
        if reached.offset < self.high_watermark.offset:
            return False
        moved = reached.offset > self.high_watermark.offset
        # Also where the offset is the same: after a roll it lies in another segment.
        self.high_watermark = reached
        self.log.producers.replicated_to(reached.offset)
        return moved
