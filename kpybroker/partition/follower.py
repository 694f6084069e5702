"""This node follows the leader of a partition, in one leader epoch: its log becomes what the leader's is.

What the leader sends is appended as it is, byte for byte. Where the two logs part, ours is cut until they do not
(KIP-101, KIP-279). The high watermark is the leader's, as far as our log goes.

Not here: asking the leader, and when (`kpybroker.replicas.fetcher`).

Invariants: the next offset to fetch is the log's end; the high watermark never goes back but with the log's end, which
goes below it only where an unclean election lost records that were committed.
(Kafka: ``UnifiedLog.appendAsFollower``, ``Partition.appendRecordsToFollowerOrFutureReplica``,
``AbstractFetcherThread.getOffsetTruncationState``.)
"""

import logging
from typing import Final, NamedTuple

from kpybroker.errors import KafkaError
from kpybroker.partition.role import Role
from kpystorage.log_offset import LogOffset
from kpywire import error_codes
from kpywire.batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
)
from kpywire.crc import crc32c

log = logging.getLogger("kpybroker.replication")

PIECE_BYTES: Final = 512 * 1024
PIECE_BATCHES: Final = 500
"""So much is checked and written in one go."""
UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
_MIN_BATCH_LENGTH: Final = HEADER_BYTES - LENGTH_END
_new: Final = tuple.__new__


class NextFetch(NamedTuple):
    """What to ask the leader for."""

    offset: int
    last_epoch: int
    """The epoch of the last batch, -1 without any: the leader compares it with what it has before ``offset``."""
    log_start_offset: int


class Heard(NamedTuple):
    """What changed by what the leader says of itself."""

    high_watermark: bool
    log_start: bool
    """It begins behind where ours does, and what is between is committed here: ours is to begin there, too."""


