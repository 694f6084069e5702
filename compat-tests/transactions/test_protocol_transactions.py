"""Transactions on the wire, as Apache Kafka answers them: each request in each version, with its errors.

Both generations on one broker whose ``transaction.version`` is 2: old clients add partitions themselves and keep their
epoch; new ones have them added as they produce, and get another epoch at every end (KIP-890).
"""

import secrets

import pytest

from conftest import NewTopic
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_offsets import ListOffsetsRequest
from kpywire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kpywire.record import Record, build_batch
from support.raw_client import RawClient, connect
from support.raw_requests import list_offsets, now_ms
from support.raw_transactions import (
    ADDING,
    BY_NAME,
    GROUP,
    Transactional,
    aborted_in,
    fetch,
    find_coordinator,
    produce_records,
    records_in,
    stable_end,
    values_in,
)
from support.waiting import eventually

NONE = error_codes.NONE
FENCED = error_codes.PRODUCER_FENCED
OLD_FENCED = error_codes.INVALID_PRODUCER_EPOCH


def new_id(stem: str = "id") -> str:
    return f"{stem}-{secrets.token_hex(4)}"


@pytest.fixture
def producer(raw: RawClient) -> Transactional:
    """A producer that has its identity."""
    made = Transactional(raw, new_id())
    find_coordinator(raw, made.id)
    assert made.init().error_code == NONE
    return made


def fenced(version: int, first: int = 2) -> int:
    """The error of a producer with an old epoch; ``first`` is the first version that knows the newer one."""
    return FENCED if version >= first else OLD_FENCED


# InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_each_beginning_fences_the_one_before(raw: RawClient, version: int) -> None:
    producer = Transactional(raw, new_id())
    find_coordinator(raw, producer.id)
    first = producer.init(version)
    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    second = producer.init(version)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (NONE, first.producer_id, 1)
    state = producer.describe()
    assert (state.error_code, state.transaction_state, state.producer_epoch) == (NONE, "Empty", 1)
    assert (state.producer_id, state.transaction_timeout_ms, state.topics) == (first.producer_id, 60_000, [])
    assert state.transaction_start_time_ms == -1


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (0, error_codes.INVALID_TRANSACTION_TIMEOUT),
        (-1, error_codes.INVALID_TRANSACTION_TIMEOUT),
        (900_001, error_codes.INVALID_TRANSACTION_TIMEOUT),
        (900_000, NONE),
        (1, NONE),
    ],
)
def test_timeouts_have_bounds(raw: RawClient, timeout_ms: int, code: int) -> None:
    producer = Transactional(raw, new_id())
    find_coordinator(raw, producer.id)
    assert producer.init(timeout_ms=timeout_ms).error_code == code


@pytest.mark.parametrize("version", [3, 4, 5])
def test_init_producer_id_with_a_current_identity_bumps_the_epoch(producer: Transactional, version: int) -> None:
    """KIP-360: the epoch rises; repeating that is answered alike; what is older is fenced."""
    identity, epoch = producer.producer_id, producer.epoch
    raised = producer.init(version, producer_id=identity, epoch=epoch)
    assert (raised.error_code, raised.producer_id, raised.producer_epoch) == (NONE, identity, epoch + 1)
    again = producer.init(version, producer_id=identity, epoch=epoch)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (NONE, identity, epoch + 1)
    assert producer.init(version, producer_id=identity, epoch=epoch + 1).producer_epoch == epoch + 2
    for other_id, other_epoch in ((identity, epoch), (identity + 100_000, epoch + 2)):
        refused = producer.init(version, producer_id=other_id, epoch=other_epoch)
        assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (fenced(version, 4), -1, -1)
    for half in ({"producer_id": identity}, {"epoch": epoch}):
        assert producer.init(version, **half).error_code == error_codes.INVALID_REQUEST


def test_init_producer_id_with_an_unknown_identity_starts_a_new_one(raw: RawClient) -> None:
    producer = Transactional(raw, new_id())
    find_coordinator(raw, producer.id)
    answer = producer.init(producer_id=12_345_678, epoch=5)
    assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
    assert answer.producer_id != 12_345_678


