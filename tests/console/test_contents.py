"""Bytes as text: which form they take, where one form ends and another begins, and what is left out is said."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.console import content
from kpybroker.machines.console.content import (
    HEX_BYTES,
    ContentBySchema,
    content_of,
    hex_dump,
    indented,
    is_json,
    visible,
)


@pytest.mark.parametrize(
    ("data", "form", "shown"),
    [
        (b"plain", "auto", "text"),
        (b'{"a": 1}', "auto", "json"),
        (b" \n[1]", "auto", "json"),
        (b"17", "auto", "text"),
        (b'"text"', "auto", "text"),
        (b"17", "json", "json"),
        (b"{", "auto", "text"),
        (b"{", "json", "text"),
        (b"\xff", "json", "hex"),
        (b"\xff", "auto", "hex"),
        (b"\xff", "text", "text"),
        (b"plain", "hex", "hex"),
        (b"\x00", "auto", "hex"),
        (b"\x00", "json", "text"),
        (b"\x00" + b"x" * 9, "auto", "text"),
        (b"\x00" * 2 + b"x" * 17, "auto", "hex"),
        (b"\n\r\t" * 3, "auto", "text"),
        (b"x" * 1_000 + b"\x00" * 500, "auto", "text"),
        (b"x" * 899 + b"\x00" * 101, "auto", "hex"),
    ],
)
def test_bytes_take_the_form_that_they_have(data: bytes, form: str, shown: str) -> None:
    assert content_of(data, len(data), form).form == shown


def test_json_that_was_cut_is_text() -> None:
    found = content_of(b'{"a": 1}', 9)
    assert (found.form, found.is_cut, found.bytes) == ("text", True, 9)
    whole = content_of(b'{"a": 1}', 8)
    assert (whole.form, whole.is_cut, whole.bytes) == ("json", False, 8)


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_text_may_be_cut_within_a_character_of_up_to_four_bytes(kept: int) -> None:
    data = b"abc" + "\U0001f600".encode()[:kept]
    found = content_of(data, 7)
    assert (found.form, found.text, found.is_cut) == ("text", "abc", True)
    assert content_of(data, len(data)).form == "hex", "nothing was cut, so it is not UTF-8"


def test_bytes_that_are_no_text_before_the_end_are_not_cut_text() -> None:
    assert content_of(b"abc\xff1234", 99).form == "hex"
    assert content_of(b"abc\xff12", 99).form == "text"


def test_null_has_no_bytes_and_an_empty_value_has_none_to_show() -> None:
    found = content_of(None, 0)
    assert (found.form, found.text, found.base64, found.bytes, found.is_cut) == ("null", "", None, -1, False)
    found = content_of(b"", 0)
    assert (found.form, found.text, found.base64, found.bytes, found.is_cut) == ("empty", "", "", 0, False)


def test_a_schema_describes_a_content_unless_another_form_is_asked_for() -> None:
    by_schema = ContentBySchema(7, "avro", "a\x00", "m\x00")
    found = content_of(b"\x00\x01", 9, "auto", by_schema)
    assert (found.form, found.text, found.schema_id, found.note) == ("avro", "a<U+0000>", 7, "m<U+0000>")
    assert (found.is_cut, found.bytes) == (False, 9)
    for form in ("text", "json", "hex"):
        assert content_of(b"\x00\x01", 2, form, by_schema).schema_id is None
    without = content_of(b"plain", 9, "auto", ContentBySchema(7, "avro", None, "not valid"))
    assert (without.form, without.text, without.schema_id, without.note) == ("text", "plain", 7, "not valid")
    assert without.is_cut


def test_a_hex_dump_has_rows_of_sixteen_and_ends() -> None:
    dump = hex_dump(bytes(range(30, 48)) + b"~\x7f")
    assert dump.splitlines() == [
        "00000000  1e 1f 20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d  .. !\"#$%&'()*+,-",
        "00000010  2e 2f 7e 7f" + " " * 38 + "./~.",
    ]
    for size, is_cut in ((HEX_BYTES, False), (HEX_BYTES + 1, True)):
        found = content_of(b"\xff" * size, size)
        assert len(found.text.splitlines()) == HEX_BYTES // 16
        assert found.is_cut is is_cut
    assert hex_dump(b"") == ""
    assert not content_of(b"x" * (HEX_BYTES + 1), HEX_BYTES + 1).is_cut, "text is shown whole"


@given(st.text())
def test_every_character_that_cannot_be_seen_is_spelled_out(text: str) -> None:
    kept = (each if each in " \n\t" or each.isprintable() else f"<U+{ord(each):04X}>" for each in text)
    assert visible(text) == "".join(kept)


def test_characters_that_are_spelled_out_are_kept_for_a_while_only() -> None:
    for number in range(20_000):
        assert visible(f"\0{chr(number)}").startswith("<U+0000>")
    assert len(content._SPELLED) <= content._MOST_SPELLED


def test_json_of_very_many_parts_stays_as_it_is_written() -> None:
    for count, shown in ((1_000, indented("[" + "1, " * 999 + "1]")), (4_000, "[" + "1, " * 3_999 + "1]")):
        data = b"[" + b"1, " * (count - 1) + b"1]"
        found = content_of(data, len(data))
        assert (found.form, found.text) == ("json", shown)


def test_only_what_cannot_be_seen_is_spelled_out() -> None:
    assert visible("a b\n\tc") == "a b\n\tc"
    assert visible("a\u00a0b\u2028\ue000") == "a<U+00A0>b<U+2028><U+E000>"
    assert visible("é\n") == "é\n"


@pytest.mark.parametrize(
    ("text", "is_any", "is_container"),
    [
        ("{}", True, True),
        (" []", True, True),
        ("1", True, False),
        ("", False, False),
        ("{", False, False),
        ("1" * 5_000, True, False),
        ("[" + "1" * 5_000 + "]", True, True),
    ],
)
def test_json_is_an_object_or_a_list_where_it_must_be(text: str, is_any: bool, is_container: bool) -> None:
    assert is_json(text, must_be_container=False) is is_any
    assert is_json(text, must_be_container=True) is is_container


def test_json_is_indented_by_two_and_its_texts_stay() -> None:
    assert indented('{"a":[1, {"b":"x,\\"{:y"}],"c":{}, "d":[ ]}') == (
        '{\n  "a": [\n    1,\n    {\n      "b": "x,\\"{:y"\n    }\n  ],\n  "c": {},\n  "d": []\n}'
    )
    assert indented('"a\\\\"') == '"a\\\\"'
    assert indented("") == ""


def test_json_is_indented_forty_times_at_most() -> None:
    deep = indented("[" * 50 + "1" + "]" * 50).splitlines()
    assert deep[40] == " " * 80 + "["
    assert max(len(each) - len(each.lstrip()) for each in deep) == 80
    assert deep[50] == " " * 80 + "1"
    assert deep[-1] == "]"


def test_json_of_many_small_parts_is_shown_in_few_steps() -> None:
    data = b"[" + b",".join([b"[]"] * 5_000) + b"]"
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    shown = content_of(data, len(data))
    sys.setprofile(None)
    assert (shown.form, shown.text.count("[]")) == ("json", 5_000)
    assert steps < 80_000, "a page has several of them, and the loop waits for each"
