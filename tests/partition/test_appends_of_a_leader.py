"""The ways into a leader's log: a batch that is checked on the spot, and one that was checked elsewhere meanwhile."""

from collections.abc import Callable

import pytest
from test_transactional_leader import CONFIG, NOW_MS, PRODUCER, batch, new_leader, verify

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.in_sync import PartitionState
from kpybroker.machines.partition.leader import Appended, PartitionLeader
from kpybroker.machines.partition.validation import ValidationConfig, validate
from kpystorage.errors import OutOfOrderSequence
from kpywire import error_codes
from kpywire.batch import LOG_APPEND_TIME, parse_header
from kpywire.record import Record, build_batch

Append = Callable[..., Appended]


def on_the_spot(
    leader: PartitionLeader, data: bytes, config: ValidationConfig = CONFIG, now_ms: int = NOW_MS, **how: bool
) -> Appended:
    return leader.append(memoryview(bytearray(data)), config, now_ms, **how)


def elsewhere(
    leader: PartitionLeader, data: bytes, config: ValidationConfig = CONFIG, now_ms: int = NOW_MS, **how: bool
) -> Appended:
    """Checked while the log ended at another offset, in another epoch."""
    return leader.append_checked(validate(memoryview(bytearray(data)), config, now_ms, 3, 77), now_ms, **how)


BOTH = pytest.mark.parametrize("append", [on_the_spot, elsewhere])