def test_beginning_aborts_what_is_open(raw: RawClient, producer: Transactional, topic: str) -> None:
    assert producer.add((topic, 0)) == {NONE}
    assert producer.produce(topic, b"a").error_code == NONE
    zombie = Transactional(raw, producer.id, producer.producer_id, producer.epoch)
    request = InitProducerIdRequest(transactional_id=producer.id, transaction_timeout_ms=60_000)
    assert raw.call(request, 5).error_code == error_codes.CONCURRENT_TRANSACTIONS
    answer = producer.init()
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, zombie.producer_id, 2)
    assert stable_end(raw, topic) == 2
    assert aborted_in(fetch(raw, topic, committed=True)) == [(zombie.producer_id, 0)]
    zombie.sequences[topic, 0] = 1
    assert zombie.produce(topic, b"b").error_code == OLD_FENCED
    assert zombie.end(True).error_code == FENCED


# AddPartitionsToTxn


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_by_old_clients(producer: Transactional, topic: str, version: int) -> None:
    assert producer.add((topic, 0), version=version) == {NONE}
    assert producer.add((topic, 0), version=version) == {NONE}
    state = producer.describe()
    assert (state.transaction_state, [(each.topic, each.partitions) for each in state.topics]) == (
        "Ongoing",
        [(topic, [0])],
    )
    assert abs(state.transaction_start_time_ms - now_ms()) < 600_000
    other = Transactional(producer.raw, producer.id, producer.producer_id, producer.epoch - 1)
    assert other.add((topic, 0), version=version) == {fenced(version)}
    other = Transactional(producer.raw, producer.id, producer.producer_id + 100_000, producer.epoch)
    assert other.add((topic, 0), version=version) == {error_codes.INVALID_PRODUCER_ID_MAPPING}
    other = Transactional(producer.raw, new_id("nobody"), 1, 0)
    assert other.add((topic, 0), version=version) == {error_codes.INVALID_PRODUCER_ID_MAPPING}
    other = Transactional(producer.raw, "", 1, 0)
    assert other.add((topic, 0), version=version) == {error_codes.INVALID_REQUEST}


@pytest.mark.parametrize("version", range(6))
def test_one_unknown_partition_fails_the_whole_request(producer: Transactional, topic: str, version: int) -> None:
    codes = producer.add((topic, 0), (topic, 1), ("no-such-topic", 0), version=version)
    assert codes == {error_codes.OPERATION_NOT_ATTEMPTED, error_codes.UNKNOWN_TOPIC_OR_PARTITION}
    assert producer.describe().transaction_state == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_for_several_transactions_at_once(producer: Transactional, topic: str, version: int) -> None:
    absent = error_codes.TRANSACTION_ABORTABLE
    assert producer.add((topic, 0), version=version, verify_only=True) == {absent}
    assert producer.add((topic, 0), version=version) == {NONE}
    assert producer.add((topic, 0), version=version, verify_only=True) == {NONE}
    older = Transactional(producer.raw, producer.id, producer.producer_id, producer.epoch - 1)
    assert older.add((topic, 0), version=version, verify_only=True) == {FENCED}
    other = Transactional(producer.raw, producer.id, producer.producer_id + 100_000, producer.epoch)
    assert other.add((topic, 0), version=version, verify_only=True) == {error_codes.INVALID_PRODUCER_ID_MAPPING}
    wanted = [
        AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        for name in (producer.id, "nobody")
    ]
    answer = producer.raw.call(AddPartitionsToTxnRequest(transactions=wanted), version)
    found = {
        each.transactional_id: each.topic_results[0].results_by_partition[0].partition_error_code
        for each in answer.results_by_transaction
    }
    assert found == {producer.id: NONE, "nobody": error_codes.INVALID_PRODUCER_ID_MAPPING}
    assert answer.error_code == NONE


# Produce


