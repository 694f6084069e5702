"""This node leads a partition, in one leader epoch.

The leader orders records: it checks a produced batch, stamps its offset and epoch, and appends it. It knows how far
every in-sync replica has come, hence the high watermark: the smallest log end offset over the in-sync replicas. With
this node as the only one in sync, an append moves the high watermark at once.

Invariants: the high watermark never goes back and never exceeds the log's end; nothing at or above it is shown to
consumers; nothing at or above the last stable offset is shown to those that read committed.
(Kafka: ``Partition.appendRecordsToLeader``, ``Partition.maybeIncrementLeaderHW``, ``UnifiedLog.append``.)
"""

from collections.abc import Sequence

from kpybroker.errors import KafkaError
from kpybroker.partition.validation import ValidationConfig, validate
from kpystorage.log import Log
from kpystorage.log_offset import LogOffset
from kpystorage.log_slice import LogSlice
from kpywire import error_codes
from kpywire.batch import (
    ATTRIBUTES,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    NO_PRODUCER_ID,
    PRODUCER_ID,
    TRANSACTIONAL_MASK,
    BatchHeader,
)

Appended = tuple[int, int, int]
"""Where a produced batch went, ``[base_offset, next_offset)``, and the time of its append on LogAppendTime topics, else
-1; of a batch that was there before, its largest timestamp, as Kafka answers."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class Leader:
    """The role of a partition's leader. ``replicas`` and ``isr`` are broker ids; ``node_id`` is this broker."""

    __slots__ = (
        "_alone",
        "epoch",
        "follower_ends",
        "high_watermark",
        "isr",
        "log",
        "name",
        "node_id",
        "partition_epoch",
        "replicas",
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
        self.log = log
        self.name = log.name
        self.node_id = node_id
        self.epoch = epoch
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self.change_isr(isr)
        self.follower_ends: dict[int, LogOffset] = {}
        bounded = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.high_watermark = log.position_of(bounded)
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

    def append(self, records: memoryview, config: ValidationConfig, now_ms: int) -> Appended:
        """Append one produced batch; it is stamped in place. (base offset, next offset, append time or -1).

        Raises:
            KafkaError: the batch is refused; nothing was appended.
            DiskFailure: the log's directory failed.
        """
        log = self.log
        base_offset = log.end.offset
        fields, buffer, append_time_ms = validate(records, config, now_ms, self.epoch, base_offset, self.name)
        next_offset: int = base_offset + fields[LAST_OFFSET_DELTA] + 1
        if fields[ATTRIBUTES] & TRANSACTIONAL_MASK:
            raise KafkaError(error_codes.INVALID_TXN_STATE)
        if fields[PRODUCER_ID] != NO_PRODUCER_ID or not log.append_batch(
            buffer, fields[MAX_TIMESTAMP], next_offset, self.epoch, now_ms
        ):
            header = BatchHeader._make(fields)
            if header.producer_id >= 0:
                duplicate = log.producers.check(header)
                if duplicate is not None:
                    return duplicate.first_offset, duplicate.last_offset + 1, duplicate.timestamp
            log.append((header,), buffer, now_ms)
        if self._alone:
            self.high_watermark = log.end
        else:
            self.advance_high_watermark()
        return base_offset, next_offset, append_time_ms

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
        return moved

    # Reading

    def last_stable_offset(self) -> LogOffset:
        """The end of what is decided: no open transaction below it, and nothing above the high watermark."""
        if self.log.producers.first_unstable is None:
            return self.high_watermark
        return self.log.last_stable_offset(self.high_watermark)

    def end_for(self, isolation: int) -> LogOffset:
        """The exclusive end of what a consumer of this isolation level may see."""
        return self.last_stable_offset() if isolation == READ_COMMITTED else self.high_watermark

    def read(self, offset: int, max_bytes: int, end: LogOffset, *, min_one_batch: bool) -> LogSlice | None:
        """Batches from the one that holds ``offset``, below ``end``; None where there is nothing to read yet.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, below the log's start or above its end.
        """
        log = self.log
        if offset >= end.offset:
            if offset > log.end.offset:
                raise _out_of_range(log, offset)
            return None
        if offset < log.log_start_offset:
            raise _out_of_range(log, offset)
        return log.read(offset, max_bytes, end, min_one_batch=min_one_batch)

    def check_epoch(self, epoch: int) -> None:
        """Fence a request by the leader epoch its sender believes in (KIP-320); -1 is not checked."""
        if epoch == -1 or epoch == self.epoch:
            return
        raise KafkaError(error_codes.FENCED_LEADER_EPOCH if epoch < self.epoch else error_codes.UNKNOWN_LEADER_EPOCH)


def _out_of_range(log: Log, offset: int) -> KafkaError:
    return KafkaError(
        error_codes.OFFSET_OUT_OF_RANGE,
        f"Received request for offset {offset} for partition {log.topic}-{log.partition}, but we only have log "
        f"segments from offset {log.log_start_offset} to {log.log_end_offset}.",
    )