class Follower(Role):
    """The role of a follower. ``begin`` comes first."""

    __slots__ = ()

    def begin(self, now_ms: int) -> None:
        """A log without epochs cannot be compared with the leader's: it goes on at the high watermark. DiskFailure."""
        if self.log.epochs.latest == UNDEFINED_EPOCH:
            self._truncate(self.high_watermark.offset, now_ms)

    @property
    def next_fetch(self) -> NextFetch:
        """Where to go on."""
        found = self.log
        return _new(NextFetch, (found.end.offset, found.epochs.latest, found.log_start_offset))

    # Appending

    def append(self, records: memoryview, position: int, now_ms: int) -> int:
        """Append the next batches of what the leader sent, from ``position`` on; where the rest begins.

        Everything was taken when that is the end: a batch that is cut off is left out, as are those of an epoch that
        this node does not know of yet, with all behind them.

        Raises:
            KafkaError: CORRUPT_MESSAGE, or UNKNOWN_SERVER_ERROR for offsets that do not go on where the log ends;
                nothing from ``position`` on was appended.
            StorageError: a segment cannot hold a batch, or the log's directory failed.
            Malformed: a transaction marker is not readable.
        """
        headers, end, is_last = self._whole_batches(records, position)
        if headers:
            self._make_room_for(headers[0], now_ms)
            data, first, found = records[position:end], headers[0], self.log
            if (
                len(headers) > 1
                or first.producer_id != NO_PRODUCER_ID
                or first.base_offset != found.end.offset
                or not found.append_batch(
                    data, first.max_timestamp, first.next_offset, first.partition_leader_epoch, now_ms
                )
            ):
                found.append(headers, data, now_ms)
        return len(records) if is_last else end

    def _whole_batches(self, records: memoryview, position: int) -> tuple[list[BatchHeader], int, bool]:
        """The headers of the next batches, checked; where they end, and whether nothing follows that can be taken."""
        headers: list[BatchHeader] = []
        limit = position + min(PIECE_BYTES, self.log.config.segment_bytes)
        total, epoch, unpack = len(records), self.epoch, HEADER.unpack_from
        expected = -1
        while position + HEADER_BYTES <= total:
            header: BatchHeader = _new(BatchHeader, unpack(records, position))
            end = position + header.batch_length + LENGTH_END
            if header.batch_length < _MIN_BATCH_LENGTH or header.magic != MAGIC:
                raise self._corrupt(header, f"{header.batch_length} bytes in format {header.magic}")
            if end > total:
                break
            if header.partition_leader_epoch > epoch:
                log.info(
                    "%s: the batch at offset %d is of epoch %d, above %d, and waits for the metadata",
                    self.name, header.base_offset, header.partition_leader_epoch, epoch,
                )  # fmt: skip
                break
            if headers and (end > limit or len(headers) == PIECE_BATCHES):
                return headers, position, False
            if crc32c(records[position + ATTRIBUTES_POSITION : end]) != header.crc:
                raise self._corrupt(header, "another CRC than it declares")
            if header.base_offset < expected or header.last_offset_delta < 0:
                raise self._out_of_order(header.base_offset, expected)
            headers.append(header)
            expected = header.next_offset
            position = end
        return headers, position, True

    def _make_room_for(self, first: BatchHeader, now_ms: int) -> None:
        """An empty log may begin within a batch, where the leader's does since DeleteRecords: it is moved back."""
        found = self.log
        end = found.end.offset
        if first.base_offset >= end:
            return
        if end != found.log_start_offset or first.last_offset < end:
            raise self._out_of_order(first.base_offset, end)
        log.info("%s begins at offset %d, with the batch that offset %d lies in", self.name, first.base_offset, end)
        found.truncate_fully_and_start_at(first.base_offset, now_ms, log_start_offset=end)
        self.high_watermark = LogOffset(end)

    def _corrupt(self, header: BatchHeader, reason: str) -> KafkaError:
        message = f"{self.name}: the batch at offset {header.base_offset} has {reason}"
        return KafkaError(error_codes.CORRUPT_MESSAGE, message)

    def _out_of_order(self, offset: int, expected: int) -> KafkaError:
        message = f"{self.name}: a batch at offset {offset} cannot follow, {expected} is the next one"
        return KafkaError(error_codes.UNKNOWN_SERVER_ERROR, message)

    def heard(self, high_watermark: int, log_start_offset: int) -> Heard:
        """Take over how far the leader's log is committed, after its records; whether it begins behind ours."""
        found = self.log
        end, known = found.end, self.high_watermark
        reached = min(high_watermark, end.offset)
        moved = reached > known.offset
        if reached == end.offset and reached >= known.offset:
            self.high_watermark = end
        elif moved:
            self.high_watermark = LogOffset(reached)
        if moved:
            found.producers.replicated_to(reached)
        return _new(Heard, (moved, found.log_start_offset < log_start_offset <= self.high_watermark.offset))

    # Truncating

    def truncate(self, leader_epoch: int, end_offset: int, now_ms: int) -> None:
        """The leader's log has nothing above ``end_offset`` of ``leader_epoch``, and no epoch between it and our last.

        DiskFailure.
        """
        found = self.log
        end = found.end.offset
        if end_offset == UNDEFINED_OFFSET:
            log.warning("%s: the leader does not know where it parts from us; going on at offset %d", self.name, end)
            cut = end
        elif leader_epoch == UNDEFINED_EPOCH:
            cut = end_offset
        else:
            epoch, cut = found.epochs.end_offset_for(leader_epoch, end)
            if epoch == leader_epoch or cut == UNDEFINED_OFFSET:
                cut = end_offset if cut == UNDEFINED_OFFSET else min(cut, end_offset)
        self._truncate(min(cut, end), now_ms)

    def leader_ends(self, end_offset: int, now_ms: int) -> bool:
        """Our offset is out of the leader's range; whether the leader's log ends before ours, which is cut then.

        That is an unclean election: what had been committed is lost, and what follows may differ. DiskFailure.
        """
        end = self.log.end.offset
        if end_offset >= end:
            return False
        log.warning("%s: it is cut from offset %d to %d, where the leader's log ends", self.name, end, end_offset)
        self._truncate(end_offset, now_ms)
        return True

    def leader_starts(self, start_offset: int, now_ms: int) -> None:
        """The same where that log does not end before ours: if it begins behind our end, so do we. DiskFailure."""
        found = self.log
        if start_offset > found.end.offset:
            log.warning("%s: it starts over at offset %d, where the leader's log begins", self.name, start_offset)
            found.truncate_fully_and_start_at(start_offset, now_ms)
            self.high_watermark = found.end

    def _truncate(self, offset: int, now_ms: int) -> None:
        found, known = self.log, self.high_watermark
        if offset < known.offset:
            log.warning("%s: cut to offset %d, below the high watermark %d", self.name, offset, known.offset)
        elif offset < found.end.offset:
            log.info("%s: cut from offset %d to %d", self.name, found.end.offset, offset)
        if found.truncate_to(offset, now_ms) and known.offset >= found.end.offset:
            self.high_watermark = found.end