def test_old_clients_produce_only_to_added_partitions(raw: RawClient, producer: Transactional, topic: str) -> None:
    for version, code in ((9, error_codes.INVALID_TXN_STATE), (11, error_codes.TRANSACTION_ABORTABLE)):
        refused = producer.produce(topic, b"a", version=version)
        assert (refused.error_code, refused.base_offset, refused.log_start_offset) == (code, -1, -1)
    assert producer.produce(topic, b"a", version=9).error_message == "Partition was not added to the transaction"
    assert producer.add((topic, 0)) == {NONE}
    assert producer.produce(topic, b"a", b"b").base_offset == 0
    assert producer.produce(topic, b"c").base_offset == 2
    repeated = producer.produce(topic, b"c", sequence=2)
    assert (repeated.error_code, repeated.base_offset) == (NONE, 2)
    assert producer.produce(topic, b"x", sequence=9).error_code == error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert stable_end(raw, topic) == 0
    assert producer.end(True).error_code == NONE
    eventually(lambda: stable_end(raw, topic) == 4, "the marker")
    assert values_in(fetch(raw, topic, committed=True)) == [b"a", b"b", b"c"]
    assert producer.produce(topic, b"d").error_code == error_codes.TRANSACTION_ABORTABLE


def test_new_clients_add_by_producing(raw: RawClient, producer: Transactional, topic: str) -> None:
    assert producer.produce(topic, b"a", version=ADDING).base_offset == 0
    assert [each.topic for each in producer.describe().topics] == [topic]
    assert producer.produce(topic, b"b", version=ADDING).base_offset == 1
    identity, epoch = producer.producer_id, producer.epoch
    ended = producer.end(True, version=5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (NONE, identity, epoch + 1)
    eventually(lambda: stable_end(raw, topic) == 3, "the marker")
    marker = records_in(fetch(raw, topic, 2, committed=True))[-1]
    assert (marker.key, marker.value) == (b"\0\0\0\1", b"\0\0\0\0\0\0")
    zombie = Transactional(raw, producer.id, identity, epoch)
    assert zombie.produce(topic, b"c", version=ADDING, sequence=2).error_code == OLD_FENCED
    assert producer.produce(topic, b"d", version=ADDING).error_code == NONE
    assert producer.end(False, version=5).error_code == NONE
    eventually(lambda: stable_end(raw, topic) == 5, "the marker")
    answer = fetch(raw, topic, committed=True)
    assert aborted_in(answer) == [(identity, 3)]
    assert aborted_in(fetch(raw, topic, committed=False)) is None
    assert aborted_in(fetch(raw, topic, 5, committed=True)) == []
    assert aborted_in(fetch(raw, topic, 0, committed=True, max_bytes=1)) == [(identity, 3)]


@pytest.mark.parametrize("version", [9, BY_NAME, ADDING])
def test_a_batch_without_its_transactional_id_is_refused(producer: Transactional, topic: str, version: int) -> None:
    denied = error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert producer.add((topic, 0)) == {NONE}
    assert producer.produce(topic, b"a", version=version, as_id=None).error_code == denied
    other = producer.produce(topic, b"a", version=version, as_id=new_id("nobody"))
    assert other.error_code == error_codes.INVALID_PRODUCER_ID_MAPPING
    assert producer.produce(topic, b"a", version=version).error_code == NONE


@pytest.mark.parametrize("version", [8, 9, BY_NAME, ADDING])
def test_a_request_without_an_id_is_refused_as_a_whole(
    raw: RawClient, producer: Transactional, new_topic: NewTopic, version: int
) -> None:
    topic, unknown = new_topic(2), new_id("unknown")
    plain = build_batch([Record(timestamp=now_ms(), value=b"p")])
    wanted = {(topic, 0): plain, (topic, 1): producer.batch(topic, b"a", partition=1), (unknown, 7): b"\0"}
    asked = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index, records=records)])
        for (name, index), records in wanted.items()
    ]
    answer = raw.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=asked), version)
    denied = {(topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses}
    assert set(denied) == set(wanted)
    for each in denied.values():
        assert each.error_code == error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (each.base_offset, each.log_append_time_ms, each.log_start_offset) == (-1, -1, -1)
        assert (each.record_errors, each.error_message) == ([], None)
    assert stable_end(raw, topic) == 0


def test_an_id_without_a_transaction_is_no_harm(producer: Transactional, topic: str) -> None:
    plain = build_batch([Record(timestamp=now_ms(), value=b"p")])
    assert produce_records(producer.raw, topic, plain, producer.id).error_code == NONE


def test_other_records_are_refused_while_a_transaction_is_open(producer: Transactional, topic: str) -> None:
    assert producer.produce(topic, b"a", version=ADDING).error_code == NONE
    plain = build_batch(
        [Record(timestamp=now_ms(), value=b"b")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=1,
    )
    for name in (producer.id, None):
        assert produce_records(producer.raw, topic, plain, name).error_code == error_codes.INVALID_TXN_STATE


def test_a_transaction_begins_with_its_first_batch(producer: Transactional, topic: str) -> None:
    late = producer.produce(topic, b"b", version=ADDING, sequence=1)
    assert late.error_code == error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (late.error_message, late.log_start_offset) == (None, 0)
    assert producer.produce(topic, b"a", version=ADDING).error_code == NONE


def test_a_request_is_of_one_producer_only(raw: RawClient, producer: Transactional, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    other = Transactional(raw, producer.id, producer.producer_id, producer.epoch + 1)
    parts = [
        PartitionProduceData(index=0, records=producer.batch(topic, b"a")),
        PartitionProduceData(index=1, records=other.batch(topic, b"b")),
    ]
    request = ProduceRequest(
        transactional_id=producer.id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=parts)],
    )
    answer = raw.call(request, BY_NAME).responses[0].partition_responses
    assert {each.error_code for each in answer} == {error_codes.INVALID_PRODUCER_ID_MAPPING}


# EndTxn


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("commit", [True, False])
def test_old_clients_end_what_they_began(producer: Transactional, topic: str, version: int, *, commit: bool) -> None:
    assert producer.end(commit, version).error_code == error_codes.INVALID_TXN_STATE
    assert producer.add((topic, 0)) == {NONE}
    assert producer.produce(topic, b"a").error_code == NONE
    older = Transactional(producer.raw, producer.id, producer.producer_id, producer.epoch - 1)
    assert older.end(commit, version).error_code == fenced(version)
    other = Transactional(producer.raw, producer.id, producer.producer_id + 100_000, producer.epoch)
    assert other.end(commit, version).error_code == error_codes.INVALID_PRODUCER_ID_MAPPING
    missing = Transactional(producer.raw, new_id("nobody"), 1, 0)
    assert missing.end(commit, version).error_code == error_codes.INVALID_PRODUCER_ID_MAPPING
    assert Transactional(producer.raw, "", 1, 0).end(commit, version).error_code == error_codes.INVALID_REQUEST
    answer = producer.end(commit, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, -1, -1)
    done, other_end = ("CompleteCommit", False) if commit else ("CompleteAbort", True)
    assert producer.until(done).producer_epoch == producer.epoch
    assert producer.end(commit, version).error_code == NONE
    assert producer.end(other_end, version).error_code == error_codes.INVALID_TXN_STATE


def test_new_clients_may_repeat_an_end(producer: Transactional, topic: str) -> None:
    before = Transactional(producer.raw, producer.id, producer.producer_id, producer.epoch)
    assert producer.produce(topic, b"a", version=ADDING).error_code == NONE
    first = producer.end(True, 5)
    assert (first.error_code, first.producer_epoch) == (NONE, before.epoch + 1)
    producer.until("CompleteCommit")
    request = EndTxnRequest(
        transactional_id=before.id, producer_id=before.producer_id, producer_epoch=before.epoch, committed=True
    )
    again = producer.raw.call(request, 5)
    assert again == first
    request.committed = False
    assert producer.raw.call(request, 5).error_code == error_codes.INVALID_TXN_STATE
    assert producer.end(True, 5).error_code == error_codes.INVALID_TXN_STATE
    aborted = producer.end(False, 5)
    assert (aborted.error_code, aborted.producer_epoch) == (NONE, first.producer_epoch + 1)
    assert before.end(True, 5).error_code == FENCED


def test_new_clients_abort_what_they_did_not_begin(producer: Transactional) -> None:
    epoch = producer.epoch
    assert producer.end(True, 5).error_code == error_codes.INVALID_TXN_STATE
    assert (producer.end(False, 5).error_code, producer.epoch) == (NONE, epoch + 1)
    assert producer.until("CompleteAbort").topics == []


# Offsets


def committed(raw: RawClient, group: str, topic: str, *, stable: bool = False) -> tuple[int, int]:
    """(error, offset) of partition 0."""
    wanted = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    (answer,) = raw.call(OffsetFetchRequest(groups=[wanted], require_stable=stable), 8).groups
    assert answer.error_code == NONE
    (found,) = answer.topics[0].partitions
    return found.error_code, found.committed_offset


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_the_transaction_commits(
    raw: RawClient, producer: Transactional, topic: str, version: int, *, commit: bool
) -> None:
    group = new_id("group")
    find_coordinator(raw, group, GROUP)
    if version < 5:
        refused = producer.commit_offsets(group, topic, 7, version=version)
        assert refused == (error_codes.TRANSACTION_ABORTABLE if version >= 4 else error_codes.INVALID_TXN_STATE)
        assert producer.add_offsets(group, min(version, 4)) == NONE
    assert producer.commit_offsets(group, topic, 7, version=version) == NONE
    assert [each.topic for each in producer.describe().topics] == ["__consumer_offsets"]
    assert committed(raw, group, topic) == (NONE, -1)
    assert committed(raw, group, topic, stable=True) == (error_codes.UNSTABLE_OFFSET_COMMIT, -1)
    assert producer.end(commit, min(version, 5)).error_code == NONE
    after = (NONE, 7 if commit else -1)
    eventually(lambda: committed(raw, group, topic, stable=True) == after, "the marker")


def test_several_groups_in_one_transaction(raw: RawClient, producer: Transactional, topic: str) -> None:
    groups = [new_id("group") for _ in range(5)]
    for number, group in enumerate(groups):
        find_coordinator(raw, group, GROUP)
        assert producer.commit_offsets(group, topic, number, version=5) == NONE
    assert producer.produce(topic, b"a", version=ADDING).error_code == NONE
    assert producer.end(True, 5).error_code == NONE
    for number, group in enumerate(groups):
        eventually(lambda: committed(raw, group, topic, stable=True) == (NONE, number), "the marker")  # noqa: B023


@pytest.mark.parametrize("version", range(6))
def test_transactional_offsets_of_a_wrong_producer_or_member_are_refused(
    raw: RawClient, producer: Transactional, topic: str, version: int
) -> None:
    group = new_id("group")
    find_coordinator(raw, group, GROUP)
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offsets(group, "no-such-topic", 7, version=version) == unknown
    assert producer.commit_offsets(group, topic, 7, partition=1, version=version) == unknown
    assert producer.commit_offsets("", topic, 7, version=version) == error_codes.INVALID_GROUP_ID
    assert producer.add_offsets(group) == NONE
    if version >= 3:
        code = producer.commit_offsets(
            group, topic, 7, version=version, generation_id_or_member_epoch=1, member_id="stranger"
        )
        assert code == error_codes.ILLEGAL_GENERATION
    older = Transactional(raw, producer.id, producer.producer_id, producer.epoch - 1)
    assert older.commit_offsets(group, topic, 7, version=version) == OLD_FENCED
    other = Transactional(raw, producer.id, producer.producer_id + 100_000, 0)
    assert other.commit_offsets(group, topic, 7, version=version) == error_codes.INVALID_PRODUCER_ID_MAPPING
    assert older.add_offsets(group, min(version, 4)) == fenced(min(version, 4))
    assert other.add_offsets(group, min(version, 4)) == error_codes.INVALID_PRODUCER_ID_MAPPING
    assert Transactional(raw, "", 1, 0).add_offsets(group, min(version, 4)) == error_codes.INVALID_REQUEST


# Reading


@pytest.mark.parametrize("version", range(4, 13))
def test_readers_of_what_is_committed_stop_before_what_is_open(
    raw: RawClient, producer: Transactional, topic: str, version: int
) -> None:
    plain = build_batch([Record(timestamp=now_ms(), value=b"plain")])
    assert produce_records(raw, topic, plain, None).error_code == NONE
    assert producer.produce(topic, b"open", version=ADDING).base_offset == 1
    assert produce_records(raw, topic, plain, None).base_offset == 2
    stable = fetch(raw, topic, committed=True, version=version)
    assert (stable.high_watermark, stable.last_stable_offset) == (3, 1)
    assert values_in(stable) == [b"plain"]
    everything = fetch(raw, topic, committed=False, version=version)
    assert (everything.high_watermark, everything.last_stable_offset) == (3, 1)
    assert values_in(everything) == [b"plain", b"open", b"plain"]
    beyond = fetch(raw, topic, 2, committed=True, version=version)
    assert (beyond.error_code, beyond.records, beyond.aborted_transactions) == (NONE, b"", [])
    latest = [raw.call(list_offsets(topic, -1, isolation=isolation), 4) for isolation in (0, 1)]
    assert [each.topics[0].partitions[0].offset for each in latest] == [3, 1]


def test_a_reader_that_waits_wakes_with_the_end_of_the_transaction(
    producer: Transactional, topic: str, bootstrap_servers: str
) -> None:
    assert producer.produce(topic, b"open", version=ADDING).error_code == NONE
    with connect(bootstrap_servers) as reader:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=30_000,
            min_bytes=1,
            isolation_level=1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        reader.send(request, 12)
        assert producer.end(True, 5).error_code == NONE
        answer = reader.receive(1, 12).responses[0].partitions[0]
    assert values_in(answer) == [b"open"]


@pytest.mark.parametrize("version", range(1, 12))
def test_the_end_of_a_log_is_where_readers_may_go(producer: Transactional, topic: str, version: int) -> None:
    assert producer.produce(topic, b"open", version=ADDING).error_code == NONE

    def latest(isolation: int) -> int:
        request: ListOffsetsRequest = list_offsets(topic, -1, isolation=isolation)
        return int(producer.raw.call(request, version).topics[0].partitions[0].offset)

    assert latest(0) == 1
    if version >= 2:
        assert latest(1) == 0
        found = producer.raw.call(list_offsets(topic, 0, isolation=1), version).topics[0].partitions[0]
        assert (found.error_code, found.offset) == (NONE, -1)


# Markers, and looking on


def write_marker(
    producer: Transactional,
    topic: str,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    version: int = 1,
    level: int = 0,
    partition: int = 0,
) -> int:
    """WriteTxnMarkers for one partition; its error code."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=level,
    )
    (answer,) = producer.raw.call(WriteTxnMarkersRequest(markers=[marker]), version).markers
    assert answer.producer_id == producer.producer_id
    return int(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [1, 2])
def test_markers_end_transactions(raw: RawClient, producer: Transactional, topic: str, version: int) -> None:
    producer.init()
    assert producer.produce(topic, b"a", version=ADDING).error_code == NONE
    missing = Transactional(raw, producer.id, producer.producer_id, -1)
    assert write_marker(missing, topic, commit=False, version=version) == error_codes.UNKNOWN_SERVER_ERROR
    assert write_marker(producer, "no-such-topic", commit=False) == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    older = Transactional(raw, producer.id, producer.producer_id, producer.epoch - 1)
    assert write_marker(older, topic, commit=False, version=version) == error_codes.INVALID_PRODUCER_EPOCH
    if version >= 2:
        same = write_marker(producer, topic, commit=False, version=version, level=2)
        assert same == error_codes.INVALID_PRODUCER_EPOCH
    assert write_marker(producer, topic, commit=False, coordinator_epoch=5, version=version) == NONE
    assert stable_end(raw, topic) == 2
    marker = records_in(fetch(raw, topic, 1, committed=True))[-1]
    assert (marker.key, marker.value) == (b"\0\0\0\0", b"\0\0\0\0\0\5")
    stale = write_marker(producer, topic, commit=False, coordinator_epoch=4, version=version)
    assert stale == error_codes.TRANSACTION_COORDINATOR_FENCED
    answer = raw.call(WriteTxnMarkersRequest(markers=[]), version)
    assert answer.markers == []


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_decides_about_offsets_too(
    raw: RawClient, producer: Transactional, topic: str, *, commit: bool
) -> None:
    group = new_id("group")
    find_coordinator(raw, group, GROUP)
    assert producer.commit_offsets(group, topic, 7, version=5) == NONE
    ((offsets, (partition,)),) = [(each.topic, each.partitions) for each in producer.describe().topics]
    assert write_marker(producer, offsets, commit=commit, partition=partition) == NONE
    after = (NONE, 7 if commit else -1)
    eventually(lambda: committed(raw, group, topic, stable=True) == after, "the marker")


def listed(raw: RawClient, version: int, **filters: object) -> ListTransactionsResponse:
    request = ListTransactionsRequest(**{"state_filters": [], "producer_id_filters": [], **filters})  # type: ignore[arg-type]
    answer: ListTransactionsResponse = raw.call(request, version)
    return answer


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed(raw: RawClient, producer: Transactional, topic: str, version: int) -> None:
    other = Transactional(raw, new_id("other"))
    other.init()
    assert producer.produce(topic, b"a", version=ADDING).error_code == NONE

    def names(**filters: object) -> set[str]:
        answer = listed(raw, version, **filters)
        assert (answer.error_code, answer.unknown_state_filters) == (NONE, [])
        return {each.transactional_id for each in answer.transaction_states} & {producer.id, other.id}

    assert names() == {producer.id, other.id}
    assert names(state_filters=["Ongoing"]) == {producer.id}
    assert names(state_filters=["Empty", "Ongoing"]) == {producer.id, other.id}
    assert names(producer_id_filters=[other.producer_id]) == {other.id}
    assert names(state_filters=["Ongoing"], producer_id_filters=[other.producer_id]) == set()
    if version >= 1:
        assert names(duration_filter=0) >= {producer.id}
        assert names(duration_filter=3_600_000) == {other.id}  # one that is not open has begun in 1970
    if version >= 2:
        assert names(transactional_id_pattern="other-.*") == {other.id}
        assert names(transactional_id_pattern="other") == set()
        assert names(transactional_id_pattern="") == {producer.id, other.id}
        broken = listed(raw, version, transactional_id_pattern="(")
        assert broken.error_code == error_codes.INVALID_REGULAR_EXPRESSION
    unknown = listed(raw, version, state_filters=["Ongoing", "Sleeping", "ongoing"])
    assert (unknown.error_code, set(unknown.unknown_state_filters)) == (NONE, {"Sleeping", "ongoing"})
    nothing = listed(raw, version, state_filters=["Sleeping"])
    assert nothing.transaction_states == []


def test_an_unknown_transactional_id_is_not_described(raw: RawClient, producer: Transactional) -> None:
    missing = Transactional(raw, new_id("nobody")).describe()
    assert (missing.error_code, missing.transaction_state) == (error_codes.TRANSACTIONAL_ID_NOT_FOUND, "")
    assert (missing.producer_id, missing.producer_epoch, missing.topics) == (0, 0, [])
    assert Transactional(raw, "").describe().error_code == error_codes.INVALID_REQUEST
    assert producer.describe().error_code == NONE
