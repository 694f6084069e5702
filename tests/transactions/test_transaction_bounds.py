"""The bounds of one decision: batches stay within what the log takes, whatever the names are; nothing is forgotten."""

import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transaction_world import TIMEOUT_MS, Ticket, TransactionWorld

from kpybroker.machines.journal import ProducerEpoch
from kpybroker.machines.transactions import timeouts
from kpybroker.machines.transactions.coordinator import TransactionCoordinator
from kpybroker.machines.transactions.decision import SENDS_AT_ONCE, TransactionDecision
from kpybroker.machines.transactions.record import TransactionRecord, decode
from kpybroker.machines.transactions.settings import TransactionSettings
from kpybroker.machines.transactions.timers import TransactionTimers
from kpybroker.machines.transactions.transaction import NO_ID, Transaction, TransactionState
from kpybroker.machines.transactions.usual_value import read_usual, write_usual
from kpywire import error_codes

WIDE = "住"
"""A letter of three bytes, the most that one character of UTF-16 takes."""
NAMES = st.text(st.sampled_from(("a", "ö", WIDE)), max_size=60)


def decision(**settings: int) -> TransactionDecision:
    return TransactionDecision(0, 0, TransactionSettings(**settings), NO_ID)


def ongoing(*partitions: tuple[str, int]) -> Transaction:
    return Transaction(1, 0, TIMEOUT_MS, TransactionState.ONGOING, frozenset(partitions), 5, 5, 1)


@given(NAMES, st.frozensets(st.tuples(NAMES, st.integers(0, 2**31 - 1)), max_size=8), st.integers(-1, 2**63 - 1))
def test_the_size_of_a_decision_is_no_less_than_that_of_its_records(
    name: str, partitions: frozenset[tuple[str, int]], next_producer_id: int
) -> None:
    written = decision()
    for transaction in (ongoing(*partitions)._replace(next_producer_id=next_producer_id, client_version=2), None):
        before = written.size
        written.write(name, transaction)
        key, value = written.records[-1].encoded()
        assert len(key) + len(value or b"") <= written.size - before <= 3 * len(name) + 160 + 200 * len(partitions)


def test_the_size_follows_every_letter_and_partition() -> None:
    written = decision()
    written.write(WIDE * 10, None)
    assert written.size == 160 + 30
    written.write("", ongoing((WIDE * 10, 0), ("", 1)))
    assert written.size == 160 + 30 + 160 + (30 + 8) + 8


def test_a_decision_is_full_above_half_a_batch_or_with_many_sends() -> None:
    half = decision(max_batch_bytes=2 * 163 + 1)
    half.write("a", None)
    assert not half.is_full
    half.write("a", None)
    assert half.is_full
    many = decision()
    for each in range(SENDS_AT_ONCE):
        assert not many.is_full
        many.send_markers(f"id-{each}", ongoing(("t", 0)), [("t", 0)])
    assert many.is_full


def test_the_first_record_has_room_and_the_next_one_as_far_as_the_batch_goes() -> None:
    one = ongoing()
    small = decision(max_batch_bytes=10)
    assert small.has_room_for("a", one), "the first one always has"
    for limit, has_room in ((2 * 163, True), (2 * 163 - 1, False)):
        written = decision(max_batch_bytes=limit)
        written.write("a", one)
        assert written.has_room_for("a", one) is has_room


def test_transactions_with_long_names_are_completed_in_batches_that_the_log_takes() -> None:
    """The log of this world refuses a batch that is too large, and the completion would never be written."""
    world = TransactionWorld(max_batch_bytes=4_000)
    for each in range(30):
        name = f"{each}{WIDE * 300}"
        world.add(world.started(name), transactional_id=name)
    world.advance(2 * TIMEOUT_MS)
    world.delete_partitions({"t": [0]})
    world.advance(60_000)
    assert {each.state for each in world.transactions.values()} == {TransactionState.COMPLETE_ABORT}


def test_a_producer_id_is_taken_once() -> None:
    taking = TransactionDecision(0, 0, TransactionSettings(), 7)
    assert (taking.take_producer_id(), taking.take_producer_id()) == (7, NO_ID)


# The usual layout, to its last byte


