"""Comparisons of values in JSON: the grammar, which values match, and the one line for a text that is none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.console.json_paths import (
    EVERY,
    MOST_CHARACTERS,
    BadPath,
    PathComparison,
    comparisons_in,
    document_of,
)

FLIGHT = {
    "from": "ZRH",
    "amount": 10,
    "price": 99.5,
    "late": False,
    "gate": None,
    "legs": [{"to": "JFK"}, {"to": "LHR"}],
    "tags": ["night", 7],
    "a name": {"é": 1},
}
OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "contains")


def matches(text: str, document: Any = FLIGHT) -> bool:
    return all(each.matches(document) for each in comparisons_in(text))


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ('$.from == "ZRH"', True),
        ('$.from == "zrh"', False),
        ('$["from"]=="ZRH"', True),
        ('$.from != "ZRH"', False),
        ('$.nowhere != "ZRH"', False),
        ("$.amount == 10.0", True),
        ('$.amount == "10"', False),
        ("$.amount >= 10 and $.amount <= 10", True),
        ("$.amount > 10", False),
        ("$.amount < 1e2", True),
        ('$.amount < "a"', False),
        ('$.from < "a"', True),
        ("$.price > 99 and $.price < 100", True),
        ("$.late == false", True),
        ("$.late == 0", False),
        ("$.late < 1", False),
        ("$.gate == null", True),
        ("$.gate", True),
        ("$.nowhere", False),
        ("$", True),
        ('$.legs[1].to == "LHR"', True),
        ("$.legs[2]", False),
        ('$.legs[*].to == "LHR"', True),
        ('$.legs[*].to == "SYD"', False),
        ('$.legs[*].to != "JFK"', True),
        ('$.from contains "RH"', True),
        ("$.from contains 7", False),
        ('$.tags contains "night"', True),
        ("$.tags contains 7", True),
        ('$.tags contains "nigh"', False),
        ('$["a name"].é == 1', True),
        ('$[*] == "ZRH"', True),
        ("$[0]", False),
        ("$.legs.to", False),
        ('  $.from  ==  "ZRH"  and  $.late  ', True),
    ],
)
def test_a_value_matches_by_its_path_and_kind(text: str, *, is_match: bool) -> None:
    assert matches(text) is is_match


@pytest.mark.parametrize(
    "text",
    [
        "",
        "from",
        "$.",
        "$..a",
        "$.a.",
        "$[",
        "$[a]",
        "$[-1]",
        "$['a']",
        "$.a =",
        "$.a = 1",
        "$.a ==",
        "$.a == ZRH",
        "$.a == 'ZRH'",
        "$.a == 01",
        "$.a == NaN",
        "$.a == [1]",
        '$.a == "x',
        '$.a == "\\x"',
        "$.a == 1 2",
        "$.a == 1 or $.b",
        "$.a and",
        "$.a containsx",
        "$" + ".a" * MOST_CHARACTERS,
    ],
)
def test_a_text_that_is_no_comparison_has_one_clear_line(text: str) -> None:
    with pytest.raises(BadPath) as refused:
        comparisons_in(text)
    line = str(refused.value)
    assert 10 < len(line) < 200
    assert "\n" not in line


@pytest.mark.parametrize(
    "data", [b"", b"plain", b"{", b"\xff", b"NaN", b'{"a": Infinity}', b"[" * 100_000, b"1" * 5000]
)
def test_bytes_that_are_not_json_have_no_document(data: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        document_of(data)


def test_the_bytes_before_a_json_schema_value_are_skipped() -> None:
    assert document_of(b'\x00\x00\x00\x00\x07{"a": 1}') == {"a": 1}
    assert document_of(b'{"a": 1}') == {"a": 1}


STEPS = st.lists(st.one_of(st.just(EVERY), st.integers(0, 999), st.text(max_size=8)), max_size=5).map(tuple)
LITERALS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
COMPARISONS = st.one_of(
    STEPS.map(PathComparison), st.builds(PathComparison, STEPS, st.sampled_from(OPERATORS), LITERALS)
)
DOCUMENTS = st.recursive(
    LITERALS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(st.lists(COMPARISONS, min_size=1, max_size=3).filter(lambda found: len(" and ".join(map(str, found))) < 1000))
def test_what_is_written_is_read_as_it_was(found: list[PathComparison]) -> None:
    read = comparisons_in(" and ".join(map(str, found)))
    assert [repr(each) for each in read] == [repr(each) for each in found]


@given(st.text(alphabet='$.[]*"\\ =!<>andcontis01-', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = comparisons_in(text)
    except BadPath:
        return
    assert comparisons_in(" and ".join(map(str, found))) == found


@given(DOCUMENTS, COMPARISONS)
def test_any_document_matches_or_does_not(document: Any, comparison: PathComparison) -> None:
    assert comparison.matches(document) in (True, False)


@given(DOCUMENTS, COMPARISONS, st.booleans())
def test_a_document_that_matches_has_its_texts(document: Any, comparison: PathComparison, escaped: bool) -> None:
    value = json.dumps(document, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    if comparison.matches(json.loads(value)):
        assert b"\\" in value or all(text in value for text in comparison.texts)


@given(st.dictionaries(st.text(max_size=5), LITERALS, min_size=1), st.data())
def test_each_member_of_an_object_equals_itself(document: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(document)))
    document = json.loads(json.dumps(document))
    assert PathComparison((name,), "==", document[name]).matches(document)
    assert not PathComparison((name,), "!=", document[name]).matches(document)
    assert PathComparison((EVERY,), "==", document[name]).matches(document)
