"""Followers whose logs begin in the middle, because their leaders have the beginning only in the store (KIP-405).

`kpybroker.machines.remote_log.follower` decides; here the leader, the metadata and the store are asked, and the log
begins. All partitions are built at the same time; the store's answers come some at a time. Everything is fetched before
the old log is dropped. (Kafka: ``TierStateMachine``, ``ReplicaFetcherThread.buildRemoteLogAuxState``.)

An answer counts only while the follower has the role and the log for which it was asked.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.peer import NoResponse, Peer
from kpybroker.hosts.remote_log.figures import TierFigures
from kpybroker.hosts.remote_log.segment_ends import SegmentEnd, SegmentEnds
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.partition.follower import PartitionFollower
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.follower import (
    EARLIEST_PENDING_UPLOAD,
    MAY_BE_UNKNOWN,
    AskEpochEnd,
    AskOffset,
    AuxiliaryState,
    FetchIndexes,
    FindSegment,
    StartAt,
    Step,
)
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.cutting import Preparation, preparation
from kpystorage.errors import DiskFailure, StorageError
from kpywire import error_codes
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger("kpybroker.tiering")

FETCH_LAST_TIERED = "follower.fetch.last.tiered.offset.enable"
ENDED = "its role has ended"

SegmentsOf = Callable[[bytes, int], RemoteSegments | None]
"""The segments of a partition, by topic id and index: none at all in an empty `RemoteSegments`, None as long as the
metadata of the store are not read to their end."""


class FollowerBeginning:
    """One attempt for one follower."""

    __slots__ = ("done", "follower", "leader", "log", "replica", "state")

    def __init__(
        self,
        replica: Replica,
        follower: PartitionFollower,
        leader: Peer,
        done: Callable[[str | None], object],
        state: AuxiliaryState,
    ) -> None:
        self.replica = replica
        self.follower = follower
        self.log = follower.log
        self.leader = leader
        self.done = done
        self.state = state

    @property
    def is_over(self) -> bool:
        """Whether the role has ended, or the log has been moved."""
        replica = self.replica
        return replica.follower is not self.follower or self.follower.log is not self.log or replica.offline


class AuxiliaryStates:
    """The followers of a node whose logs are about to begin in the middle."""

    def __init__(
        self,
        node_id: int,
        scheduler: Scheduler,
        segments_of: SegmentsOf,
        ends: SegmentEnds,
        config: Callable[[], BrokerConfig],
        figures: TierFigures,
        disk_failed: Callable[[DiskFailure], object],
    ) -> None:
        self._node_id = node_id
        self._scheduler = scheduler
        self._segments_of = segments_of
        self._ends = ends
        self._config = config
        self._figures = figures
        self._disk_failed = disk_failed

    def begin(self, replica: Replica, leader: Peer, done: Callable[[str | None], object]) -> None:
        """Make the log of a follower begin where its leader's begins on the disk, or, if that is configured and it is
        empty, behind what is copied. ``done`` is called once, with the reason if this has to be tried again."""
        follower = replica.follower
        if follower is None:
            done(ENDED)
            return
        self._figures.of(replica.topic.name).aux_states += 1
        state = self._state(replica, follower, fetch_last_tiered=self._config()[FETCH_LAST_TIERED])
        self._take(FollowerBeginning(replica, follower, leader, done, state), state.begin())

    def skips_tiered(self, replica: Replica) -> bool:
        """Whether a follower is empty, and is to begin behind what is copied (KIP-1023)."""
        config, follower = replica.topic.config, replica.follower
        is_empty = follower is not None and follower.log.end.offset == 0
        return is_empty and config.tier is not None and not config.compact and self._config()[FETCH_LAST_TIERED]

    @staticmethod
    def _state(replica: Replica, follower: PartitionFollower, *, fetch_last_tiered: bool) -> AuxiliaryState:
        return AuxiliaryState(
            log_end_offset=follower.log.end.offset,
            is_compacted=replica.topic.config.compact,
            fetch_last_tiered=fetch_last_tiered,
        )

    def _take(self, of: FollowerBeginning, step: Step) -> None:
        """Take the next step of an attempt."""
        if of.is_over:
            of.done(ENDED)
        elif isinstance(step, AskOffset):
            self._ask_offset(of, step.timestamp)
        elif isinstance(step, AskEpochEnd):
            self._ask_epoch_end(of, step.epoch)
        elif isinstance(step, FindSegment):
            self._take(of, of.state.found(self._segments_of(of.replica.topic.id, of.replica.index)))
        elif isinstance(step, FetchIndexes):
            self._ends.fetch(step.segment, partial(self._fetched, of))
        elif isinstance(step, StartAt):
            self._prepare(of, step)
        else:
            self._fail(of, step.reason)

    def _fail(self, of: FollowerBeginning, reason: str) -> None:
        if of.is_over:
            reason = ENDED
        else:
            self._figures.of(of.replica.topic.name).aux_state_errors += 1
        of.done(reason)

    # The leader

    def _ask_offset(self, of: FollowerBeginning, timestamp: int) -> None:
        replica = of.replica
        asked = ListOffsetsPartition(
            partition_index=replica.index, current_leader_epoch=of.follower.epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._node_id, topics=[ListOffsetsTopic(name=replica.topic.name, partitions=[asked])]
        )
        of.leader.send(request, partial(self._on_offset, of, timestamp))

    def _on_offset(self, of: FollowerBeginning, timestamp: int, response: Any) -> None:
        answer = _only_partition(response)
        if isinstance(answer, str):
            self._fail(of, answer)
            return
        is_upload = timestamp == EARLIEST_PENDING_UPLOAD
        if is_upload and answer.error_code == error_codes.UNSUPPORTED_VERSION:
            # The leader is too old for KIP-1023.
            of.state = self._state(of.replica, of.follower, fetch_last_tiered=False)
            self._take(of, of.state.begin())
        elif answer.error_code != error_codes.NONE:
            self._fail(of, f"the leader answers {error_codes.name(answer.error_code)} to ListOffsets of {timestamp}")
        elif answer.offset < 0 and timestamp not in MAY_BE_UNKNOWN:
            self._fail(of, f"the leader has no offset for {timestamp}")
        else:
            self._take(of, of.state.offset(answer.offset, answer.leader_epoch))

    def _ask_epoch_end(self, of: FollowerBeginning, epoch: int) -> None:
        replica = of.replica
        asked = OffsetForLeaderPartition(
            partition=replica.index, current_leader_epoch=of.follower.epoch, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._node_id, topics=[OffsetForLeaderTopic(topic=replica.topic.name, partitions=[asked])]
        )
        of.leader.send(request, partial(self._on_epoch_end, of))

    def _on_epoch_end(self, of: FollowerBeginning, response: Any) -> None:
        answer = _only_partition(response)
        if isinstance(answer, str):
            self._fail(of, answer)
        elif answer.error_code != error_codes.NONE:
            self._fail(of, f"the leader answers {error_codes.name(answer.error_code)} to OffsetsForLeaderEpoch")
        else:
            self._take(of, of.state.epoch_end(answer.leader_epoch, answer.end_offset))

    # The store and the disk

    def _fetched(self, of: FollowerBeginning, end: SegmentEnd | str) -> None:
        if isinstance(end, str):
            self._fail(of, end)
        else:
            self._take(of, of.state.fetched(end.epochs, end.producer_snapshot))

    def _prepare(self, of: FollowerBeginning, start: StartAt) -> None:
        if start.offset == start.log_start_offset == of.log.end.offset == of.log.log_start_offset:
            of.done(None)  # the leader has everything on its disk
            return
        preparing = preparation(of.log, *start)
        if preparing is None:
            self._start(of, start)
        else:
            self._scheduler.submit_flush(preparing.run, partial(self._prepared, of, start, preparing))

    def _prepared(self, of: FollowerBeginning, start: StartAt, preparing: Preparation, *_outcome: object) -> None:
        if not of.is_over:
            self._start(of, start)  # which writes again, and fails again, where the thread failed
            return
        with suppress(OSError):
            preparing.give_up()
        of.done(ENDED)

    def _start(self, of: FollowerBeginning, start: StartAt) -> None:
        before = of.log.end.offset
        try:
            of.follower.begin_in_middle(*start, self._scheduler.now_ms())
        except StorageError as error:
            if isinstance(error, DiskFailure):
                self._disk_failed(error)
            self._fail(of, str(error))
            return
        log.info(
            "%s ended at offset %d and begins again at %d, behind what the store has; readers may begin at %d",
            of.replica, before, start.offset, start.log_start_offset,
        )  # fmt: skip
        of.replica.changed()
        of.done(None)


def _only_partition(response: Any) -> Any:
    """The answer for the one partition that was asked about, or the reason why there is none."""
    if isinstance(response, NoResponse):
        return response.reason
    answers = [partition for topic in response.topics for partition in topic.partitions]
    return answers[0] if len(answers) == 1 else f"the leader answers for {len(answers)} partitions in place of one"
