"""JSON parsed by Arrow at once gives the rows and dead letters that documents read one by one give."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kpybroker.pipeline.lake import json_values
from kpybroker.pipeline.lake.json_values import JsonValues
from kpybroker.pipeline.lake.tables import BYTES, FACTS
from kpybroker.pipeline.lake.values import Sorted

COLUMNS = [("n", pa.int64()), ("d", pa.float64()), ("s", pa.string()), ("b", pa.bool_()), ("s__str", pa.string())]
TABLE = pa.schema([*FACTS, *COLUMNS])
NUMBERS = [
    "0", "-0", "1", "-1", "01", "+1", "1.", ".5", "1.0", "-0.0", "0.1", "1e2", "1E400", "1e-400", "4e-324", "NaN",
    "Infinity", "-Infinity", "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "179769313486231580793728971405301e277", "0.30000000000000004", "123456789012345678901234567890",
]  # fmt: skip
STRINGS = [
    '""', '"x"', '"é😀"', r'"\u0041\n\"\\\/"', r'"\u0000"', r'"\ud83d\ude00"', r'"\ud83d"', r'"\ude00"', '"a\tb"',
    '"\x7f"', r'"\x"', '"1"', '"null"', '"\N{BYTE ORDER MARK}"',
]  # fmt: skip
OTHERS = ["true", "false", "null", "nul", "{}", '{"n":1}', "[]", "[1]", ""]
NAMES = ["n", "d", "s", "b", "s__str", "other", "N", "_offset", r"\u006e", ""]
WHOLE = [
    b"", b" ", b"{}", b"{}{}", b"{} {}", b"{}}", b"{", b"null", b"[]", b"1", b'"n"', b"{},{}", b"\xef\xbb\xbf{}",
    b"{}\x00", b'{"s":"\xff"}', b'\n{"n":\n1}\r\t', b'\x0b{"n":1}', b'\x0c{"n":1}', b'{"n":1},"x":1', b'{"n":1}//',
    b'{"n":1,}', b"{'n':1}", b"{}null{}", b"{}\nnull\n{}", b'{"s":"}null{"}', b'{"s":"\\"}null{"}',
    b'{"s":"\\', b'{"s":"\\\n"}', b'{"s":{', b'{"s":' * 50_000, b'{"other":' + b"[" * 50_000,
    b'{"s":"' + b"\\n" * 50_000,
]  # fmt: skip

fitting = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "d": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(1 << 54), 1 << 54),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        "b": st.none() | st.booleans(),
    },
).map(lambda document: json.dumps(document).encode())
fields = st.tuples(st.sampled_from(NAMES), st.sampled_from(NUMBERS + STRINGS + OTHERS))
odd = st.lists(fields, max_size=3).map(lambda found: "{" + ",".join(f'"{name}":{text}' for name, text in found) + "}")
values = st.lists(fitting | odd.map(str.encode) | st.sampled_from(WHOLE) | st.binary(max_size=8), max_size=9)


def raw_of(found: list[bytes]) -> pa.Table:
    count = len(found)
    return pa.table([["id"] * count, [0] * count, list(range(count)), [0] * count, [None] * count, found], schema=BYTES)


def as_text(found: Sorted) -> str:
    """All of it as text, in which -0.0 is not 0.0."""
    return repr([(each.schema, each.to_pylist()) for each in found])


def both(found: list[bytes]) -> tuple[str, str]:
    raw = raw_of(found)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_values, "MOST_AT_ONCE", 3)
        patched.setattr(json_values, "LEAST_AT_ONCE", 1)
        at_once = as_text(JsonValues().columns(raw, TABLE))
        patched.setattr(json_values, "_at_once", lambda _raw, _columns: None)
        return at_once, as_text(JsonValues().columns(raw, TABLE))


@given(values)
@example([b'{"n":1}', b"{}{}", b""])
@example([b'{"other":1}', b'{"n":1}', b'{"n":2,"other":"x"}'])
@example([b"1", b"2", b"3", b"4", b'{"n":5}', b"6", b"7", b'{"n":8}', b'{"n":9}'])
@settings(max_examples=500, deadline=None)
def test_rows_and_dead_letters_are_those_of_documents_read_one_by_one(found: list[bytes]) -> None:
    at_once, one_by_one = both(found)
    assert at_once == one_by_one


@pytest.mark.parametrize("name", ["n", "d", "s", "b"])
def test_each_odd_value_of_each_column_is_read_as_python_reads_it(name: str) -> None:
    for text in NUMBERS + STRINGS + OTHERS:
        for document in (f'{{"{name}":{text}}}', f'{{"{name}":{text},"{name}":{text}}}'):
            at_once, one_by_one = both([b'{"n":7}', document.encode(), b"{}"])
            assert at_once == one_by_one, document


@pytest.mark.parametrize("value", WHOLE, ids=lambda value: repr(value[:40]))
def test_each_odd_document_is_read_as_python_reads_it(value: bytes) -> None:
    for found in ([value], [b'{"n":1}', value, b'{"s":"x"}'], [value, b"", value], [b"", value]):
        at_once, one_by_one = both(found)
        assert at_once == one_by_one


def test_documents_that_fit_pass_no_parser_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    one_by_one = json_values.document_of

    def noted(value: bytes) -> Any:
        read.append(value)
        return one_by_one(value)

    monkeypatch.setattr(json_values, "document_of", noted)
    found = [b'{"n": %d, "d": 0.5, "s": "x", "b": true}' % number for number in range(10_000)]
    rows, dead = JsonValues().columns(raw_of(found), TABLE)
    assert rows["n"].to_pylist() == list(range(10_000))
    assert rows.column_names == TABLE.names
    assert (dead.num_rows, read) == (0, [])
    found[5_000] = b"junk"
    rows, dead = JsonValues().columns(raw_of(found), TABLE)
    assert (rows.num_rows, dead.num_rows) == (9_999, 1)
    assert 0 < len(read) <= json_values.LEAST_AT_ONCE
