"""The batches of dead letters: they hold what they are to hold, and no more than their topic takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.share.dead_letters import (
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    MOST_RECORDS,
    Packing,
    RecordOrigin,
    TopicRules,
    headers,
    pause_ms,
    refusal,
)
from kpywire.batch import check_crc, parse_header
from kpywire.record import read_records

ORIGIN = RecordOrigin("g", "t", 3)
NAMED = headers(ORIGIN, 17, 5, "why")
IN_ORDER = TopicRules(exists=True, is_enabled=True, is_made=False, prefix="dlq.")


@given(st.lists(st.tuples(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=900)), max_size=30))
def test_a_batch_has_the_copies_in_order_until_it_is_full(copies: list[tuple[bytes | None, bytes | None]]) -> None:
    packing = Packing(2_000)
    taken = 0
    for key, value in copies:
        if not packing.add(NAMED, key, value):
            break
        taken += 1
    assert taken == packing.count
    if taken:
        batch = packing.batch(1_000)
        assert len(batch) == packing.size <= 2_000
        assert check_crc(batch, parse_header(batch))
        records = list(read_records(batch))
        assert [(each.key, each.value) for each in records] == copies[:taken]
        assert {each.headers for each in records} == {NAMED}
        assert {each.timestamp for each in records} == {1_000}


def test_a_copy_that_no_batch_can_hold_is_left_out() -> None:
    packing = Packing(500)
    assert packing.add(NAMED, b"k", bytes(600))
    (record,) = read_records(packing.batch(1))
    assert (record.key, record.value, record.headers) == (None, None, NAMED)


def test_the_first_dead_letter_always_has_room_and_their_number_is_bounded() -> None:
    packing = Packing(1)
    assert packing.add(NAMED, None, None)
    assert not packing.add(NAMED, None, None)
    packing = Packing(1 << 30)
    assert sum(packing.add(NAMED, None, None) for _ in range(MOST_RECORDS + 5)) == MOST_RECORDS


def test_the_headers_name_the_record_in_text() -> None:
    assert dict(NAMED) == {
        "__dlq.errors.topic": b"t",
        "__dlq.errors.partition": b"3",
        "__dlq.errors.offset": b"17",
        "__dlq.errors.group": b"g",
        "__dlq.errors.delivery.count": b"5",
        "__dlq.errors.message": b"why",
    }


@pytest.mark.parametrize(
    ("topic", "rules", "text"),
    [
        ("dlq.t", IN_ORDER, None),
        ("any", IN_ORDER._replace(prefix=""), None),
        ("dlq.t", IN_ORDER._replace(exists=False, is_enabled=False, is_made=True), None),
        ("", IN_ORDER, "Configured DLQ topic name in share group: g is empty."),
        ("__t", IN_ORDER, "cannot start with __, topic: __t."),
        (
            "dlq.t",
            IN_ORDER._replace(is_enabled=False),
            "DLQ is not enabled on configured DLQ topic for share group: g,",
        ),
        ("dlq.t", IN_ORDER._replace(exists=False), "DLQ topic does not exist and auto create is disabled on cluster"),
        ("any", IN_ORDER, "does not comply with the DLQ topic prefix in share group: g, topic: any, prefix: dlq.."),
    ],
)
def test_a_topic_that_may_not_have_dead_letters_is_refused_in_kafkas_words(
    topic: str, rules: TopicRules, text: str | None
) -> None:
    found = refusal("g", topic, rules)
    assert found is None if text is None else text in (found or "")


def test_pauses_grow_from_a_second_to_half_a_minute() -> None:
    pauses = [pause_ms(attempts, ORIGIN) for attempts in range(1, 8)]
    assert 0.8 * FIRST_PAUSE_MS <= pauses[0] <= 1.2 * FIRST_PAUSE_MS
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_MS