@pytest.mark.parametrize(
    ("name", "partitions", "is_usual"),
    [
        ("t" * 126, 1, True),
        ("t" * 127, 1, False),
        ("t", 126, True),
        ("t", 127, False),
        (WIDE * 42, 2, True),
        (WIDE * 43, 2, False),
    ],
)
def test_lengths_of_one_byte_are_written_and_read_by_their_layout(name: str, partitions: int, is_usual: bool) -> None:
    transaction = ongoing(*((name, index) for index in range(partitions)))
    value = write_usual(transaction)
    assert (value is not None) is is_usual
    if value is not None:
        assert read_usual(value) == transaction


@pytest.mark.parametrize(("topics", "is_usual"), [(0, True), (1, True), (126, True), (127, False)])
def test_as_many_topics_as_one_byte_counts_are_written_and_read_by_their_layout(topics: int, is_usual: bool) -> None:
    transaction = ongoing(*((f"t{index}", 3) for index in range(topics)))
    value = write_usual(transaction)
    assert (value is not None) is is_usual
    if value is not None:
        assert read_usual(value) == transaction


@pytest.mark.parametrize("client_version", [0, 1, 2])
def test_the_version_of_a_client_is_kept_by_the_layout(client_version: int) -> None:
    transaction = ongoing(("t", 0), ("t", 2**31 - 1), ("u", 5))._replace(client_version=client_version)
    value = write_usual(transaction)
    assert value is not None
    assert read_usual(value) == transaction


@pytest.mark.parametrize("change", [{"next_producer_id": 0}, {"next_producer_id": 9}, {"previous_producer_id": -1}])
def test_records_outside_the_layout_are_written_by_the_codec(change: dict[str, int]) -> None:
    transaction = ongoing(("t", 0))._replace(**change)
    assert write_usual(transaction) is None
    _, value = TransactionRecord("x", transaction).encoded()
    assert value is not None
    assert read_usual(value) is None


def test_a_previous_producer_id_of_zero_is_usual() -> None:
    transaction = ongoing(("t", 0))._replace(previous_producer_id=0)
    value = write_usual(transaction)
    assert value is not None
    assert read_usual(value) == transaction


# Time


def test_an_earlier_deadline_replaces_a_later_one_and_not_the_other_way_round() -> None:
    timers = TransactionTimers()
    assert timers.next_deadline_ms() is None
    timers.set("a", 100)
    timers.set("a", 200)
    timers.set("b", 150)
    timers.set("b", 50)
    assert (len(timers), timers.next_deadline_ms()) == (2, 50)
    assert timers.pop_due(49) is None
    assert timers.pop_due(50) == "b"
    assert timers.pop_due(99) is None
    assert timers.pop_due(100) == "a"
    assert timers.pop_due(1_000) is None, "the later ones were replaced"
    assert (len(timers), timers.next_deadline_ms()) == (0, None)


def test_the_second_after_which_a_completion_is_tried_again_begins_with_its_own_failure(
    world: TransactionWorld,
) -> None:
    for each in ("first", "second"):
        world.add(world.started(each, timeout_ms=900_000), transactional_id=each)
        world.end((world.transactions[each].producer_id, 0), transactional_id=each)
    first, second = world.wanted
    world.refuse_with = error_codes.NOT_ENOUGH_REPLICAS
    world.mark(first)
    assert world.coordinator.next_deadline_ms() == world.monotonic_ms + timeouts.RETRY_MS
    world.now_ms += timeouts.RETRY_MS // 2
    assert world.coordinator.next_deadline_ms() == world.monotonic_ms + timeouts.RETRY_MS // 2
    world.refuse_with = 0
    world.mark(first)
    assert world.state("first") == "CompleteCommit"
    assert world.coordinator.next_deadline_ms() == world.monotonic_ms + 900_001 - timeouts.RETRY_MS // 2
    world.refuse_with = error_codes.NOT_ENOUGH_REPLICAS
    world.mark(second)
    assert world.coordinator.next_deadline_ms() == world.monotonic_ms + timeouts.RETRY_MS


@pytest.mark.parametrize("later_ms", [0, 1, 10_000])
def test_the_next_deadline_is_the_earliest_of_all_transactions(world: TransactionWorld, later_ms: int) -> None:
    world.add(world.started("a", timeout_ms=TIMEOUT_MS + later_ms), transactional_id="a")
    world.add(world.started("b", timeout_ms=TIMEOUT_MS), transactional_id="b")
    assert world.coordinator.next_deadline_ms() == world.monotonic_ms + TIMEOUT_MS + 1


class Unknown(NamedTuple):
    timestamp_ms: int = 0


