"""Leaders without records: before they serve anything, their logs begin behind what the store has of their partitions.

So a node whose disk was lost serves its tiered partitions again, and no producer gets an offset that the store has
already. A partition whose topic is new takes this step too: it may be the same partition on a new disk, which only the
metadata of the store can tell apart. They are read as a rule, and then nothing waits.

`kpybroker.machines.remote_log.empty_leader` decides.

Invariant: no leader's role begins with an empty log of a tiered topic unless the metadata of the store were read, and
nothing at or behind the log's end was ever copied.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from kpybroker.hosts.remote_log.auxiliary_states import SegmentsOf
from kpybroker.hosts.remote_log.segment_ends import SegmentEnd, SegmentEnds
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.remote_log.empty_leader import EmptyLeader, LeaderStep, StayEmpty
from kpybroker.machines.remote_log.follower import FetchIndexes, StartAt
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.cutting import Preparation, preparation
from kpystorage.errors import DiskFailure, StorageError
from kpystorage.log import Log
from kpystorage.unmade import LogStart
from kpywire import error_codes

log = logging.getLogger("kpybroker.tiering")

AGAIN_MS: Final = 100
"""The pause between two looks at the partitions that wait."""
MOST_PAUSE_MS: Final = 10_000
"""The longest pause of one partition after errors."""


class LeaderBeginning:
    """A leader whose log is about to begin."""

    __slots__ = ("due_ms", "epoch", "errors", "found", "machine", "reason", "replica", "start")

    def __init__(self, replica: Replica, found: Log | None) -> None:
        """``found`` is its log without records, None where there is not even that."""
        self.replica = replica
        self.found = found
        self.epoch = replica.partition.leader_epoch
        bounds = () if found is None else (found.log_start_offset, found.end.offset)
        self.machine = EmptyLeader(self.epoch, *bounds)
        self.start: LogStart | None = None
        """The place where a log without files begins, once it is known."""
        self.errors = 0
        self.due_ms = 0.0
        self.reason = ""
        """The last reason that was logged."""

    @property
    def is_over(self) -> bool:
        """Whether this node no longer leads in the epoch, or the log is not the one that was found empty."""
        replica = self.replica
        is_led = replica.is_led_here and replica.role is None and replica.partition.leader_epoch == self.epoch
        return not is_led or (self.found is not None and (not self.found.is_open or self.found.size > 0))


class EmptyLeaders:
    """The leaders of a node with empty logs of tiered topics."""

    def __init__(
        self,
        scheduler: Scheduler,
        segments_of: SegmentsOf,
        ends: SegmentEnds,
        disk_failed: Callable[[DiskFailure], object],
    ) -> None:
        self._scheduler = scheduler
        self._segments_of = segments_of
        self._ends = ends
        self._disk_failed = disk_failed
        self._waiting: dict[Replica, LeaderBeginning] = {}
        """All that have not begun. The metadata are read again for those that ``_busy`` does not have."""
        self._busy: set[Replica] = set()
        """The leaders of which a thread fetches or writes something."""
        self._begun = 0
        """The logs that have begun since the last line of the log about them."""
        self._is_looking = self._is_stopped = False

    def __len__(self) -> int:
        return len(self._waiting)

    def stop(self) -> None:
        """Begin nothing more: the node stops."""
        self._is_stopped = True
        self._waiting.clear()

    def check(self, replica: Replica, found: Log) -> None:
        """Check the open log of a partition that this node leads, before the role begins.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, until it is known where the log begins. The role begins then.
        """
        if found.size > 0:
            return
        self._begin_later(LeaderBeginning(replica, found))

    def beginning(self, replica: Replica) -> LogStart | None:
        """The place where the log of a partition begins that this node leads and has no files of; None where the store
        has nothing of it. Raises the error of `check`."""
        known = self._waiting.get(replica)
        if known is not None and known.start is not None and not known.is_over:
            return known.start
        self._begin_later(LeaderBeginning(replica, None))
        return None

    def _begin_later(self, of: LeaderBeginning) -> None:
        """Find where a log begins, unless it is known that the store has nothing of it."""
        replica = of.replica
        segments = self._segments_of(replica.topic.id, replica.index)
        if segments is not None and isinstance(of.machine.found(segments), StayEmpty):
            return
        known = self._waiting.setdefault(replica, of)
        if known.is_over and replica not in self._busy:
            self._waiting[replica] = of
        self._look_soon()
        raise KafkaError(
            error_codes.NOT_LEADER_OR_FOLLOWER, f"{replica}: it is not known yet where the log begins behind the store"
        )

    # The partitions that wait

    def _look_soon(self) -> None:
        if not self._is_looking and not self._is_stopped:
            self._is_looking = True
            self._scheduler.call_soon(self._look)

    def _look(self) -> None:
        self._scheduler.in_pieces(self._look_in_pieces())

    def _look_in_pieces(self) -> Iterator[None]:
        try:
            for replica in list(self._waiting):
                of = self._waiting.get(replica)
                is_due = of is not None and of.due_ms <= self._scheduler.monotonic_ms()
                if of is not None and is_due and replica not in self._busy:
                    self._begin(of)
                yield
        finally:
            self._is_looking = False
        if self._waiting and not self._is_stopped:
            self._is_looking = True
            self._scheduler.call_later(AGAIN_MS, self._look)

    def _begin(self, of: LeaderBeginning) -> None:
        segments = self._segments_of(of.replica.topic.id, of.replica.index)
        if of.is_over:
            self._end(of)
        elif segments is not None:
            self._take(of, of.machine.found(segments))

    def _take(self, of: LeaderBeginning, step: LeaderStep) -> None:
        if isinstance(step, StayEmpty):
            self._end(of)
        elif isinstance(step, FetchIndexes):
            self._busy.add(of.replica)
            self._ends.fetch(step.segment, partial(self._fetched, of))
        elif isinstance(step, StartAt) and of.found is None:
            of.start = LogStart(*step)
            self._begun += 1
            self._end(of)
        elif isinstance(step, StartAt):
            self._prepare(of, step)
        else:
            self._later(of, step.reason)

    def _fetched(self, of: LeaderBeginning, end: SegmentEnd | str) -> None:
        self._busy.discard(of.replica)
        if self._is_stopped:
            return
        if of.is_over:
            self._end(of)
        elif isinstance(end, str):
            self._later(of, end)
        else:
            self._take(of, of.machine.fetched(end.epochs, end.producer_snapshot))

    def _later(self, of: LeaderBeginning, reason: str) -> None:
        of.errors += 1
        of.due_ms = self._scheduler.monotonic_ms() + min(AGAIN_MS * 2.0 ** min(of.errors, 20), MOST_PAUSE_MS)
        if of.reason != reason:
            log.warning("%s is not led yet, its log is empty and the store has it: %s", of.replica, reason)
            of.reason = reason

    def _prepare(self, of: LeaderBeginning, start: StartAt) -> None:
        assert of.found is not None
        preparing = preparation(of.found, *start)
        if preparing is None:
            self._start(of, start)
            return
        self._busy.add(of.replica)
        self._scheduler.submit_flush(preparing.run, partial(self._prepared, of, start, preparing))

    def _prepared(self, of: LeaderBeginning, start: StartAt, preparing: Preparation, *_outcome: object) -> None:
        self._busy.discard(of.replica)
        if not self._is_stopped and not of.is_over:
            self._start(of, start)  # which writes again, and fails again, where the thread failed
            return
        with suppress(OSError):
            preparing.give_up()
        if not self._is_stopped:
            self._end(of)

    def _start(self, of: LeaderBeginning, start: StartAt) -> None:
        assert of.found is not None
        try:
            of.found.begin_in_middle(*start, self._scheduler.now_ms())
        except StorageError as error:
            if isinstance(error, DiskFailure):
                self._disk_failed(error)
            self._later(of, str(error))
            return
        self._begun += 1
        log.debug(
            "%s was empty though the store has it: its log begins at offset %d, readers may begin at %d",
            of.replica, start.offset, start.log_start_offset,
        )  # fmt: skip
        self._end(of)

    def _end(self, of: LeaderBeginning) -> None:
        """Have the role begin, if this node still leads. In another epoch the next look is from the beginning."""
        replica = of.replica
        try:
            if replica.is_led_here:
                replica.held()
        except DiskFailure as failure:
            self._disk_failed(failure)
        except KafkaError as error:
            log.debug("%s is not led yet: %s", replica, error)
        if self._waiting.get(replica) is of:
            del self._waiting[replica]
        if not self._waiting and self._begun:
            log.warning(
                "%d logs were empty though the store has their partitions, and begin behind it now. Records that were"
                " not copied yet are lost, unless another replica has them",
                self._begun,
            )
            self._begun = 0
        replica.changed()
