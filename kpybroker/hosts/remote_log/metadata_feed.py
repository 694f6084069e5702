"""Reading the partitions of ``__remote_log_metadata`` that another broker leads, all by one long poll.

A view without an end asks where the partition ends (ListOffsets, which a new leader answers only when it knows what is
committed), then records are fetched as a consumer fetches them, with the checks of KIP-320: a leader whose log has
other records says so, and the view is read again. An error in one partition pauses only this one.

Invariant: one request is under way at a time, and none while an answer is applied.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.hosts.remote_log.metadata_view import MetadataView
from kpybroker.machines.metadata.topic import Topic
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import error_codes
from kpywire.errors import Malformed
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

log = logging.getLogger("kpybroker.remote_log")

MAX_WAIT_MS: Final = 500
PARTITION_BYTES: Final = 1 << 20
ANSWER_BYTES: Final = 8 << 20
FIRST_RETRY_MS: Final = 20
LAST_RETRY_MS: Final = 5_000
LATEST: Final = -1
EARLIEST: Final = -2
CONSUMER: Final = -1
NO_SESSION_EPOCH: Final = -1
EXPECTED: Final = frozenset(
    {
        error_codes.FENCED_LEADER_EPOCH,
        error_codes.NOT_LEADER_OR_FOLLOWER,
        error_codes.OFFSET_NOT_AVAILABLE,
        error_codes.UNKNOWN_LEADER_EPOCH,
        error_codes.UNKNOWN_TOPIC_ID,
        error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors that disappear when both nodes have read the same metadata."""


class _FedView:
    """A view, and its pause after errors in a row. ``is_lost``: its place is not in the leader's log."""

    __slots__ = ("errors", "is_lost", "resume_ms", "view")

    def __init__(self, view: MetadataView) -> None:
        self.view = view
        self.errors = 0
        self.resume_ms = 0.0
        self.is_lost = False


