"""Transactions on the wire, as Apache Kafka answers them: each request in each version, with its errors.

Both generations on one broker whose ``transaction.version`` is 2: old clients add partitions themselves and keep their
epoch; new ones have them added as they produce, and get another epoch at every end (KIP-890).
"""

import secrets

import pytest

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
from raw_client import RawClient, connect
from raw_requests import list_offsets, now_ms
from raw_transactions import (
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
from waiting import eventually

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
def test_who_names_its_identity_goes_on_if_it_still_has_it(producer: Transactional, version: int) -> None:
    """KIP-360: the epoch rises; repeating that is answered alike; what is older is fenced."""
    identity, epoch = producer.producer_id, producer.epoch
    raised = producer.init(version, producer_id=identity, epoch=epoch)
    assert (raised.error_code, raised.producer_id, raised.producer_epoch) == (NONE, identity, epoch + 1)
    again = producer.init(version, producer_id=identity, epoch=epoch)
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
def test_offsets_of_who_may_not(raw: RawClient, producer: Transactional, topic: str, version: int) -> None:
    group = new_id("group")
    find_coordinator(raw, group, GROUP)
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offsets(group, "no-such-topic", 7, version=version) == unknown
    assert producer.commit_offsets(group, topic, 7, partition=1, version=version) == unknown
    assert producer.commit_offsets("", topic, 7, version=version) == error_codes.INVALID_GROUP_ID
    assert producer.add_offsets(group) == NONE
    if version >= 3:
        code = producer.commit_offsets(group, topic, 7, version=version, generation_id=1, member_id="stranger")
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
    producer: Transactional, topic: str, *, commit: bool, coordinator_epoch: int = 0, version: int = 1, level: int = 0
) -> int:
    """WriteTxnMarkers for partition 0; its error code."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
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
    nobody = Transactional(raw, producer.id, producer.producer_id, -1)
    assert write_marker(nobody, topic, commit=False, version=version) == error_codes.UNKNOWN_SERVER_ERROR
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


def test_who_is_not_known_is_not_described(raw: RawClient, producer: Transactional) -> None:
    nobody = Transactional(raw, new_id("nobody")).describe()
    assert (nobody.error_code, nobody.transaction_state) == (error_codes.TRANSACTIONAL_ID_NOT_FOUND, "")
    assert (nobody.producer_id, nobody.producer_epoch, nobody.topics) == (0, 0, [])
    assert Transactional(raw, "").describe().error_code == error_codes.INVALID_REQUEST
    assert producer.describe().error_code == NONE
