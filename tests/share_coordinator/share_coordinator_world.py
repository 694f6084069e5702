"""One partition's share coordinator on a log in memory, with a clock and topics that tests change."""

from collections.abc import Iterable, Sequence
from typing import Any

from kpybroker.machines.coordination.events import Loaded, MetadataChanged
from kpybroker.machines.journal import BatchTooLarge, DecisionFailed, Journal, OutgoingRequest, ProducerEpoch
from kpybroker.machines.share_coordinator.coordinator import ShareCoordinator
from kpybroker.machines.share_coordinator.events import DeleteBelow, Prune, ShareTimersDue, StateRequest
from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.record import Record, decode
from kpybroker.machines.share_coordinator.settings import ShareCoordinatorSettings
from kpybroker.machines.share_coordinator.shard import ShareState
from kpywire import error_codes
from kpywire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

START_MS = 1_000_000
MONOTONIC_LAG_MS = 999_000
"""The monotonic clock is another one than the wall's, so mixing them up shows."""
TOPIC = bytes(14) + b"\x01\x01"
OTHER = bytes(14) + b"\x01\x02"
KEY = SharePartitionKey("g", TOPIC, 0)

Batch = tuple[int, int, int, int]
"""First offset, last offset, delivery state and delivery count, as in requests."""


class Ticket:
    """A request that is answered once."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def answer(self, message: Any) -> None:
        self.answers.append(message)

    def fail(self, error_code: int) -> None:
        self.answers.append(error_code)

    @property
    def response(self) -> Any:
        assert len(self.answers) == 1, self.answers
        return self.answers[0]


class ShareCoordinatorWorld:
    """The coordinator, its log, and the offset below which it wants that cut."""

    def __init__(self, **settings: int) -> None:
        self.settings = ShareCoordinatorSettings(**settings)
        self.topics = {TOPIC: 4, OTHER: 4}
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.log_start = 0
        self.restart()

    def restart(self) -> None:
        """A new leader has read the log."""
        self.coordinator = ShareCoordinator(lambda: self.settings, lambda topic_id: self.topics.get(topic_id, 0))
        self.journal = Journal(
            self.coordinator, self._append, closed_error=error_codes.NOT_COORDINATOR, send=self._sent, report=_raise
        )
        for offset, (key, value) in enumerate(self.log[self.log_start :], self.log_start):
            record = decode(key, value)
            assert record is not None
            self.journal.replay(record, offset)
        self.journal.open(len(self.log), len(self.log))
        self._tell(Loaded(self.now_ms))

    def _append(self, records: Iterable[Record], producer: ProducerEpoch | None, _now_ms: int) -> tuple[int, int]:
        assert producer is None
        encoded = [record.encoded() for record in records]
        if sum(len(key) + len(value or b"") for key, value in encoded) > self.settings.max_batch_bytes:
            raise BatchTooLarge
        first_offset = len(self.log)
        self.log += encoded
        return first_offset, len(self.log)

    def _sent(self, send: OutgoingRequest) -> None:
        assert isinstance(send.message, DeleteBelow)
        self.log_start = send.message.offset

    def _tell(self, event: Any, ticket: Ticket | None = None) -> None:
        self.journal.submit(event, self.now_ms - MONOTONIC_LAG_MS, ticket=ticket)
        self.journal.committed(len(self.log), self.now_ms - MONOTONIC_LAG_MS)

    @property
    def states(self) -> dict[SharePartitionKey, ShareState]:
        return self.coordinator.shard.states

    @property
    def records(self) -> list[Record]:
        return [record for key, value in self.log if (record := decode(key, value)) is not None]

    # Time and topics

    def run_timers(self) -> None:
        """Let every deadline pass that has come."""
        while True:
            deadline_ms = self.coordinator.next_deadline_ms()
            if deadline_ms is None or deadline_ms > self.now_ms - MONOTONIC_LAG_MS + 1:
                return
            self.now_ms = max(self.now_ms, deadline_ms + MONOTONIC_LAG_MS)
            self._tell(ShareTimersDue(self.now_ms))

    def cut(self) -> int | None:
        """The offset below which the log is cut now; None if it is not."""
        before, self.log_start = self.log_start, -1
        self._tell(Prune(self.now_ms))
        cut, self.log_start = self.log_start, max(before, self.log_start)
        return None if cut < 0 else cut

    def delete_topics(self, *topic_ids: bytes) -> None:
        for topic_id in topic_ids:
            self.topics.pop(topic_id, None)
        self._tell(MetadataChanged({}, (), {}, self.now_ms, topic_ids))
        self.run_timers()

    # Requests

    def ask(self, key: SharePartitionKey, part: Any) -> Any:
        ticket = Ticket()
        self._tell(StateRequest(ticket, key, part, self.now_ms), ticket)
        return ticket.response

    def initialize(self, key: SharePartitionKey = KEY, state_epoch: int = 1, start_offset: int = 0) -> Any:
        part = initialize_share_group_state.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        return self.ask(key, part)

    def write(
        self,
        *batches: Batch,
        key: SharePartitionKey = KEY,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start_offset: int = -1,
        delivery_complete_count: int = -1,
    ) -> Any:
        part = write_share_group_state.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=state_batches(batches),
        )
        return self.ask(key, part)

    def read(self, key: SharePartitionKey = KEY, leader_epoch: int = 0) -> Any:
        return self.ask(key, read_share_group_state.PartitionData(partition=key.partition, leader_epoch=leader_epoch))

    def delete(self, key: SharePartitionKey = KEY) -> Any:
        return self.ask(key, delete_share_group_state.PartitionData(partition=key.partition))

    def read_summary(self, key: SharePartitionKey = KEY) -> Any:
        return self.ask(key, read_share_group_state_summary.PartitionData(partition=key.partition, leader_epoch=0))


def state_batches(batches: Sequence[Batch]) -> list[write_share_group_state.StateBatch]:
    return [
        write_share_group_state.StateBatch(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
        )
        for first, last, state, count in batches
    ]


def _raise(failed: DecisionFailed) -> None:
    raise failed
