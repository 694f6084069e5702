"""Transactions on a whole node: what is parked keeps its order, what breaks is finished later."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running_node import BreakableDisk, RunningNode, start

from kpywire import api, error_codes
from kpywire.batch import parse_header
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import read_batch
from support.raw_client import RawClient
from support.raw_requests import create
from support.raw_transactions import (
    ADDING,
    Transactional,
    fetch,
    find_coordinator,
    stable_end,
    values_in,
)
from support.waiting import eventually

SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "add_partitions_to_txn_retry_backoff_max_ms": "60000",
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = start(tmp_path, **SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def raw(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        create(client, "t", partitions=2)
        yield client


def producer_of(raw: RawClient, transactional_id: str = "p") -> Transactional:
    producer = Transactional(raw, transactional_id)
    find_coordinator(raw, transactional_id)
    assert producer.init().error_code == error_codes.NONE
    return producer


def hold_markers(node: RunningNode) -> Callable[[], None]:
    """No marker is written any more until what is returned is called."""
    broker: Any = node.node.broker
    write, held = broker.markers.write, []

    class Held:
        def __init__(self, *asked: Any) -> None:
            self.asked = asked
            held.append(self)

        def wait(self, _timeout_ms: int, done: Callable[[int], object]) -> None:
            self.done = done

    broker.markers.write = Held

    def release() -> None:
        broker.markers.write = write
        for each in held:
            each.done(write(*each.asked))

    return lambda: node.call(release)


def request(producer: Transactional, sequence: int, value: bytes) -> ProduceRequest:
    records = producer.batch("t", value, sequence=sequence)
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(transactional_id=producer.id, acks=-1, timeout_ms=30_000, topic_data=[data])


def test_a_parked_produce_keeps_its_records_and_its_order(node: RunningNode, raw: RawClient) -> None:
    """Until the transaction before has its markers, the next one cannot begin; others receive into the same buffer."""
    producer = producer_of(raw)
    assert producer.produce("t", b"first", version=ADDING).error_code == error_codes.NONE
    release = hold_markers(node)
    assert producer.end(True, 5).error_code == error_codes.NONE
    for sequence, value in enumerate((b"a" * 1000, b"b" * 1000, b"c" * 1000)):
        raw.send(request(producer, sequence, value), ADDING)
    with RawClient(node.port) as other:
        for _ in range(20):
            assert fetch(other, "t", committed=False, partition=1).error_code == error_codes.NONE
        assert stable_end(other, "t") == 0
        release()
        answers = [raw.receive(api.PRODUCE, ADDING) for _ in range(3)]
        partitions = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [(each.error_code, each.base_offset) for each in partitions] == [(0, 2), (0, 3), (0, 4)]
        written = fetch(other, "t", committed=False)
        assert values_in(written) == [b"first", b"a" * 1000, b"b" * 1000, b"c" * 1000]


def test_a_parked_produce_is_given_up_with_its_connection(node: RunningNode, raw: RawClient) -> None:
    producer = producer_of(raw)
    assert producer.produce("t", b"first", version=ADDING).error_code == error_codes.NONE
    release = hold_markers(node)
    assert producer.end(True, 5).error_code == error_codes.NONE
    with RawClient(node.port) as other:
        other.send(request(producer, 0, b"lost"), ADDING)
    release()
    eventually(lambda: stable_end(raw, "t") == 2 or fetch(raw, "t", committed=False).high_watermark >= 2)
    assert node.failures == []
    assert fetch(raw, "t", committed=False).error_code == error_codes.NONE


def test_old_clients_get_concurrent_transactions_while_a_transaction_ends(node: RunningNode, raw: RawClient) -> None:
    """An error that a version does not know is NOT_ENOUGH_REPLICAS, which every client retries without new metadata."""
    producer = producer_of(raw)
    assert producer.add(("t", 0)) == {error_codes.NONE}
    assert producer.produce("t", b"first").error_code == error_codes.NONE
    release = hold_markers(node)
    assert producer.end(True).error_code == error_codes.NONE
    answer = producer.produce("t", b"second", partition=1)
    assert answer.error_code == error_codes.NOT_ENOUGH_REPLICAS
    assert answer.error_message == (
        "Unable to verify the partition has been added to the transaction. Underlying error: CONCURRENT_TRANSACTIONS"
    )
    release()


def test_no_batch_opens_a_transaction_before_an_earlier_one_that_was_refused(raw: RawClient) -> None:
    """The rule holds where the partition was added before, too, so that its coordinator is not asked."""
    create(raw, "narrow", max_message_bytes="300")
    producer = producer_of(raw)
    assert producer.add(("narrow", 0)) == {error_codes.NONE}
    assert producer.produce("narrow", b"a" * 400).error_code == error_codes.MESSAGE_TOO_LARGE
    refused = producer.produce("narrow", b"b", sequence=1)
    assert refused.error_code == error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.produce("narrow", b"a").error_code == error_codes.NONE
    assert producer.produce("narrow", b"b").error_code == error_codes.NONE
    assert values_in(fetch(raw, "narrow", committed=False)) == [b"a", b"b"]


def test_a_transaction_ends_although_a_topic_of_it_is_deleted(node: RunningNode, raw: RawClient) -> None:
    create(raw, "doomed")
    producer = producer_of(raw)
    for topic in ("t", "doomed"):
        assert producer.produce(topic, b"v", version=ADDING).error_code == error_codes.NONE
    broker: Any = node.node.broker
    write = broker.markers.write

    def refuse(topic: str, *others: Any) -> Any:
        return error_codes.NOT_LEADER_OR_FOLLOWER if topic == "doomed" else write(topic, *others)

    broker.markers.write = refuse
    assert producer.end(True, 5).error_code == error_codes.NONE
    eventually(lambda: stable_end(raw, "t") == 2)
    described = producer.describe()
    assert (described.transaction_state, [each.topic for each in described.topics]) == ("PrepareCommit", ["doomed"])
    raw.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")], timeout_ms=10_000), 6)
    assert producer.until("CompleteCommit").topics == []


def test_a_decided_transaction_is_finished_after_a_restart(tmp_path: Path) -> None:
    node = start(tmp_path, **SETTINGS)
    try:
        with RawClient(node.port) as raw:
            create(raw, "t", partitions=2)
            producer = producer_of(raw)
            assert producer.produce("t", b"v", version=ADDING).error_code == error_codes.NONE
            hold_markers(node)
            assert producer.end(False, 5).error_code == error_codes.NONE
            assert producer.describe().transaction_state == "PrepareAbort"
    finally:
        node.stop()
    node = start(tmp_path, **SETTINGS)
    try:
        with RawClient(node.port) as raw:
            producer.raw = raw
            eventually(lambda: producer.describe().transaction_state == "CompleteAbort")
            assert stable_end(raw, "t") == 2
            data = bytes(fetch(raw, "t", 1, committed=True).records or b"")
            (marker,) = read_batch(data, parse_header(data), 0)
            assert marker.key == b"\0\0\0\0"
            assert marker.value > b"\0\0\0\0\0\0"  # the leader epoch of the coordinator, which started again
            assert producer.produce("t", b"w", version=ADDING).error_code == error_codes.NONE
    finally:
        node.stop()


def test_a_disk_that_fails_is_an_error_that_clients_retry(tmp_path: Path) -> None:
    disk = BreakableDisk()
    node = RunningNode(
        {
            "log.dirs": f"{tmp_path}/one,{tmp_path}/two",
            "transaction.state.log.num.partitions": "1",
            "offsets.topic.num.partitions": "1",
        },
        disk,
    )
    try:
        with RawClient(node.port) as raw:
            create(raw, "t", partitions=8)
            producer = producer_of(raw)
            broker: Any = node.node.broker
            shard = node.call(lambda: broker.transactions.shards[0])
            disk.break_under = node.call(lambda: shard.replica.led().log.directory.path)
            adding = AddOffsetsToTxnRequest(
                transactional_id=producer.id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                group_id="g",
            )
            for _ in range(2):
                assert raw.call(adding, 3).error_code == error_codes.NOT_COORDINATOR
            assert producer.describe().error_code == error_codes.NOT_COORDINATOR
            assert producer.produce("t", b"v", partition=_alive(node)).error_code == error_codes.NOT_ENOUGH_REPLICAS
            assert node.failures == []
    finally:
        node.stop()


def _alive(node: RunningNode) -> int:
    """A partition of "t" in a directory that works."""
    broker: Any = node.node.broker
    replicas = node.call(lambda: dict(broker.replicas.topics["t"].replicas))
    return next(index for index, replica in replicas.items() if not replica.offline)
