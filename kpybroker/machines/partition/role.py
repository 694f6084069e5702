"""The common part of leader and follower in one leader epoch: the log, its high watermark, and the offsets that readers
may see (KIP-392 lets them read from followers too).

Invariant: nothing at or above the high watermark is shown to consumers; nothing at or above the last stable offset is
shown to those that read committed.
"""

from typing import Final

from kpybroker.machines.errors import KafkaError
from kpystorage.log import Log
from kpystorage.log_offset import LogOffset
from kpystorage.log_slice import LogSlice
from kpywire import error_codes

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


class Role:
    """A role that has begun: its log is open."""

    __slots__ = ("epoch", "high_watermark", "log", "name")
    high_watermark: LogOffset

    def __init__(self, log: Log, epoch: int, high_watermark: int) -> None:
        """``high_watermark`` is the last one known; records that the log does not have are not committed here."""
        self.log = log
        self.name = log.name
        self.epoch = epoch
        bounded = min(max(high_watermark, log.local_log_start_offset), log.log_end_offset)
        self.high_watermark = log.position_of(bounded)
        log.producers.replicated_to(bounded)

    def relocate(self, log: Log) -> None:
        """Use another log with the same batches at the same offsets: the log was moved. DiskFailure."""
        high_watermark = max(self.high_watermark.offset, log.local_log_start_offset)
        self.log = log
        self.high_watermark = log.position_of(high_watermark)
        log.producers.replicated_to(high_watermark)

    def last_stable_offset(self) -> LogOffset:
        """The last stable offset: no open transaction begins below it, and it is not above the high watermark."""
        if self.log.producers.first_unstable is None:
            return self.high_watermark
        return self.log.last_stable_offset(self.high_watermark)

    def end_for(self, isolation: int) -> LogOffset:
        """The exclusive end of the records that a consumer of this isolation level may see."""
        return self.last_stable_offset() if isolation == READ_COMMITTED else self.high_watermark

    def read(self, offset: int, max_bytes: int, end: LogOffset, *, min_one_batch: bool) -> LogSlice | None:
        """Read batches from the one that holds ``offset``, below ``end``; None if there is nothing to read yet.

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
        """Fence a request by the leader epoch that its sender knows (KIP-320); -1 is not checked."""
        if epoch == -1 or epoch == self.epoch:
            return
        raise KafkaError(error_codes.FENCED_LEADER_EPOCH if epoch < self.epoch else error_codes.UNKNOWN_LEADER_EPOCH)

    def divergence(self, fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """The (epoch, end offset) where the log of a reader diverges from this one, if it does (KIP-595).

        It has read up to ``fetch_offset``, last of ``fetched_epoch``. Raises KafkaError.
        """
        log = self.log
        epoch, end_offset = log.epochs.end_offset_for(fetched_epoch, log.log_end_offset)
        if epoch < 0 or fetch_offset < log.log_start_offset:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if epoch < fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None


def _out_of_range(log: Log, offset: int) -> KafkaError:
    return KafkaError(
        error_codes.OFFSET_OUT_OF_RANGE,
        f"Received request for offset {offset} for partition {log.topic}-{log.partition}, but we only have log "
        f"segments from offset {log.log_start_offset} to {log.log_end_offset}.",
    )
