"""A leader and transactions: only what is verified is opened, a marker ends it, readers see what is decided."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.in_sync import PartitionState
from kpybroker.machines.partition.leader import Marker, PartitionLeader
from kpybroker.machines.partition.role import READ_COMMITTED, READ_UNCOMMITTED
from kpybroker.machines.partition.validation import ValidationConfig
from kpystorage.directory import LogDirectory
from kpystorage.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    StorageError,
    TransactionCoordinatorFenced,
)
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpywire import error_codes
from kpywire.batch import parse_header
from kpywire.record import Record, build_batch

PRODUCER = 9
NOW_MS = 1_700_000_000_000
CONFIG = ValidationConfig()


@contextmanager
def new_leader(config: LogConfig = LogConfig()) -> Iterator[PartitionLeader]:  # noqa: B008  it never changes
    """The leader of a partition without records, whose only replica is this one."""
    disk = MemoryDisk()
    disk.make_directory("/data")
    directory = LogDirectory("/data", disk, Random(1), lambda _failure: None, config)
    directory.open(NOW_MS)
    log = directory.create_log("t", 0, bytes(15) + b"\x01", config, NOW_MS)
    yield PartitionLeader(log.open(), 1, PartitionState(0, 0, [1], [1]), 0)
    directory.close()


@pytest.fixture
def leader() -> Iterator[PartitionLeader]:
    with new_leader() as leader:
        yield leader


def batch(sequence: int, epoch: int = 0, *, transactional: bool = True) -> memoryview:
    records = [Record(timestamp=NOW_MS, value=b"v")]
    return memoryview(
        bytearray(
            build_batch(
                records,
                producer_id=PRODUCER,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )
    )


def append(leader: PartitionLeader, sequence: int, epoch: int = 0, *, transactional: bool = True) -> int:
    """Append as a request with a transactional id; the offset."""
    records = batch(sequence, epoch, transactional=transactional)
    return leader.append(records, CONFIG, NOW_MS, transactional=True)[0]


def verify(leader: PartitionLeader, sequence: int = 0, epoch: int = 0, *, bumps_epoch: bool = False) -> None:
    leader.verifications.begin(PRODUCER, epoch, sequence, NOW_MS, bumps_epoch=bumps_epoch).verified = True


def end(
    leader: PartitionLeader, epoch: int = 0, *, commit: bool = True, coordinator_epoch: int = 0, level: int = 0
) -> int:
    return leader.append_marker(Marker(PRODUCER, epoch, commit, coordinator_epoch, level), NOW_MS)


def ends(leader: PartitionLeader) -> tuple[int, int]:
    """The offsets where readers of committed records, and of all, have to stop."""
    return leader.end_for(READ_COMMITTED).offset, leader.end_for(READ_UNCOMMITTED).offset


def test_an_unverified_transaction_is_not_started(leader: PartitionLeader) -> None:
    with pytest.raises(InvalidTxnState):
        append(leader, 0)
    asked = leader.verifications.begin(PRODUCER, 0, 0, NOW_MS, bumps_epoch=False)
    with pytest.raises(InvalidTxnState):
        append(leader, 0)
    asked.verified = True
    assert append(leader, 0) == 0
    assert append(leader, 1) == 1
    assert ends(leader) == (0, 2)
    assert leader.verifications.of_producers == {}


def test_a_request_without_a_transactional_id_writes_into_none(leader: PartitionLeader) -> None:
    verify(leader)
    with pytest.raises(KafkaError) as refused:
        leader.append(batch(0), CONFIG, NOW_MS)
    assert refused.value.code == error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert leader.log.end.offset == 0


def test_a_marker_in_between_ends_the_verification(leader: PartitionLeader) -> None:
    verify(leader)
    assert end(leader, commit=False) == 0
    with pytest.raises(InvalidTxnState):
        append(leader, 0)
    assert ends(leader) == (1, 1)


def test_each_transaction_is_verified_anew(leader: PartitionLeader) -> None:
    verify(leader)
    append(leader, 0)
    assert end(leader) == 1
    assert ends(leader) == (2, 2)
    assert leader.log.aborted_transactions(0, 2) == []
    with pytest.raises(InvalidTxnState):
        append(leader, 1)
    verify(leader, 1)
    assert append(leader, 1) == 2
    assert end(leader, commit=False) == 3
    (aborted,) = leader.log.aborted_transactions(0, 4)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (PRODUCER, 2, 3)


def test_batches_after_a_refused_one_are_refused_too(leader: PartitionLeader) -> None:
    leader.verifications.begin(PRODUCER, 0, 0, NOW_MS, bumps_epoch=False)
    verify(leader, 1)
    with pytest.raises(OutOfOrderSequence):
        append(leader, 1)
    assert append(leader, 0) == 0
    verify(leader, 5, 1)
    assert leader.verifications.of_producers[PRODUCER].lowest_sequence == 5


def test_a_producer_of_which_nothing_is_known_begins_at_zero_in_its_own_epoch(leader: PartitionLeader) -> None:
    verify(leader, 3, bumps_epoch=True)
    with pytest.raises(OutOfOrderSequence):
        append(leader, 3)
    leader.verifications.end(PRODUCER)
    verify(leader, 3)
    assert append(leader, 3) == 0


def test_a_repeated_batch_needs_no_transaction(leader: PartitionLeader) -> None:
    verify(leader)
    append(leader, 0)
    end(leader)
    assert append(leader, 0) == 0
    assert leader.log.end.offset == 2


def test_a_fenced_producer_gets_producer_fenced(leader: PartitionLeader) -> None:
    verify(leader, epoch=1)
    append(leader, 0, 1)
    end(leader, 2, commit=False)
    verify(leader, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        append(leader, 1, 1)
    with pytest.raises(InvalidProducerEpoch):
        end(leader, 1)
    with pytest.raises(InvalidProducerEpoch):
        append(leader, 0, 1, transactional=False)


def test_a_coordinator_of_the_past_is_fenced(leader: PartitionLeader) -> None:
    verify(leader)
    append(leader, 0)
    end(leader, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced):
        end(leader, coordinator_epoch=4)
    assert leader.log.end.offset == 2


def test_the_second_generation_ends_with_a_higher_epoch(leader: PartitionLeader) -> None:
    verify(leader)
    append(leader, 0)
    with pytest.raises(InvalidProducerEpoch):
        end(leader, 0, level=2)
    assert end(leader, 1, level=2) == 1
    assert end(leader, 1, level=2) == 2  # repeated by a coordinator that did not hear of it
    assert ends(leader) == (3, 3)


def test_a_marker_says_by_which_version_its_transaction_works(leader: PartitionLeader) -> None:
    verify(leader)
    append(leader, 0)
    with pytest.raises(StorageError) as refused:
        end(leader, 0, level=-1)
    assert refused.value.error_code == error_codes.UNKNOWN_SERVER_ERROR
    assert ends(leader) == (0, 1)


def test_a_coordinator_writes_without_sequences(leader: PartitionLeader) -> None:
    data = build_batch(
        [Record(timestamp=NOW_MS, value=b"v")], producer_id=PRODUCER, producer_epoch=0, transactional=True
    )
    with pytest.raises(InvalidTxnState):
        leader.append_in_transaction(parse_header(data), data, NOW_MS)
    verify(leader)
    assert leader.append_in_transaction(parse_header(data), data, NOW_MS) == (0, 1, -1)
    assert ends(leader) == (0, 1)


def test_a_marker_counts_when_all_replicas_have_it(leader: PartitionLeader) -> None:
    verify(leader)
    append(leader, 0)
    leader.update(PartitionState(0, 1, [1, 2], [1, 2]), 0)
    follower = leader.check_follower(2, -1, knows_epoch=True)
    leader.note_fetch(follower, -1, leader.log.log_end_offset, 0, 0)
    end(leader)
    assert ends(leader) == (0, 1)
    assert leader.note_fetch(follower, -1, leader.log.log_end_offset, 0, 1).is_committed
    assert ends(leader) == (2, 2)


def test_verifications_that_lead_to_nothing_are_forgotten(leader: PartitionLeader) -> None:
    verify(leader)
    leader.verifications.expire(NOW_MS + 9, 10)
    assert PRODUCER in leader.verifications.of_producers
    leader.verifications.expire(NOW_MS + 10, 10)
    assert leader.verifications.of_producers == {}


def play(leader: PartitionLeader, ends: list[tuple[int, bool, bool]]) -> None:
    """Transactions end one after the other: whose, whether it commits, whether it has written something."""
    sequences = dict.fromkeys(range(1, 4), 0)
    for producer_id, commit, writes in ends:
        if writes:
            asked = leader.verifications.begin(producer_id, 0, sequences[producer_id], NOW_MS, bumps_epoch=False)
            asked.verified = True
            records = build_batch(
                [Record(timestamp=NOW_MS, value=b"v")],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequences[producer_id],
                transactional=True,
            )
            leader.append(memoryview(bytearray(records)), CONFIG, NOW_MS, transactional=True)
            sequences[producer_id] += 1
        leader.append_marker(Marker(producer_id, 0, commit, 5), NOW_MS + 1)


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), max_size=12))
def test_a_marker_leaves_the_log_as_it_does_where_it_is_read_back(ends: list[tuple[int, bool, bool]]) -> None:
    config = LogConfig(segment_bytes=400, index_interval_bytes=100)
    with new_leader(config) as short, new_leader(config) as long:
        play(short, ends)
        with patch.object(Log, "append_batch", lambda *_asked: False):
            play(long, ends)
        assert short.log.end == long.log.end
        assert short.high_watermark == long.high_watermark
        assert short.log.producers.snapshot() == long.log.producers.snapshot()
        assert short.end_for(READ_COMMITTED) == long.end_for(READ_COMMITTED)
        segments, others = (
            [(segment.base_offset, segment.size, segment.max_timestamp) for segment in leader.log.segments]
            for leader in (short, long)
        )
        assert segments == others
