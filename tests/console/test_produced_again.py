"""Producing a record again: the form has all of it, or says what it cannot have; and the ways to write bytes."""

from collections.abc import Iterator
from typing import Any

import pytest
from console_node import ConsoleNode, console_node
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.console.producing import bytes_in, filled_form, headers_in
from kpybroker.machines.console.record_tasks import found_of
from kpywire.batch import parse_header
from kpywire.record import Record, build_batch

BATCH = parse_header(build_batch([Record()]))


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as made:
        yield made


def form_of(**record: Any) -> Any:
    large = 1 << 30
    found = found_of(2, BATCH, Record(offset=7, **record), large, large, large)
    return filled_form("t", 4, found, may_write=True)


NAMES = st.text(st.characters(exclude_characters="="), min_size=1, max_size=5).filter(lambda each: each.isprintable())
HEADERS = st.lists(st.tuples(NAMES.filter(lambda each: each == each.strip()), st.binary(max_size=9)), max_size=4)
VALUES = st.none() | st.binary() | st.text().map(str.encode)


@given(st.binary(min_size=1) | st.text(min_size=1).map(str.encode), VALUES, HEADERS.map(tuple))
def test_the_form_of_a_record_makes_the_same_record(
    key: bytes, value: bytes | None, headers: tuple[tuple[str, bytes], ...]
) -> None:
    form = form_of(key=key, value=value, headers=headers)
    assert bytes_in(form.key, form.key_as, "key") == key
    assert (None if form.is_null else bytes_in(form.value, form.value_as, "value")) == value
    assert headers_in(form.headers, form.headers_as) == headers
    assert (form.partition, form.source, form.notes) == (2, 7, ())


@given(st.text().map(str.encode) | st.binary())
def test_text_that_a_form_would_alter_is_written_as_base64(value: bytes) -> None:
    form = form_of(key=b"k", value=value)
    if form.value_as == "text":
        assert not set(form.value) & {"\r", "\0", "\u202e"}
        assert form_of(key=value or b"k", value=b"").key_as == (
            "base64" if b"\n" in value or b"\t" in value else "text"
        )


def test_parts_that_the_form_cannot_have_are_named() -> None:
    form = form_of(key=b"", value=b"v", headers=(("a=b", b"1"), ("none", None), ("line\nbreak", b"2"), ("x", b" y ")))
    assert form.notes == (
        "its key is empty; the form makes it null",
        "2 of its headers have names that the form cannot have",
        "a header of it has the value null; the form makes it empty",
    )
    assert (form.headers, form.headers_as) == ("none=\nx=IHkg", "base64")


@pytest.mark.parametrize(
    ("text", "encoding", "line"),
    [
        ("0g", "hex", "no hexadecimal number"),
        ("a", "base64", "not base64"),
        ("?", "base64", "not"),
        ("", "sql", "none of"),
    ],
)
def test_bytes_that_are_not_written_so_are_refused(text: str, encoding: str, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        bytes_in(text, encoding, "value")


@pytest.mark.parametrize(
    ("text", "encoding", "data"),
    [
        ("é", "text", "é".encode()),
        (" 00 ff\n7A", "hex", b"\x00\xff\x7a"),
        ("AP9\n6 ", "base64", b"\x00\xff\x7a"),
        ("", "hex", b""),
    ],
)
def test_bytes_are_written_as_text_hexadecimal_or_base64(text: str, encoding: str, data: bytes) -> None:
    assert bytes_in(text, encoding, "value") == data


def raw(node: ConsoleNode, offset: int, part: str = "value") -> str:
    return node.get("/records/raw", topic="again", partition=0, offset=offset, part=part).text


def test_a_record_is_produced_again_from_its_form(node: ConsoleNode) -> None:
    node.create("again")
    node.produce("again", [Record(timestamp=1, key=b"\x00\x01", value=b"a\r\nb", headers=(("h", b"\x02"),))])
    form = node.get("/api/records/produce", topic="again", partition=0, offset=0).json
    assert (form["key_as"], form["value_as"], form["headers_as"]) == ("base64",) * 3
    names = ("key", "key_as", "value", "value_as", "headers", "headers_as", "partition")
    assert node.post("/topics/again/records", **{name: form[name] for name in names}).status == 200
    first, second = node.get("/api/records", topic="again", start="oldest").json["records"]
    for name in ("key", "value", "headers"):
        assert first[name] == second[name]
    page = node.get("/records/produce", topic="again", partition=0, offset=0).text
    assert "Filled from" in page
    assert '<option value="base64" selected>' in page


def test_line_breaks_of_a_form_are_kept_as_lf_and_those_of_programs_as_sent(node: ConsoleNode) -> None:
    node.create("lines")
    for newlines in ("lf", ""):
        assert node.post("/topics/lines/records", value="a\r\nb", newlines=newlines).status == 200
    found = node.get("/api/records", topic="lines", start="oldest").json["records"]
    assert [each["value"]["bytes"] for each in found] == [3, 4]


def test_a_tombstone_is_produced_again_as_one(node: ConsoleNode) -> None:
    node.create("gone")
    node.produce("gone", [Record(timestamp=1, key=b"k", value=None)])
    form = node.get("/api/records/produce", topic="gone", partition=0, offset=0).json
    assert form["is_null"]
    assert (
        'name="null_value" value="1" checked' in node.get("/records/produce", topic="gone", partition=0, offset=0).text
    )
    assert node.post("/topics/gone/records", key="k", value="", null_value=True).status == 200
    assert node.get("/api/records", topic="gone").json["records"][0]["value"]["form"] == "null"


@pytest.mark.parametrize("values", [{"value_as": "hex", "value": "xyz"}, {"key_as": "base64", "key": "?"}])
def test_a_text_that_is_not_what_it_says_is_refused(node: ConsoleNode, values: dict[str, str]) -> None:
    node.create("refused-" + next(iter(values)).replace("_", "-"))
    reply = node.post("/topics/refused-" + next(iter(values)).replace("_", "-") + "/records", **values)
    assert (reply.status, "is no" in reply.json["error"]) == (400, True)


def test_a_record_that_cannot_be_produced_again_is_refused_in_a_line(node: ConsoleNode) -> None:
    node.create("large")
    node.produce("large", [Record(timestamp=1, value=b"x" * 300_000)])
    reply = node.get("/api/records/produce", topic="large", partition=0, offset=0)
    assert (reply.status, "at most 262144" in reply.json["error"]) == (400, True)
    page = node.get("/records/produce", topic="large", partition=0, offset=0)
    assert (page.status, "download its value instead" in page.text, "<textarea" in page.text) == (400, True, True)
    assert node.get("/api/records/produce", topic="large", partition=0, offset=9).status == 404
    assert node.get("/api/records/produce", topic="none").status == 404
