"""One partition's transaction coordinator on a log in memory, a clock that tests move, clients that say every field.

Markers are written when a test says so. Replicated at once, unless ``replicate`` is set to False.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kpybroker.machines.coordination.decision import Alike
from kpybroker.machines.coordination.events import Loaded, MetadataChanged
from kpybroker.machines.journal import (
    AppendRefused,
    BatchTooLarge,
    DecisionFailed,
    Journal,
    OutgoingRequest,
    ProducerEpoch,
)
from kpybroker.machines.transactions.coordinator import TransactionCoordinator
from kpybroker.machines.transactions.events import (
    TO_LEADERS,
    DescribeTransaction,
    ExpireTransactionalIds,
    ListTransactions,
    MarkersWritten,
    Partition,
    TransactionRequest,
    TransactionTimersDue,
    WriteMarkers,
)
from kpybroker.machines.transactions.record import TransactionRecord, decode
from kpybroker.machines.transactions.settings import TransactionSettings
from kpybroker.machines.transactions.transaction import Transaction
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_transactions import ListTransactionsRequest

START_MS = 1_000_000
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 100
MONOTONIC_LAG_MS = 999_000
"""The monotonic clock is another one than the wall's, so mixing them up shows."""


class Ticket:
    """A request that is answered once."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def answer(self, message: Any) -> None:
        assert getattr(message, "throttle_time_ms", 0) == 0, "quotas are the node's"
        self.answers.append(message)

    def fail(self, error_code: int) -> None:
        self.answers.append(error_code)

    @property
    def response(self) -> Any:
        assert len(self.answers) == 1, self.answers
        return self.answers[0]


class TransactionWorld:
    """The coordinator, its log, and the markers that it wants written."""

    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.committed = 0
        self.replicate = True
        self.refuse_with = 0
        """An error with which the log takes nothing."""
        self.next_producer_id = FIRST_PRODUCER_ID
        self.restart()

    def restart(self) -> None:
        """A new leader has read the log."""
        self.wanted: list[WriteMarkers] = []
        self.coordinator = TransactionCoordinator(lambda: self.settings)
        self.journal = Journal(
            self.coordinator, self._append, closed_error=error_codes.NOT_COORDINATOR, send=self._sent, report=_raise
        )
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            self.journal.replay(record, offset)
        self.committed = len(self.log)
        self.replayed = dict(self.transactions)
        """The state that was known before anything was decided again."""
        self.journal.open(self.committed, len(self.log))
        self.tell(Loaded(self.now_ms))
        self.run_timers()

    def crash(self, records: int) -> None:
        """The leader dies, and the first records of its log are left."""
        self.journal.drop(error_codes.NOT_COORDINATOR)
        del self.log[records:]
        self.restart()

    def _append(
        self, records: Iterable[TransactionRecord], producer: ProducerEpoch | None, _now_ms: int
    ) -> tuple[int, int]:
        assert producer is None
        if self.refuse_with:
            raise AppendRefused(self.refuse_with)
        encoded = [record.encoded() for record in records]
        if sum(len(key) + len(value or b"") for key, value in encoded) > self.settings.max_batch_bytes:
            raise BatchTooLarge
        first_offset = len(self.log)
        self.log += encoded
        if self.replicate:
            self.committed = len(self.log)
        return first_offset, len(self.log)

    def _sent(self, send: OutgoingRequest) -> None:
        assert send.node_id == TO_LEADERS
        self.wanted.append(send.message)

    def _submit(self, event: Any, ticket: Ticket | None, key: str | None) -> None:
        self.journal.submit(event, self.monotonic_ms, ticket=ticket, key=key)
        self.commit()

    def commit(self) -> None:
        """Let the log's high watermark be known."""
        self.journal.committed(self.committed, self.monotonic_ms)

    @property
    def monotonic_ms(self) -> int:
        return self.now_ms - MONOTONIC_LAG_MS

    # What is known

    @property
    def records(self) -> list[TransactionRecord]:
        return [record for key, value in self.log if (record := decode(key, value)) is not None]

    @property
    def transactions(self) -> dict[str, Transaction]:
        return self.coordinator.shard.transactions

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    # Requests

    def send(self, message: Any, api_version: int, *, new_producer_id: int = -1, group_partition: int = -1) -> Ticket:
        ticket = Ticket()
        request = TransactionRequest(ticket, message, api_version, self.now_ms, new_producer_id, group_partition)
        self._submit(request, ticket, message.transactional_id)
        return ticket

    def init_ticket(
        self,
        transactional_id: str = "x",
        *,
        timeout_ms: int = TIMEOUT_MS,
        producer_id: int = -1,
        producer_epoch: int = -1,
        version: int = 5,
        new_producer_id: int | None = None,
    ) -> Ticket:
        message = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        new = self.new_producer_id() if new_producer_id is None else new_producer_id
        return self.send(message, version, new_producer_id=new)

    def init(self, transactional_id: str = "x", **options: Any) -> tuple[int, int, int]:
        """(error code, producer id, producer epoch)."""
        return _producer(self.init_ticket(transactional_id, **options).response)

    def started(self, transactional_id: str = "x", **options: Any) -> tuple[int, int]:
        """A producer: its id and epoch."""
        error_code, producer_id, producer_epoch = self.init(transactional_id, **options)
        assert error_code == error_codes.NONE
        return producer_id, producer_epoch

    def add_ticket(
        self,
        producer: tuple[int, int],
        *partitions: Partition,
        transactional_id: str = "x",
        version: int = 4,
        verify_only: bool = False,
    ) -> Ticket:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions or (("t", 0),):
            topics.setdefault(topic, []).append(partition)
        message = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
        )
        return self.send(message, version)

    def add(self, producer: tuple[int, int], *partitions: Partition, **options: Any) -> dict[Partition, int]:
        """The error code of each partition."""
        result = self.add_ticket(producer, *partitions, **options).response
        if isinstance(result, int):
            return dict.fromkeys(partitions, result)
        if isinstance(result, Alike):
            return dict.fromkeys(partitions, result.error_code)
        return {
            (topic.name, each.partition_index): each.partition_error_code
            for topic in result.topic_results
            for each in topic.results_by_partition
        }

    def add_offsets(
        self, producer: tuple[int, int], group_partition: int = 0, *, transactional_id: str = "x", version: int = 4
    ) -> int:
        message = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
        )
        code: int = self.send(message, version, group_partition=group_partition).response.error_code
        return code

    def end_ticket(
        self,
        producer: tuple[int, int],
        *,
        commit: bool = True,
        transactional_id: str = "x",
        version: int = 5,
        new_producer_id: int | None = None,
    ) -> Ticket:
        message = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        new = self.new_producer_id() if new_producer_id is None else new_producer_id
        return self.send(message, version, new_producer_id=new)

    def end(self, producer: tuple[int, int], **options: Any) -> tuple[int, int, int]:
        """(error code, producer id, producer epoch)."""
        return _producer(self.end_ticket(producer, **options).response)

    def describe(self, transactional_id: str = "x") -> Any:
        ticket = Ticket()
        self._submit(DescribeTransaction(ticket, transactional_id, self.now_ms), ticket, transactional_id)
        return ticket.response

    def state(self, transactional_id: str = "x") -> str:
        name: str = self.describe(transactional_id).transaction_state
        return name

    def listing(self, **filters: Any) -> Any:
        ticket = Ticket()
        message = ListTransactionsRequest(**{"state_filters": [], "producer_id_filters": [], **filters})
        self._submit(ListTransactions(ticket, message, self.now_ms), ticket, None)
        return ticket.response

    def listed(self, **filters: Any) -> set[str]:
        """The transactional ids that pass."""
        response = self.listing(**filters)
        assert response.error_code == error_codes.NONE
        return {each.transactional_id for each in response.transaction_states}

    # What happens by itself

    def tell(self, event: Any, key: str | None = None) -> None:
        self._submit(event, None, key)

    def mark(self, markers: WriteMarkers, *partitions: Partition) -> None:
        """Partitions, all if none is named, have these markers."""
        written = MarkersWritten(
            markers.transactional_id,
            markers.producer_id,
            markers.producer_epoch,
            partitions or markers.partitions,
            self.now_ms,
        )
        self.tell(written, markers.transactional_id)

    def mark_all(self) -> None:
        """Write whatever markers are wanted."""
        while self.wanted:
            self.mark(self.wanted.pop(0))

    def delete_partitions(self, partitions: dict[str, list[int]]) -> None:
        self.tell(MetadataChanged({}, (), partitions, self.now_ms))

    def expire(self) -> None:
        """Look for what expires, to the end."""
        self.tell(ExpireTransactionalIds(self.now_ms))
        self.run_timers()

    def advance(self, by_ms: int) -> None:
        """Let time pass, and what is due happen when it is due."""
        until_ms = self.now_ms + by_ms
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None:
            if deadline_ms + MONOTONIC_LAG_MS > until_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms + MONOTONIC_LAG_MS)
            self.tell(TransactionTimersDue(self.now_ms, self.new_producer_id()))
        self.now_ms = until_ms

    def run_timers(self) -> None:
        """Let happen what is due."""
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None:
            if deadline_ms > self.monotonic_ms and not self.coordinator.shard.sweeps.waiting:
                return
            self.tell(TransactionTimersDue(self.now_ms, self.new_producer_id()))


def _producer(response: Any) -> tuple[int, int, int]:
    if isinstance(response, int):
        return response, -1, -1
    return response.error_code, response.producer_id, response.producer_epoch


def _raise(failed: DecisionFailed) -> None:
    raise failed from failed.__cause__


MakeWorld = Callable[..., TransactionWorld]