def plain(*values: bytes, producer_id: int = -1, sequence: int = -1) -> bytes:
    epoch = -1 if producer_id < 0 else 0
    return build_batch(
        [Record(timestamp=NOW_MS, value=value) for value in values],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def base_offsets(leader: PartitionLeader) -> list[tuple[int, int]]:
    """(base offset, leader epoch) of each batch in the log."""
    found = []
    for segment in leader.log.segments:
        content, position = segment.log.pread(segment.size, 0), 0
        while position < len(content):
            header = parse_header(content, position)
            found.append((header.base_offset, header.partition_leader_epoch))
            position += header.batch_length + 12
    return found


@BOTH
def test_a_batch_gets_the_place_where_the_log_ends(append: Append) -> None:
    with new_leader() as leader:
        assert append(leader, plain(b"a", b"b", b"c")) == (0, 3, -1)
        leader.update(PartitionState(4, 1, [1], [1]), 0)
        assert append(leader, plain(b"d")) == (3, 4, -1)
        assert base_offsets(leader) == [(0, 0), (3, 4)]
        assert leader.high_watermark == leader.log.end
        assert leader.log.end.offset == 4


@BOTH
def test_a_batch_waits_for_a_follower_in_the_in_sync_set(append: Append) -> None:
    with new_leader() as leader:
        append(leader, plain(b"a"))
        leader.update(PartitionState(0, 1, [1, 2], [1, 2]), 0)
        append(leader, plain(b"b"))
        append(leader, plain(b"c", producer_id=0, sequence=0))
        assert (leader.high_watermark.offset, leader.log.end.offset) == (1, 3)


@BOTH
@pytest.mark.parametrize("producer_id", [0, 1, 2**40])
def test_a_repeated_batch_gets_its_first_answer(append: Append, producer_id: int) -> None:
    with new_leader() as leader:
        append(leader, plain(b"before"))
        first = plain(b"a", b"b", producer_id=producer_id, sequence=0)
        assert append(leader, first) == (1, 3, -1)
        append(leader, plain(b"c", producer_id=producer_id, sequence=2))
        assert append(leader, first) == (1, 3, NOW_MS)
        assert leader.log.end.offset == 4
        with pytest.raises(OutOfOrderSequence):
            append(leader, plain(b"e", producer_id=producer_id, sequence=4))
        assert leader.log.end.offset == 4


@BOTH
def test_a_batch_beside_a_verification_does_not_overtake_the_one_that_waits(append: Append) -> None:
    with new_leader() as leader:
        leader.verifications.begin(PRODUCER, 0, 3, NOW_MS, bumps_epoch=False)
        leader.verifications.begin(PRODUCER, 0, 5, NOW_MS, bumps_epoch=False)
        with pytest.raises(OutOfOrderSequence, match="3 \\(earliest seen"):
            append(leader, plain(b"a", producer_id=PRODUCER, sequence=4))
        append(leader, plain(b"a", producer_id=PRODUCER + 1, sequence=4))
        append(leader, plain(b"a", producer_id=PRODUCER, sequence=3))
        assert leader.log.end.offset == 2


@BOTH
def test_a_transaction_needs_a_transactional_id_and_moves_the_end(append: Append) -> None:
    with new_leader() as leader:
        verify(leader)
        with pytest.raises(KafkaError) as refused:
            append(leader, bytes(batch(0)))
        assert refused.value.code == error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert append(leader, bytes(batch(0)), transactional=True) == (0, 1, -1)
        assert leader.high_watermark.offset == 1
        assert append(leader, bytes(batch(0)), transactional=True) == (0, 1, NOW_MS)


@BOTH
def test_a_transaction_that_was_verified_a_moment_ago_is_opened(append: Append) -> None:
    with new_leader() as leader:
        assert append(leader, bytes(batch(0)), transactional=True, is_verified=True) == (0, 1, -1)


@BOTH
def test_on_a_topic_with_log_append_time_the_answer_has_it(append: Append) -> None:
    config = ValidationConfig(log_append_time=True)
    with new_leader() as leader:
        assert append(leader, plain(b"a"), config) == (0, 1, NOW_MS)
        verify(leader)
        assert append(leader, bytes(batch(0)), config, transactional=True) == (1, 2, NOW_MS)
        assert append(leader, plain(b"b", producer_id=3, sequence=0), config)[2] == NOW_MS


@BOTH
def test_a_repeated_batch_has_the_time_of_its_first_append(append: Append) -> None:
    config = ValidationConfig(log_append_time=True)
    with new_leader() as leader:
        verify(leader)
        batches = (bytes(batch(0)), True, (0, 1)), (plain(b"b", producer_id=3, sequence=0), False, (1, 2))
        for data, transactional, offsets in batches:
            assert append(leader, data, config, transactional=transactional) == (*offsets, NOW_MS)
        for data, transactional, offsets in batches:
            again = append(leader, data, config, now_ms=NOW_MS + 500, transactional=transactional)
            assert again == (*offsets, NOW_MS)


@pytest.mark.parametrize("first_sequence", [0, 1])
def test_a_producer_with_an_epoch_for_each_transaction_begins_with_zero(first_sequence: int) -> None:
    with new_leader() as leader:
        verify(leader, first_sequence, bumps_epoch=True)
        if first_sequence:
            with pytest.raises(OutOfOrderSequence, match="Expected sequence 0"):
                on_the_spot(leader, bytes(batch(first_sequence)), transactional=True)
        else:
            assert on_the_spot(leader, bytes(batch(0)), transactional=True)[0] == 0


# Batches that this node builds itself


def built(leader: PartitionLeader, *values: bytes) -> bytes:
    records = [Record(timestamp=NOW_MS, key=b"k", value=value) for value in values]
    return build_batch(records, base_offset=leader.log.end.offset, partition_leader_epoch=leader.epoch)


def test_a_batch_of_this_nodes_own_is_taken_as_it_is() -> None:
    with new_leader() as leader:
        on_the_spot(leader, plain(b"a"))
        assert leader.append_built(built(leader, b"b", b"c"), 2, CONFIG, NOW_MS) == (1, 3)
        assert base_offsets(leader) == [(0, 0), (1, 0)]
        assert leader.high_watermark == leader.log.end


@pytest.mark.parametrize(
    ("bounds", "code"),
    [("max_message_bytes", error_codes.MESSAGE_TOO_LARGE), ("segment_bytes", error_codes.RECORD_LIST_TOO_LARGE)],
)
def test_a_batch_of_this_nodes_own_keeps_the_bounds_of_its_topic(bounds: str, code: int) -> None:
    with new_leader() as leader:
        data = built(leader, b"a")
        with pytest.raises(KafkaError) as refused:
            leader.append_built(data, 1, ValidationConfig(**{bounds: len(data) - 1}), NOW_MS)  # type: ignore[arg-type]
        assert refused.value.code == code
        assert leader.log.end.offset == 0
        assert leader.append_built(data, 1, ValidationConfig(**{bounds: len(data)}), NOW_MS) == (0, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "codec", "timestamp_type"),
    [
        (ValidationConfig(compression_type="gzip"), 1, 0),
        (ValidationConfig(compression_type="uncompressed"), 0, 0),
        (ValidationConfig(log_append_time=True), 0, LOG_APPEND_TIME),
    ],
)
def test_a_batch_of_this_nodes_own_is_stored_as_its_topic_wants(
    config: ValidationConfig, codec: int, timestamp_type: int
) -> None:
    with new_leader() as leader:
        on_the_spot(leader, plain(b"a"))
        assert leader.append_built(built(leader, b"b", b"c"), 2, config, NOW_MS) == (1, 3)
        segment = leader.log.segments[-1]
        header = parse_header(segment.log.pread(segment.size, 0), len(plain(b"a")))
        assert (header.base_offset, header.codec, header.timestamp_type) == (1, codec, timestamp_type)


# Enough replicas


@pytest.mark.parametrize(
    ("replicas", "isr", "minimum", "is_enough"),
    [
        ([1, 2, 3], [1, 2], 2, True),
        ([1, 2, 3], [1, 2], 3, False),
        ([1, 2], [1, 2], 3, True),
        ([1, 2], [1], 3, False),
        ([1], [1], 2, True),
        ([1], [1], 1, True),
    ],
)
def test_a_topic_with_fewer_replicas_than_the_minimum_needs_them_all(
    replicas: list[int], isr: list[int], minimum: int, *, is_enough: bool
) -> None:
    with new_leader() as leader:
        leader.update(PartitionState(0, 1, replicas, isr), 0)
        assert leader.has_enough_in_sync(minimum) is is_enough
        assert leader.has_reached_enough(minimum) is is_enough
