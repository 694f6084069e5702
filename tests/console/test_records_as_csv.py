"""Records as CSV: what spreadsheets would run is text, bytes are kept, and line breaks stay within a cell."""

import csv
import io
from collections.abc import Iterator

import pytest
from console_node import ConsoleNode, console_node

from kpybroker.machines.console.records_csv import HEADINGS, safe
from kpywire.record import Record

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1", "=cmd|'/C calc'!A0")


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node() as made:
        yield made


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_a_text(text: str) -> None:
    assert safe(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "plain", "1-1", "{}", "ZRH=1"])
def test_other_texts_stay(text: str) -> None:
    assert safe(text) == text


def test_a_page_of_records_is_downloaded_as_csv(node: ConsoleNode) -> None:
    node.create("t")
    records = [
        Record(timestamp=0, key=b"=1+1", value=b'a "quoted",\nvalue;=2', headers=(("h", b"1"), ("h", b"2"))),
        Record(timestamp=1, key=None, value=b"\xff\xfe"),
        Record(timestamp=2, key=b"", value=b'{"a":  1}'),
        Record(timestamp=3, key=b"k", value=b"x" * 20_000),
    ]
    node.produce("t", records)
    reply = node.get("/records/csv", topic="t", start="oldest")
    assert reply.headers["content-disposition"] == 'attachment; filename="t.csv"'
    first, second, third, fourth = rows_of(reply.text)
    assert tuple(first) == HEADINGS
    assert (first["partition"], first["offset"], first["time"]) == ("0", "0", "1970-01-01 00:00:00.000Z")
    assert (first["key"], first["key_form"], first["value"]) == ("'=1+1", "text", 'a "quoted",\nvalue;=2')
    assert first["headers"] == '[["h", "1"], ["h", "2"]]'
    assert (second["key"], second["key_form"], second["value"], second["value_form"]) == ("", "null", "//4=", "base64")
    assert (third["key_form"], third["value"], third["value_form"]) == ("empty", '{"a":  1}', "json")
    assert (fourth["value_form"], fourth["value_bytes"]) == ("text, cut", "20000")
    assert all(line.startswith('"') for line in reply.text.splitlines()[:2]), "each cell is quoted"
    filtered = rows_of(node.get("/records/csv", topic="t", key="k").text)
    assert [each["offset"] for each in filtered] == ["3"]


def test_a_query_that_is_refused_is_no_file(node: ConsoleNode) -> None:
    node.create("u")
    reply = node.get("/records/csv", topic="u", json="$.a = 1")
    assert (reply.status, "content-disposition" in reply.headers) == (400, False)
