"""A transactional producer, byte for byte: every request in the version that a test chooses."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kpywire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from kpywire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kpywire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kpywire.record import Record, build_batch, read_batch, read_records
from support.raw_client import RawClient
from support.raw_requests import now_ms
from support.waiting import eventually

GROUP, TRANSACTION = 0, 1
BY_NAME, ADDING = 11, 12
"""Versions of Produce: the last that only looks a partition up, the first that adds it to the transaction."""
COMING = (
    error_codes.CONCURRENT_TRANSACTIONS,
    error_codes.COORDINATOR_LOAD_IN_PROGRESS,
    error_codes.COORDINATOR_NOT_AVAILABLE,
    error_codes.NOT_COORDINATOR,
)
"""The errors after which a client tries again."""


def settled(ask: Callable[[], Any], code: Callable[[Any], int] = lambda answer: int(answer.error_code)) -> Any:
    """The first answer that a client would not try again."""
    answers: list[Any] = []

    def is_settled() -> bool:
        answers.append(ask())
        return code(answers[-1]) not in COMING

    eventually(is_settled, "an answer")
    return answers[-1]


def find_coordinator(raw: RawClient, key: str, key_type: int = TRANSACTION) -> None:
    """Wait until somebody coordinates a transactional id or a group."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    settled(lambda: raw.call(request, 4).coordinators[0])


class Transactional:
    """One producer and its identity, which its answers change."""

    def __init__(self, raw: RawClient, transactional_id: str, producer_id: int = -1, epoch: int = -1) -> None:
        self.raw = raw
        self.id = transactional_id
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequences: dict[tuple[str, int], int] = {}

    def init(
        self, version: int = 5, *, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1
    ) -> InitProducerIdResponse:
        """InitProducerId, tried until the broker is ready; the producer goes on with what it gets."""
        request = InitProducerIdRequest(
            transactional_id=self.id, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
        )
        answer: InitProducerIdResponse = settled(lambda: self.raw.call(request, version))
        if answer.error_code == error_codes.NONE:
            self.go_on_as(answer.producer_id, answer.producer_epoch)
        return answer

    def go_on_as(self, producer_id: int, epoch: int) -> None:
        """Take over an identity; sequences start again with it."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.sequences.clear()

    def topics(self, *partitions: tuple[str, int]) -> list[AddPartitionsToTxnTopic]:
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        return [AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in by_topic.items()]

    def add(self, *partitions: tuple[str, int], version: int = 3, verify_only: bool = False) -> set[int]:
        """AddPartitionsToTxn; the error codes."""
        topics = self.topics(*partitions)
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            )
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self.id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])

        def ask() -> list[int]:
            answer = self.raw.call(request, version)
            results = answer.results_by_topic_v3_and_below
            if version >= 4:
                (of_transaction,) = answer.results_by_transaction
                assert of_transaction.transactional_id == self.id
                results = of_transaction.topic_results
            return [each.partition_error_code for topic in results for each in topic.results_by_partition]

        return set(settled(ask, lambda codes: codes[0]))

    def add_offsets(self, group: str, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
        )
        return int(settled(lambda: self.raw.call(request, version)).error_code)

    def batch(self, topic: str, *values: bytes, partition: int = 0, sequence: int | None = None) -> bytes:
        """A transactional batch with the producer's next sequence, or the given one."""
        if sequence is None:
            sequence = self.sequences.get((topic, partition), 0)
        return build_batch(
            [Record(timestamp=now_ms(), value=value) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def produce(
        self,
        topic: str,
        *values: bytes,
        version: int = BY_NAME,
        partition: int = 0,
        sequence: int | None = None,
        as_id: str | None = "",
    ) -> PartitionProduceResponse:
        """Produce one batch; ``as_id`` is another transactional id in the request, or none."""
        records = self.batch(topic, *values, partition=partition, sequence=sequence)
        answer = produce_records(
            self.raw, topic, records, self.id if as_id == "" else as_id, version=version, partition=partition
        )
        if answer.error_code == error_codes.NONE and sequence is None:
            before = self.sequences.get((topic, partition), 0)
            self.sequences[topic, partition] = before + len(values)
        return answer

    def commit_offsets(
        self, group: str, topic: str, offset: int, *, version: int = 4, partition: int = 0, **member: Any
    ) -> int:
        """TxnOffsetCommit of one partition; its error code."""
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
            **member,
        )
        answer = settled(
            lambda: self.raw.call(request, version), lambda found: int(found.topics[0].partitions[0].error_code)
        )
        return int(answer.topics[0].partitions[0].error_code)

    def end(self, commit: bool, version: int = 4) -> EndTxnResponse:
        """EndTxn; from version 5 on the producer goes on with the epoch it gets."""
        request = EndTxnRequest(
            transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        answer: EndTxnResponse = settled(lambda: self.raw.call(request, version))
        if version >= 5 and answer.error_code == error_codes.NONE:
            self.go_on_as(answer.producer_id, answer.producer_epoch)
        return answer

    def describe(self) -> TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[self.id])
        (state,) = self.raw.call(request, 0).transaction_states
        found: TransactionState = state
        return found

    def until(self, *states: str) -> TransactionState:
        """The description once the transaction is in one of these states."""
        eventually(lambda: self.describe().transaction_state in states, f"{states}")
        return self.describe()


def produce_records(
    raw: RawClient,
    topic: str,
    records: bytes,
    transactional_id: str | None,
    *,
    version: int = BY_NAME,
    partition: int = 0,
    acks: int = -1,
) -> PartitionProduceResponse:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=[data])
    answer: PartitionProduceResponse = raw.call(request, version).responses[0].partition_responses[0]
    return answer


