"""Records as a test writes, expects and reads about them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.testing import Broker, Record, assert_records
from kpybroker.testing.records import as_record, differences, matches

RECORD = Record(b'{"id": 7}', b"k", (("h", b"1"),), "orders", 2, 40, 1_700_000_000_000)
TEXTS = st.text(alphabet="abc", max_size=2)


def found(*values: str) -> list[Record]:
    return [Record(value.encode(), topic="t", offset=offset) for offset, value in enumerate(values)]


@pytest.mark.parametrize(
    "expected",
    [
        '{"id": 7}',
        b'{"id": 7}',
        {"id": 7},
        ("k", {"id": 7}),
        (b"k", '{"id": 7}'),
        {"key": "k"},
        {"value": {"id": 7}, "headers": {"h": "1"}},
        {"json": {"id": 7}, "partition": 2, "offset": 40, "topic": "orders"},
        {"text": '{"id": 7}', "timestamp_ms": 1_700_000_000_000},
        RECORD,
    ],
)
def test_an_expectation_says_what_counts_and_no_more(expected: Any) -> None:
    assert matches(expected, RECORD)


@pytest.mark.parametrize(
    "expected",
    [
        "something else",
        {"id": 8},
        None,
        ("other", {"id": 7}),
        {"key": None},
        {"headers": {}},
        {"value": {"id": 7}, "partition": 0},
        RECORD._replace(offset=41),
        7,
    ],
)
def test_different_records_do_not_match(expected: Any) -> None:
    assert not matches(expected, RECORD)


def test_a_tombstone_and_bytes_that_are_no_text_are_expected_as_they_are() -> None:
    tombstone = Record(None, b"\xff\xfe")
    assert matches((b"\xff\xfe", None), tombstone)
    assert not matches({"text": "x"}, Record(b"\xff"))
    assert "\\xff" in repr(tombstone)


def test_differences_show_the_records_in_their_order() -> None:
    lines = differences(["a", "b", {"id": 1}, "d"], found("a", "x", '{"id": 1}', "d", "e"))
    assert lines == [
        "not the records that were expected (4 expected, 5 there):",
        "  t[0]@0 'a'",
        "- 'b'",
        "+ t[0]@1 'x'",
        "  t[0]@2 '{\"id\": 1}'",
        "  t[0]@3 'd'",
        "+ t[0]@4 'e'",
    ]


def test_without_order_only_what_is_there_counts() -> None:
    assert differences(["b", "a", "a"], found("a", "b", "a"), ordered=False) == []
    lines = differences(["b", "a", "c"], found("a", "b", "a"), ordered=False)
    assert "- 'c'" in lines
    assert "+ t[0]@2 'a'" in lines


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=6))
def test_differences_account_for_every_record_and_every_expectation(expected: list[str], values: list[str]) -> None:
    for ordered in (True, False):
        lines = differences(expected, found(*values), ordered=ordered)
        same = expected == values if ordered else sorted(expected) == sorted(values)
        assert (lines == []) == same
        if lines:
            signs = [line[0] for line in lines[1:]]
            assert signs.count("-") + signs.count(" ") == len(expected)
            assert signs.count("+") + signs.count(" ") == len(values)


@given(st.one_of(TEXTS, st.binary(max_size=3), st.none(), st.dictionaries(TEXTS, st.integers(), max_size=2)))
def test_written_records_match_the_expected_ones(value: Any) -> None:
    record = as_record(value)
    if isinstance(value, dict):
        assert json.loads(record.value or b"") == value
    assert matches(record.value, record)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("v", Record(b"v")),
        (("k", "v"), Record(b"v", b"k")),
        ({"value": "v", "key": 7, "headers": {"a": "b"}, "timestamp_ms": 5},
         Record(b"v", b"7", (("a", b"b"),), timestamp_ms=5)),
        ({"id": 1}, Record(b'{"id": 1}')),
        ([1, 2], Record(b"[1, 2]")),
        (bytearray(b"v"), Record(b"v")),
    ],
)  # fmt: skip
def test_records_are_written_in_the_form_that_is_at_hand(given: Any, written: Record) -> None:
    assert as_record(given) == written


def test_long_values_and_long_lists_are_cut_in_what_is_shown() -> None:
    lines = differences([], [Record(b"x" * 1000)] * 300)
    assert len(lines) == 201
    assert lines[-1] == "... and 101 lines more"
    assert max(map(len, lines)) < 300


def test_records_keep_their_fields_through_a_broker() -> None:
    with Broker() as broker:
        broker.create_topic("t", partitions=3)
        sent = {"value": None, "key": "k", "headers": {"a": None, "b": "c"}, "timestamp_ms": 1_600_000_000_000}
        (written,) = broker.produce("t", sent, partition=1)
        (read,) = broker.records("t", partition=1)
        assert read == written == Record(None, b"k", (("a", None), ("b", b"c")), "t", 1, 0, 1_600_000_000_000)
        keyed = broker.produce("t", *[(f"key {number}", "v") for number in range(20)])
        assert len({record.partition for record in keyed}) == 3
        assert len(broker.records("t")) == 21


def test_a_failed_assertion_says_what_is_there() -> None:
    with Broker() as broker:
        broker.produce("t", "a")
        with pytest.raises(AssertionError, match=r"topic t: not the records(.|\n)*- 'b'\n\+ t\[0\]@0 'a'"):
            assert_records(broker, "t", ["b"])
        with pytest.raises(AssertionError, match=r"1 of 2 records came to t(.|\n)*\+ t\[0\]@0 'a'"):
            broker.wait_for_records("t", 2, timeout_s=0.05)
        assert broker.records("missing") == []


def test_records_equal_what_they_are_expected_to_be() -> None:
    with Broker() as broker:
        broker.produce("t", "a", ("k", {"id": 7}))
        read = broker.records("t")
        assert read == ["a", {"id": 7}]
        assert read == [b"a", ("k", '{"id": 7}')]
        assert read == broker.wait_for_records("t", 2)
        assert read == list(read)
        assert read != ["a"]
        assert read != [{"id": 7}, "a"]
        assert read != ("a", {"id": 7})


def test_an_assertion_on_a_topic_that_is_not_there_says_so() -> None:
    with Broker() as broker, pytest.raises(AssertionError, match=r"- 'x'\nthere is no such topic"):
        assert_records(broker, "misspelt", ["x"])


def test_many_records_come_whole() -> None:
    with Broker() as broker:
        for start in range(0, 3000, 500):
            broker.produce("many", *[f"{number}" for number in range(start, start + 500)])
        assert [record.text for record in broker.wait_for_records("many", 3000)] == [str(n) for n in range(3000)]
        big = "x" * 900_000
        for _ in range(20):
            broker.produce("big", big)
        assert len(broker.records("big")) == 20
