"""This node follows the leader of a partition, in one leader epoch: its log becomes a copy of the leader's.

Batches of the leader are appended unchanged, byte for byte. If the two logs diverge, this node's log is truncated to
the point where they agree (KIP-101, KIP-279). The high watermark is the leader's, up to the end of this node's log.

Not here: asking the leader, and when (`kpybroker.machines.replica_fetcher`).

Invariants: the next offset to fetch is the log's end; the high watermark goes back only with the log's end, which goes
below it only after an unclean election lost committed records.
(Kafka: ``UnifiedLog.appendAsFollower``, ``Partition.appendRecordsToFollowerOrFutureReplica``,
``AbstractFetcherThread.getOffsetTruncationState``.)
"""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.role import Role
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
"""How many batches are checked and written in one go."""
UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
_MIN_BATCH_LENGTH: Final = HEADER_BYTES - LENGTH_END
_new: Final = tuple.__new__


class NextFetch(NamedTuple):
    """The position from which to fetch."""

    offset: int
    last_epoch: int
    """The epoch of the last batch, -1 without any. The leader compares it with the epoch it has before ``offset``."""
    log_start_offset: int


class HeardOffsets(NamedTuple):
    """The changes that follow from the leader's high watermark and log start."""

    high_watermark: bool
    log_start: bool
    """The leader's log begins after ours, and everything between is committed here: our log is to begin there, too."""