def fetch(
    raw: RawClient,
    topic: str,
    offset: int = 0,
    *,
    committed: bool,
    partition: int = 0,
    version: int = 12,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
) -> PartitionData:
    """Fetch one partition without a session."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    answer: PartitionData = raw.call(request, version).responses[0].partitions[0]
    return answer


def values_in(data: PartitionData) -> Sequence[bytes | None]:
    """The values of what users wrote."""
    return [record.value for record in records_in(data) if record.key is None]


def records_in(data: PartitionData) -> list[Record]:
    return list(read_records(data.records or b""))


def aborted_in(data: PartitionData) -> list[tuple[int, int]] | None:
    """(producer id, first offset) of the aborted transactions an answer lists."""
    if data.aborted_transactions is None:
        return None
    return [(each.producer_id, each.first_offset) for each in data.aborted_transactions]


def stable_end(raw: RawClient, topic: str, partition: int = 0) -> int:
    """The last stable offset."""
    return int(fetch(raw, topic, 0, committed=True, partition=partition).last_stable_offset)


def answers_to_the_stable_end(raw: RawClient, topic: str, *, committed: bool) -> Iterator[PartitionData]:
    """One answer after the other until the last stable offset: each has whole batches, of one segment where the store
    has them."""
    offset, end = 0, stable_end(raw, topic)
    while offset < end:
        answer = fetch(raw, topic, offset, committed=committed, max_wait_ms=1000)
        assert answer.records, f"nothing at offset {offset}"
        yield answer
        offset = max(header.last_offset for _, header in batch_headers(answer.records)) + 1


def committed_values(raw: RawClient, topic: str) -> list[bytes]:
    """The values that a reader of committed records keeps, by the rules of KIP-98."""
    values: list[bytes] = []
    for answer in answers_to_the_stable_end(raw, topic, committed=True):
        waiting = sorted((first, producer) for producer, first in aborted_in(answer) or ())
        aborting: set[int] = set()
        data = bytes(answer.records or b"")
        for position, header in batch_headers(data):
            while waiting and waiting[0][0] <= header.last_offset:
                aborting.add(waiting.pop(0)[1])
            if header.is_control:
                aborting.discard(header.producer_id)
            elif header.producer_id not in aborting:
                values += [record.value or b"" for record in read_batch(data, header, position)]
    return values
