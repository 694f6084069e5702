"""A partition's leader as a follower of another cluster: its log becomes a copy of the source's.

Batches are appended unchanged, with the offsets, epochs and producers of the source, by the same code as those of a
leader in this cluster (`kpybroker.machines.partition.follower`). The followers here copy them from this leader as
usual; what they have in common is the high watermark here.

Invariants: every batch is of an epoch below the leader's own; the high watermark is at most the source's.
"""

from typing import Final

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.follower import HeardOffsets, NextFetch, PartitionFollower
from kpybroker.machines.partition.leader import PartitionLeader
from kpystorage.log import Log
from kpywire import error_codes
from kpywire.batch import HEADER_BYTES, parse_header

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class EpochAhead(KafkaError):
    """A batch of the source is of an epoch that is not below this leader's: it has to be raised first."""


class NotExported(KafkaError):
    """The source lacks records that were not exported, so they are not cut off."""


class CreatedAgain(KafkaError):
    """The source's topic is another one than that which was mirrored."""


class FedPartition:
    """The feed of one partition, in one leader epoch here. It has what a fetcher asks of a follower.

    A topic that joins its source (`JOINING`) is cut at ``exported_from`` at most, until it agrees with the source.
    """

    def __init__(self, leader: PartitionLeader, exported_from: int | None = None) -> None:
        self.leader = leader
        self.epoch = NO_EPOCH
        """The epoch of the source's leader that requests name: none where they have topic ids, since metadata of the
        source may be old. With one, both logs were compared in it (`agreement`)."""
        self._exported_from = exported_from
        """All records from this offset on are exported; None if the log may be cut anywhere."""
        self.source_log_start = NO_OFFSET
        """The offset where the source's log begins, by its last answer."""
        self._follower = PartitionFollower(leader.log, leader.epoch - 1, leader.high_watermark.offset)

    @property
    def log(self) -> Log:
        """The log."""
        return self.leader.log

    @property
    def next_fetch(self) -> NextFetch:
        """The position from which to fetch next. A consumer has no log start."""
        found = self.leader.log
        return NextFetch(found.end.offset, found.epochs.latest, NO_OFFSET)

    def append(self, records: memoryview, position: int, now_ms: int) -> int:
        """Append the next batches of the source's answer, from ``position`` on; the position where the rest begins.

        Raises:
            EpochAhead: the next batch is of an epoch that is too late here.
            KafkaError, StorageError, Malformed: as a follower in this cluster.
        """
        if len(records) - position >= HEADER_BYTES:
            header = parse_header(records[position : position + HEADER_BYTES])
            if header.partition_leader_epoch > self._follower.epoch:
                raise EpochAhead(
                    error_codes.UNKNOWN_LEADER_EPOCH,
                    f"{self.leader.name}: the batch at offset {header.base_offset} is of epoch "
                    f"{header.partition_leader_epoch}, and this leader's is {self.leader.epoch}",
                )
            self._make_way_for(header.base_offset, now_ms)
        self._use_log()
        start_offset = self.log.local_log_start_offset
        after = self._follower.append(records, position, now_ms)
        if self.log.local_log_start_offset < start_offset:
            self.leader.cut_to_source()  # an empty log begins earlier now, with the batch that its start lies in
        return after

    def _make_way_for(self, first_offset: int, now_ms: int) -> None:
        """Start over if the next batch begins before our end, where the source's log begins: records were deleted there
        up to within the batch, and with them the epochs that would have shown where both diverge. DiskFailure."""
        found = self.log
        if first_offset < found.end.offset == self.source_log_start and found.local_log_start_offset < found.end.offset:
            found.truncate_fully_and_start_at(found.end.offset, now_ms)
            self.leader.cut_to_source()

    def heard(self, _high_watermark: int, log_start_offset: int) -> HeardOffsets:
        """Move the high watermark here after an append, and report whether the source's log begins after ours. A
        consumer gets nothing above the source's high watermark, so ours stays below it."""
        leader = self.leader
        self._exported_from = None
        moved = leader.advance_high_watermark()
        begins_later = leader.log.log_start_offset < log_start_offset <= leader.high_watermark.offset
        return HeardOffsets(moved, begins_later)

    def truncate(self, epoch: int, end_offset: int, now_ms: int) -> None:
        """Truncate the log: after an unclean election the source's has nothing above ``end_offset`` of ``epoch``.
        DiskFailure, NotExported."""
        self._use_log()
        self._check_exported(self._follower.agrees_up_to(epoch, end_offset))
        self._follower.truncate(epoch, end_offset, now_ms)
        self.leader.cut_to_source()

    def agrees_up_to(self, epoch: int, end_offset: int) -> int:
        """The offset at which `truncate` cuts."""
        self._use_log()
        return self._follower.agrees_up_to(epoch, end_offset)

    def leader_ends(self, end_offset: int, now_ms: int) -> bool:
        """Handle an offset out of the source's range: whether its log ends before ours, which is truncated then.
        DiskFailure, NotExported, CreatedAgain."""
        self._use_log()
        if self.epoch != NO_EPOCH and end_offset < self.log.end.offset:
            text = f"{self.leader.name}: the source ends at {end_offset}, though it had more in its leader epoch before"
            raise CreatedAgain(error_codes.INCONSISTENT_TOPIC_ID, f"{text}: the topic was created again there")
        self._check_exported(end_offset)
        was_cut = self._follower.leader_ends(end_offset, now_ms)
        self.leader.cut_to_source()
        return was_cut

    def leader_starts(self, start_offset: int, now_ms: int) -> None:
        """Handle an offset out of the source's range if its log does not end before ours: where it begins after our
        end, retention was faster than the mirror, and ours starts over there. DiskFailure."""
        self._use_log()
        self._follower.leader_starts(start_offset, now_ms)
        self.leader.cut_to_source()

    def _check_exported(self, cut_at: int) -> None:
        """Raise NotExported if records below ``exported_from`` would be cut off."""
        first, found = self._exported_from, self.log
        if first is not None and max(cut_at, found.log_start_offset) < min(first, found.end.offset):
            raise NotExported(
                error_codes.POLICY_VIOLATION,
                f"{self.leader.name}: the source has nothing from offset {cut_at} on, and only the records from "
                f"{first} on were exported: repeat `kpybroker mirror create --adopt`",
            )

    def _use_log(self) -> None:
        """Follow a log that was moved to another directory."""
        if self._follower.log is not self.leader.log:
            self._follower.relocate(self.leader.log)
