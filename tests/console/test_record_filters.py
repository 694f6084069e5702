"""The filter of records: each field narrows, all of them together, and what cannot be is refused in one line."""

from typing import Any

import pytest

from kpybroker.machines.console.filtering import NO_FILTER, FilterFields, filter_of, in_words, time_in
from kpybroker.machines.console.matching import FilterMatcher
from kpywire.record import Record

RECORD = Record(
    timestamp=1000,
    key=b"LX42",
    value=b'{"from": "ZRH", "amount": 10}',
    headers=(("source", b"Gate 7"), ("empty", None), ("twice", b"one"), ("twice", b"two")),
)


def matches(record: Record = RECORD, **fields: Any) -> bool:
    wanted = filter_of(FilterFields(**fields))
    assert wanted is not None
    return FilterMatcher(wanted)(record)


@pytest.mark.parametrize(
    ("fields", "is_match"),
    [
        ({"text": "ZRH"}, True),
        ({"text": "ZRH", "where": "key"}, False),
        ({"text": "zrh"}, False),
        ({"text": "zrh", "ignore_case": True}, True),
        ({"text": "5a5248", "kind": "hex"}, True),
        ({"text": "Z.H", "kind": "regex"}, True),
        ({"key": "42"}, True),
        ({"key": "ZRH"}, False),
        ({"key": "lx", "ignore_case": True}, True),
        ({"header": "source"}, True),
        ({"header": "sour"}, False),
        ({"header": "source=Gate"}, True),
        ({"header": "source = gate"}, False),
        ({"header": "source = gate", "ignore_case": True}, True),
        ({"header": "empty"}, True),
        ({"header": "empty=x"}, False),
        ({"header": "twice=two"}, True),
        ({"json": '$.from == "ZRH" and $.amount > 9'}, True),
        ({"json": "$.amount > 10"}, False),
        ({"since": "1000"}, True),
        ({"since": "1001"}, False),
        ({"until": "1000"}, False),
        ({"until": "1001"}, True),
        ({"since": "1970-01-01T00:00:01", "until": "1970-01-01T00:00:02"}, True),
        ({"text": "ZRH", "key": "42", "header": "source", "json": "$.from", "until": "2000"}, True),
        ({"text": "ZRH", "key": "43", "header": "source", "json": "$.from", "until": "2000"}, False),
        ({"text": "ZRH", "key": "42", "header": "none", "json": "$.from", "until": "2000"}, False),
        ({"text": "ZRH", "key": "42", "header": "source", "json": "$.to", "until": "2000"}, False),
    ],
)
def test_a_record_matches_if_all_fields_do(fields: dict[str, Any], *, is_match: bool) -> None:
    assert matches(**fields) is is_match


@pytest.mark.parametrize("value", [None, b"", b"plain", b"\xff", b"[1"])
def test_a_record_that_is_not_json_matches_no_path(value: bytes | None) -> None:
    assert not matches(RECORD._replace(value=value), json="$")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"text": "x" * 1001}, "at most 1000 characters"),
        ({"key": "x" * 1001}, "at most 1000 characters"),
        ({"text": "(", "kind": "regex"}, "no regular expression of RE2"),
        ({"text": "xyz", "kind": "hex"}, "no hexadecimal number"),
        ({"text": "x", "kind": "sql"}, "kind is none of text, regex, hex"),
        ({"text": "x", "where": "moon"}, "where is none of any, key, value, header"),
        ({"json": "amount > 3"}, "JSON path: a path such as"),
        ({"since": "soon"}, "since is neither milliseconds"),
        ({"until": "9" * 30}, "until is neither milliseconds"),
    ],
)
def test_a_filter_that_cannot_be_is_refused_in_one_line(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line) as refused:
        filter_of(FilterFields(**fields))
    assert "\n" not in str(refused.value)


def test_without_a_field_every_record_matches() -> None:
    assert filter_of(NO_FILTER) is None
    assert NO_FILTER.is_empty
    assert filter_of(FilterFields(ignore_case=True, where="key", kind="regex")) is None


def test_a_batch_is_taken_apart_only_if_all_texts_are_in_it() -> None:
    wanted = filter_of(FilterFields(text="ZRH", key="42", json="$.from"))
    assert wanted is not None
    matcher = FilterMatcher(wanted)
    assert matcher.may_be_in(b"..42..from..ZRH..")
    assert not matcher.may_be_in(b"..42..ZRH..")
    assert not matcher.may_be_in(b"..43..from..ZRH..")
    assert not matcher.may_be_in(b"..42..from..JFK..")


@pytest.mark.parametrize("value", [b'{"from": "\\u005aRH"}', b'{"fr\\u006fm": "ZRH"}', b'{"from":"ZRH"}'])
def test_a_path_finds_texts_with_and_without_escapes(value: bytes) -> None:
    assert matches(RECORD._replace(value=value), json='$.from == "ZRH"')
    wanted = filter_of(FilterFields(json='$.from == "ZRH"'))
    assert wanted is not None
    assert FilterMatcher(wanted).may_be_in(b"before" + value)


def test_a_filter_is_written_in_words() -> None:
    fields = FilterFields(text="a", where="value", key="b", header="c = d", json=" $.e ", since="1", until="2")
    words = ("“a” in the value", "“b” in the key", "a header c with “d”", "$.e", "since 1", "before 2")
    assert in_words(fields) == words
    assert in_words(FilterFields(text="a", kind="regex", ignore_case=True)) == (
        "/a/ anywhere",
        "in capitals or small letters",
    )
    assert in_words(FilterFields(text="ff", kind="hex", header="h")) == ("the bytes ff anywhere", "a header h")
    assert in_words(NO_FILTER) == ()


def test_a_time_is_digits_or_a_date() -> None:
    assert time_in(" 17 ") == 17
    assert time_in("1970-01-01T01:00+01:00") == time_in("1970-01-01T00:00") == time_in("1970-01-01") == 0
    for text in ("", "soon", "-1", "1e3", "\u0661"):
        with pytest.raises(ValueError, match="neither milliseconds"):
            time_in(text)