class PartitionFollower(Role):
    """The role of a follower. `begin` has to be called first."""

    __slots__ = ()

    def begin(self, now_ms: int) -> None:
        """Prepare the log. A log without epochs cannot be compared with the leader's: it is truncated to the high
        watermark. DiskFailure."""
        if self.log.epochs.latest == UNDEFINED_EPOCH:
            self._truncate(self.high_watermark.offset, now_ms)

    @property
    def next_fetch(self) -> NextFetch:
        """The position from which to fetch next."""
        found = self.log
        return _new(NextFetch, (found.end.offset, found.epochs.latest, found.log_start_offset))

    # Appending

    def append(self, records: memoryview, position: int, now_ms: int) -> int:
        """Append the next batches of the leader's answer, from ``position`` on; the position where the rest begins.

        Nothing is left when that is the end of ``records``. A batch that is cut off is ignored. So are a batch with an
        epoch that this node does not know yet, and everything after it.

        Raises:
            KafkaError: CORRUPT_MESSAGE, or UNKNOWN_SERVER_ERROR for offsets that do not continue at the log's end (only
            a
                compacted topic may have a gap there); nothing from ``position`` on was appended.
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
        """The headers of the next batches, checked; where they end, and whether no batch follows that can be
        appended."""
        headers: list[BatchHeader] = []
        limit = position + min(PIECE_BYTES, self.log.config.segment_bytes)
        total, epoch, unpack = len(records), self.epoch, HEADER.unpack_from
        expected = self.log.end.offset
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
            if header.base_offset != expected:
                self._check_step(header.base_offset, expected, is_first=not headers)
            if header.last_offset_delta < 0:
                raise self._out_of_order(header.base_offset, expected)
            headers.append(header)
            expected = header.next_offset
            position = end
        return headers, position, True

    def _check_step(self, offset: int, expected: int, *, is_first: bool) -> None:
        """Check a batch that does not begin where the last one ended: only a leader's compaction leaves gaps.

        The first batch may begin before the log's end if the log is empty (`_make_room_for`).
        """
        if offset < expected:
            if not is_first:
                raise self._out_of_order(offset, expected)
        elif not self.log.config.cleanup_compact:
            message = (
                f"{self.name}: the leader has no records from offset {expected} up to {offset}, though it is not "
                f"compacted: they are lost there, and a gap is not taken over. Have another replica lead, or see what "
                f"`kpybroker check` says on the leader's machine. (If the topic was compacted once, set its "
                f"cleanup.policy to compact until this replica has caught up.)"
            )
            raise KafkaError(error_codes.UNKNOWN_SERVER_ERROR, message)

    def _make_room_for(self, first: BatchHeader, now_ms: int) -> None:
        """Move the start of an empty log back to that of the first batch: after DeleteRecords the leader's log may
        begin within a batch."""
        found = self.log
        end = found.end.offset
        if first.base_offset >= end:
            return
        if end != found.local_log_start_offset or first.last_offset < end:
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

    def heard(self, high_watermark: int, log_start_offset: int) -> HeardOffsets:
        """Take over the leader's high watermark after its records, and report whether its log begins after ours."""
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
        return _new(HeardOffsets, (moved, found.log_start_offset < log_start_offset <= self.high_watermark.offset))

    # Truncating

    def truncate(self, leader_epoch: int, end_offset: int, now_ms: int) -> None:
        """Truncate the log: the leader's has nothing above ``end_offset`` of ``leader_epoch``, and no epoch between it
        and our last.

        DiskFailure.
        """
        if end_offset == UNDEFINED_OFFSET:
            log.warning(
                "%s: the leader does not know where the logs diverge; fetching continues at offset %d",
                self.name, self.log.end.offset,
            )  # fmt: skip
        self._truncate(self.agrees_up_to(leader_epoch, end_offset), now_ms)

    def agrees_up_to(self, leader_epoch: int, end_offset: int) -> int:
        """The offset at which `truncate` cuts."""
        found = self.log
        cut = end = found.end.offset
        if end_offset == UNDEFINED_OFFSET:
            pass
        elif leader_epoch == UNDEFINED_EPOCH:
            cut = end_offset
        else:
            epoch, cut = found.epochs.end_offset_for(leader_epoch, end)
            if epoch == leader_epoch or cut == UNDEFINED_OFFSET:
                cut = end_offset if cut == UNDEFINED_OFFSET else min(cut, end_offset)
        return min(cut, end)

    def leader_ends(self, end_offset: int, now_ms: int) -> bool:
        """Handle an offset out of the leader's range: if the leader's log ends before ours, ours is truncated; whether
        it was.

        This happens after an unclean election: committed records are lost, and later ones may differ. DiskFailure.
        """
        end = self.log.end.offset
        if end_offset >= end:
            return False
        log.warning("%s is truncated from offset %d to %d, where the leader's log ends", self.name, end, end_offset)
        self._truncate(end_offset, now_ms)
        return True

    def leader_starts(self, start_offset: int, now_ms: int) -> None:
        """Handle an offset out of the leader's range if its log does not end before ours. If it begins after our end,
        our log starts over there. DiskFailure."""
        found = self.log
        if start_offset > found.end.offset:
            log.warning("%s starts again at offset %d, where the leader's log begins", self.name, start_offset)
            found.truncate_fully_and_start_at(start_offset, now_ms)
            self.high_watermark = found.end

    def begin_in_middle(
        self,
        offset: int,
        log_start_offset: int,
        epochs: Sequence[tuple[int, int]],
        producer_snapshot: bytes | None,
        now_ms: int,
    ) -> None:
        """Drop the whole log and begin at ``offset``, with what the store knows of the records before it (KIP-405).
        DiskFailure."""
        self.log.begin_in_middle(offset, log_start_offset, epochs, producer_snapshot, now_ms)
        self.high_watermark = self.log.end

    def _truncate(self, offset: int, now_ms: int) -> None:
        found, known = self.log, self.high_watermark
        if offset < known.offset:
            log.warning("%s was truncated to offset %d, below its high watermark %d", self.name, offset, known.offset)
        elif offset < found.end.offset:
            log.info("%s was truncated from offset %d to %d", self.name, found.end.offset, offset)
        if found.truncate_to(offset, now_ms) and known.offset >= found.end.offset:
            self.high_watermark = found.end