def test_an_input_that_is_none_of_the_coordinators_is_a_defect() -> None:
    coordinator = TransactionCoordinator(TransactionSettings)
    with pytest.raises(TypeError):
        coordinator.decide(Unknown(), 0)


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_request_whose_record_does_not_fit_is_refused(version: int) -> None:
    world = TransactionWorld(max_batch_bytes=1_000)
    producer = world.started()
    many = [(f"topic-{each}", 0) for each in range(100)]
    assert set(world.add(producer, *many, version=version).values()) == {error_codes.UNKNOWN_SERVER_ERROR}
    assert world.state() == "Empty"
    ticket: Ticket = world.init_ticket("y" * 2_000)
    assert ticket.response.error_code == error_codes.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("kind", ["init", "add", "offsets", "end"])
def test_every_request_whose_record_the_log_does_not_take_is_answered_with_kafkas_error(
    world: TransactionWorld, kind: str
) -> None:
    producer = world.started()
    world.add(producer)
    world.settings = world.settings._replace(max_batch_bytes=40)
    if kind == "init":
        assert world.init("y") == (error_codes.UNKNOWN_SERVER_ERROR, -1, -1)
    elif kind == "add":
        assert world.add(producer, ("u", 0)) == {("u", 0): error_codes.UNKNOWN_SERVER_ERROR}
    elif kind == "offsets":
        assert world.add_offsets(producer) == error_codes.UNKNOWN_SERVER_ERROR
    else:
        assert world.end(producer) == (error_codes.UNKNOWN_SERVER_ERROR, -1, -1)
    assert world.state() == "Ongoing"


def test_no_producer_writes_to_the_log_of_transactions_in_a_transaction() -> None:
    with pytest.raises(ValueError, match="producer 5 at offset 7"):
        TransactionCoordinator(TransactionSettings).apply_marker(ProducerEpoch(5, 0), 7, commit=True)


def test_the_same_deadline_again_changes_nothing() -> None:
    timers = TransactionTimers()
    timers.set("b", 200)
    for _ in range(2):
        timers.set("a", 100)
    assert timers.pop_due(100) == "a"
    assert timers.next_deadline_ms() == 200


# Layouts that only look like the usual one

ONE_TOPIC = bytes((2, 2)) + b"t" + bytes((2,)) + bytes(4) + b"\0"


def value_of(section: bytes = ONE_TOPIC, *, tags: int = 1, tag: int = 0, version: int = 1) -> bytes:
    """A value of an open transaction, with these bytes for its partitions and a number of 8 bytes as its last tag."""
    head = struct.pack(">hqhib", version, 1, 0, 60_000, TransactionState.ONGOING)
    return head + section + struct.pack(">qqBBBq", 5, 5, tags, tag, 8, 1)


def test_the_usual_value_is_this_one() -> None:
    assert read_usual(value_of()) == ongoing(("t", 0))
    assert write_usual(ongoing(("t", 0))) == value_of()
    assert read_usual(value_of(b"\0")) == read_usual(value_of(b"\1")) == ongoing()


@pytest.mark.parametrize(
    "value",
    [
        value_of(tag=1),
        value_of(tags=0),
        value_of(tags=2),
        value_of(version=0),
        value_of(version=2),
        value_of(b""),
        value_of(ONE_TOPIC[:-1] + b"\1"),
        value_of(ONE_TOPIC + b"\0"),
        value_of(ONE_TOPIC[:-1]),
        value_of(bytes((2, 0, 2)) + bytes(4) + b"\0"),
        value_of(bytes((2, 2)) + b"t\0\0"),
        value_of(bytes((2, 0x80)) + b"x" * 127 + bytes((2,)) + bytes(4) + b"\0"),
        value_of(bytes((2, 2)) + b"\xff" + bytes((2,)) + bytes(4) + b"\0"),
    ],
    ids=["next id", "no tag", "two tags", "version 0", "version 2", "nothing", "tag of a topic", "too long",
         "too short", "no name", "no array", "two bytes of length", "not UTF-8"],
)  # fmt: skip
def test_another_layout_is_left_to_the_codec(value: bytes) -> None:
    assert read_usual(value) is None


@pytest.mark.parametrize("key", [b"\0\1", b"\0\1x", b"\1\0", b"\xff\xff"])
def test_a_key_of_another_type_is_left_alone_however_short(key: bytes) -> None:
    assert decode(key, b"") is None
