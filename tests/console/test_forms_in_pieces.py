"""A form is read in pieces: its token first, and then its values, as they are in the query of an address."""

import json
from itertools import pairwise
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.monitoring.console import query
from kpybroker.monitoring.console.query import MOST_FIELDS, from_json, parsed, read_form, token_in
from kpybroker.runtime.http.request import HttpRefused


def values_of(form: bytes) -> dict[str, str]:
    values: dict[str, str] = {}
    for _ in read_form(form, values):
        pass
    return values


@given(st.dictionaries(st.text(max_size=9), st.text(), max_size=9), st.integers(3, 9))
def test_a_form_has_the_values_that_were_sent(values: dict[str, str], piece_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(query, "PIECE_BYTES", piece_bytes)
        whole = {name.encode(errors="replace"): value.encode(errors="replace") for name, value in values.items()}
        assert values_of(urlencode(whole).encode()) == {
            name.decode(): value.decode() for name, value in whole.items() if name or value
        } | ({"": ""} if whole.get(b"") == b"" else {})


@given(st.text("ab%4&=+ \xe9", max_size=40), st.integers(3, 9))
def test_any_text_is_read_like_the_query_of_an_address(text: str, piece_bytes: int) -> None:
    form = text.replace("\xe9", "%C3%A9")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(query, "PIECE_BYTES", piece_bytes)
        assert values_of(form.encode()) == parsed(form).values


def test_a_large_value_is_read_in_pieces() -> None:
    text = "ä€ " * 30_000
    form = f"value={quote_plus(text)}&more=1".encode()
    values: dict[str, str] = {}
    pieces = sum(1 for _ in read_form(form, values))
    assert pieces > len(form) / query.PIECE_BYTES
    assert values == {"value": text, "more": "1"}


def test_the_pieces_of_a_value_are_bounded_wherever_it_is_cut() -> None:
    text = b"a%41+" * 10_000
    for start in range(6):
        places = [len(b"".join(list(query._unquoted(text[start:]))[:number])) for number in range(5)]
        assert all(0 < after - before <= query.PIECE_BYTES for before, after in pairwise(places))


def test_the_token_is_read_wherever_it_stands() -> None:
    for form in (b"token=a1&x=2", b"x=2&token=a1", b"x=token&token=a1&y=", b"token=a1"):
        assert token_in(form) == "a1"
    for form in (b"", b"x=1", b"x_token=a1", b"token=", b"x=token=a1", b"&" * 1_000 + b"token=a1"):
        assert token_in(form) == "", form
    assert len(token_in(b"token=" + b"a" * 100_000)) == query.MOST_TOKEN_BYTES


def test_a_form_that_no_browser_sends_is_refused() -> None:
    with pytest.raises(HttpRefused, match="a form is ASCII"):
        values_of("a=é".encode())


PARTS = query.MOST_PARTS


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b"1," * PARTS + b"1]}",
        b'{"a":[' + b"[]," * PARTS + b"1]}",
        b'{"a":[' + b'"",' * PARTS + b"1]}",
        b'{"a":' + b"[" * PARTS + b"]" * PARTS + b"}",
        b'{"a":"' + b'\\"",1' * PARTS,
        b"," * 2 * PARTS,
    ],
)
def test_json_of_too_many_parts_is_refused_before_it_is_read(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(query, "json")
    with pytest.raises(HttpRefused, match=f"more than {PARTS} parts"):
        query.check_parts(body)


def test_a_text_in_json_may_have_whatever_it_wants() -> None:
    for text in ("[{,:" * 50_000, '\\"' * 16_000, "\\", "é" * 50_000):
        body = json.dumps({"value": text}).encode()
        query.check_parts(body)
        assert from_json(body).values == {"value": text}
    for broken in (b'{"value": "', b'{"value": "\\', b'{"value": "\\"', b'"' * 9, b"\\" * 9):
        query.check_parts(broken)
        with pytest.raises(HttpRefused, match="no JSON object"):
            from_json(broken)


def test_json_is_utf_8_and_its_texts_are_whole() -> None:
    for broken in ('{"a": 1}'.encode("utf-16"), b'{"a": "\xed\xa0\x80"}', b'{"a": "\\ud800"}', b'{"\\ud800": 1}'):
        with pytest.raises(HttpRefused, match="no JSON object"):
            from_json(broken)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)
)


@given(VALUES, st.booleans())
def test_the_parts_of_json_are_counted_and_not_what_its_texts_hold(value: Any, ensure_ascii: bool) -> None:
    body, parts = json.dumps(value, ensure_ascii=ensure_ascii).encode(), parts_of(value)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(query, "MOST_PARTS", parts)
        query.check_parts(body)
        patched.setattr(query, "MOST_PARTS", parts - 1)
        with pytest.raises(HttpRefused, match="parts"):
            query.check_parts(body)


def parts_of(value: Any) -> int:
    """The texts, containers and commas of JSON, names included."""
    if isinstance(value, dict):
        return len(value) + max(1, len(value)) + sum(map(parts_of, value.values()))
    if isinstance(value, list):
        return max(1, len(value)) + sum(map(parts_of, value))
    return int(isinstance(value, str))


def test_a_form_of_too_many_values_is_refused() -> None:
    assert len(values_of("&".join(f"a{number}=" for number in range(MOST_FIELDS)).encode())) == MOST_FIELDS
    with pytest.raises(HttpRefused, match=f"more than {MOST_FIELDS} values"):
        values_of(b"a=&" * MOST_FIELDS)


@pytest.mark.parametrize("escaped", ["\\n", '\\"', "\\u00e9", "\\ud83d\\ude00"])
def test_json_of_too_many_escapes_is_refused_before_it_is_read(escaped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(query, "json")
    body = b'{"a":"%s"}' % (escaped * (query.MOST_ESCAPES + 1)).encode()
    with pytest.raises(HttpRefused, match="escaped characters"):
        query.check_parts(body)