class MetadataFeed:
    """The partitions that one broker leads."""

    def __init__(self, leader_id: int, scheduler: Scheduler, nodes: Nodes, topic: Callable[[], Topic]) -> None:
        """``topic`` is the present one. Nothing else is asked over these ``nodes``: polls wait."""
        self.leader_id = leader_id
        self._scheduler = scheduler
        self._nodes = nodes
        self._topic = topic
        self._fed: dict[int, _FedView] = {}
        self._is_busy = self._is_over = False
        self._failures = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._fed)

    def add(self, view: MetadataView) -> None:
        """Read a partition from the next request on."""
        view.begin(self)
        self._fed[view.index] = _FedView(view)
        self.look()

    def look(self) -> None:
        """Ask soon for what is missing; a poll that is under way has to end before."""
        self._scheduler.call_soon(self._go)

    def remove(self, index: int) -> None:
        """Leave a partition out; later answers about it are ignored."""
        self._fed.pop(index, None)

    def stop(self) -> None:
        """Ask nothing more."""
        self._is_over = True
        self._fed.clear()
        if self._timer is not None:
            self._timer.cancel()

    # Asking

    def _go(self) -> None:
        """Ask for what is missing first: a start, an end, then records."""
        if self._is_busy or self._is_over:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._scheduler.monotonic_ms()
        due = [each for each in self._fed.values() if each.resume_ms <= now_ms]
        lost = [each for each in due if each.is_lost]
        without_end = [each for each in due if each.view.ready_at is None]
        if lost:
            self._ask_offsets(lost, EARLIEST)
        elif without_end:
            self._ask_offsets(without_end, LATEST)
        elif due:
            self._fetch(due, now_ms)
        elif self._fed:
            self._later(min(each.resume_ms for each in self._fed.values()) - now_ms)

    def _later(self, wait_ms: float) -> None:
        self._timer = self._scheduler.call_later(max(wait_ms, 1.0), self._go)

    def _ask_offsets(self, asked: list[_FedView], timestamp: int) -> None:
        topic = self._topic()
        partitions = [
            ListOffsetsPartition(
                partition_index=each.view.index,
                current_leader_epoch=topic.partitions[each.view.index].leader_epoch,
                timestamp=timestamp,
            )
            for each in asked
        ]
        request = ListOffsetsRequest(
            replica_id=CONSUMER, topics=[ListOffsetsTopic(name=topic.name, partitions=partitions)]
        )

        def answered(response: Any) -> None:
            if self._has_answer(response):
                answers = {each.partition_index: each for topic in response.topics for each in topic.partitions}
                for each in self._still(asked):
                    self._place(each, timestamp, answers.get(each.view.index))
                self._go()

        self._is_busy = True
        self._nodes.send(self.leader_id, request, answered)

    def _fetch(self, due: list[_FedView], now_ms: float) -> None:
        topic = self._topic()
        pauses = [each.resume_ms - now_ms for each in self._fed.values() if each.resume_ms > now_ms]
        partitions = [
            FetchPartition(
                partition=each.view.index,
                current_leader_epoch=topic.partitions[each.view.index].leader_epoch,
                fetch_offset=each.view.next_offset,
                last_fetched_epoch=each.view.last_epoch,
                partition_max_bytes=PARTITION_BYTES,
            )
            for each in due
        ]
        request = FetchRequest(
            max_wait_ms=max(int(min(pauses, default=MAX_WAIT_MS)), 1),
            min_bytes=1,
            max_bytes=ANSWER_BYTES,
            session_epoch=NO_SESSION_EPOCH,
            topics=[FetchTopic(topic_id=topic.id, topic=topic.name, partitions=partitions)],
        )

        def answered(response: Any) -> None:
            if self._has_answer(response):
                answers = {each.partition_index: each for topic in response.responses for each in topic.partitions}
                self._is_busy = True
                self._scheduler.in_pieces(self._take(due, answers))

        self._is_busy = True
        self._nodes.send(self.leader_id, request, answered)

    # Answers

    def _has_answer(self, response: Any) -> bool:
        """Whether there is an answer to handle; otherwise everything is asked again later."""
        self._is_busy = False
        if self._is_over:
            return False
        code = getattr(response, "error_code", error_codes.NONE)
        if not isinstance(response, NoResponse) and code == error_codes.NONE:
            self._failures = 0
            return True
        self._failures += 1
        if self._failures == 1:
            reason = response.reason if isinstance(response, NoResponse) else error_codes.name(code)
            log.info("Reading from broker %d is interrupted: %s", self.leader_id, reason)
        self._later(_pause_ms(self._failures))
        return False

    def _still(self, asked: Iterable[_FedView]) -> list[_FedView]:
        """The views that are still read here."""
        return [each for each in asked if self._fed.get(each.view.index) is each]

    def _place(self, each: _FedView, timestamp: int, answer: ListOffsetsPartitionResponse | None) -> None:
        code = error_codes.UNKNOWN_SERVER_ERROR if answer is None else answer.error_code
        if answer is None or code != error_codes.NONE or answer.offset < 0:
            self._refused(each, code)
            return
        view = each.view
        if timestamp == LATEST:
            view.ready_at = answer.offset
            view.reached()
            return
        each.is_lost = False
        if view.next_offset < answer.offset:
            view.begins_later(answer.offset)
        else:
            view.begin_again(answer.offset)

    def _take(self, due: list[_FedView], answers: dict[int, PartitionData]) -> Iterator[None]:
        for each in due:
            answer = answers.get(each.view.index)
            if answer is None or self._fed.get(each.view.index) is not each:
                continue
            code = answer.error_code
            if code == error_codes.OFFSET_OUT_OF_RANGE or answer.diverging_epoch.epoch >= 0:
                each.is_lost = True
            elif code != error_codes.NONE:
                self._refused(each, code)
            else:
                each.errors = 0
                if answer.records:
                    yield from self._apply(each, answer.records)
            yield
        self._is_busy = False
        self._go()

    def _apply(self, each: _FedView, records: Any) -> Iterator[None]:
        try:
            yield from each.view.steps(records)
        except Malformed as error:
            log.error("%s: broker %d sent what cannot be read: %s", each.view, self.leader_id, error)
            self._pause(each)

    def _refused(self, each: _FedView, code: int) -> None:
        level = logging.DEBUG if code in EXPECTED or each.errors else logging.WARNING
        log.log(level, "%s: broker %d answered %s", each.view, self.leader_id, error_codes.name(code))
        self._pause(each)

    def _pause(self, each: _FedView) -> None:
        each.errors += 1
        each.resume_ms = self._scheduler.monotonic_ms() + _pause_ms(each.errors)


def _pause_ms(errors: int) -> float:
    return float(min(FIRST_RETRY_MS << min(errors - 1, 20), LAST_RETRY_MS))
