"""Batches whose check takes long are appended as all others are: in their order, once, and where they belong."""

from typing import Any

import pytest
from attacker import Attacker, create_topic, produce_request
from test_batches import NOW_MS, sealed
from watched import WatchedBroker

from kpywire import api, error_codes
from kpywire.compression import GZIP, ZSTD, compress
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import encode_record
from support.waiting import eventually

MIB = 1024 * 1024
SMALL = encode_record(0, 0, None, b"small")
LARGE = compress(ZSTD, encode_record(0, 0, None, bytes(8 * MIB)))


def small(**fields: int) -> bytes:
    return sealed(fields, SMALL)


def laborious(**fields: int) -> bytes:
    return sealed({**fields, "attributes": fields.get("attributes", 0) | ZSTD}, LARGE)


def end_of(client: Attacker, topic: str, isolation_level: int = 0) -> int:
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[asked])
    offset: int = client.call(request, 7).topics[0].partitions[0].offset
    return offset


def outcomes(answer: Any) -> list[tuple[int, int]]:
    """(error code, base offset) of each partition."""
    return [(each.error_code, each.base_offset) for each in answer.responses[0].partition_responses]


def test_pipelined_batches_of_an_idempotent_producer_keep_their_order(attacker: Attacker) -> None:
    create_topic(attacker, "idempotent")
    found = attacker.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
    producer = {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}
    for sequence in range(6):
        batch = (laborious if sequence % 2 else small)(**producer, base_sequence=sequence)
        attacker.send(produce_request("idempotent", batch, acks=-1), 9)
    assert [outcomes(attacker.receive(api.PRODUCE, 9)) for _ in range(6)] == [[(0, offset)] for offset in range(6)]
    again = attacker.call(produce_request("idempotent", laborious(**producer, base_sequence=5)), 9)
    assert outcomes(again) == [(error_codes.NONE, 5)], "a repeated batch is not appended again"
    gap = attacker.call(produce_request("idempotent", laborious(**producer, base_sequence=9)), 9)
    assert outcomes(gap) == [(error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    assert end_of(attacker, "idempotent") == 6


def test_a_request_of_small_and_laborious_batches_is_answered_in_its_order(attacker: Attacker) -> None:
    create_topic(attacker, "mixed", 6)
    damaged = bytearray(laborious())
    damaged[200] ^= 1
    unreadable = sealed({"attributes": GZIP}, compress(GZIP, bytes(8 * MIB)))
    batches = [small(), laborious(), bytes(damaged), laborious(), unreadable, small()]
    data = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="mixed", partition_data=data)]
    )
    answer = attacker.call(request, 9)
    assert [each.index for each in answer.responses[0].partition_responses] == list(range(6))
    codes = [error_codes.NONE, error_codes.NONE, error_codes.CORRUPT_MESSAGE, error_codes.NONE]
    codes += [error_codes.INVALID_RECORD, error_codes.NONE]
    assert [code for code, _ in outcomes(answer)] == codes


def test_laborious_batches_without_acknowledgement_are_appended(attacker: Attacker) -> None:
    create_topic(attacker, "unacknowledged")
    for _ in range(3):
        attacker.send(produce_request("unacknowledged", laborious(), acks=0), 9)
        attacker.send(produce_request("unacknowledged", small(), acks=0), 9)
    eventually(lambda: end_of(attacker, "unacknowledged") == 6, "all are appended")


@pytest.mark.parametrize("commits", [True, False])
def test_a_laborious_batch_belongs_to_its_transaction(attacker: Attacker, target: WatchedBroker, commits: bool) -> None:
    name = f"transactional-{commits}"
    create_topic(attacker, name)

    def coordinated(ask: Any) -> Any:
        def settled() -> Any:
            answer = ask()
            return None if answer.error_code in (14, 15, 16, 51) else answer

        answer = eventually(settled, "a coordinator")
        assert answer.error_code == error_codes.NONE
        return answer

    attacker.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4)
    found = coordinated(
        lambda: attacker.call(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=30_000), 4)
    )
    producer = {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0])]
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=found.producer_id,
        v3_and_below_producer_epoch=found.producer_epoch,
        v3_and_below_topics=topics,
    )
    assert attacker.call(added, 3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    for sequence in range(2):
        request = produce_request(name, laborious(**producer, attributes=0x10, base_sequence=sequence), acks=-1)
        request.transactional_id = name
        assert outcomes(attacker.call(request, 9)) == [(error_codes.NONE, sequence)]
    assert end_of(attacker, name, isolation_level=1) == 0
    ended = EndTxnRequest(
        transactional_id=name,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        committed=commits,
    )
    coordinated(lambda: attacker.call(ended, 3))
    eventually(lambda: end_of(attacker, name, isolation_level=1) == 3, "the transaction ends")
    late = produce_request(name, laborious(**producer, attributes=0x10, base_sequence=2), acks=-1)
    late.transactional_id = name
    ((code, _),) = outcomes(attacker.call(late, 9))
    assert code != error_codes.NONE, "its transaction has ended"
    assert target.is_alive


def test_the_time_of_a_laborious_batch_is_stamped_where_the_topic_wants_it(attacker: Attacker) -> None:
    create_topic(attacker, "append-time", message_timestamp_type="LogAppendTime")
    answer = attacker.call(produce_request("append-time", laborious()), 9).responses[0].partition_responses[0]
    assert answer.error_code == error_codes.NONE
    assert answer.log_append_time_ms >= NOW_MS
    asked = ListOffsetsPartition(partition_index=0, timestamp=answer.log_append_time_ms)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="append-time", partitions=[asked])])
    found = attacker.call(request, 7).topics[0].partitions[0]
    assert (found.offset, found.timestamp) == (0, answer.log_append_time_ms)
