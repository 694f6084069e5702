"""How commands print: tables, sizes, durations, progress, records in kcat's and rpk's formats."""

import pytest

from kpybroker.cli.progress import progress_text
from kpybroker.cli.record_format import formatter, simple_layout
from kpybroker.cli.tables import bytes_text, columns, duration_text, plural, width_of
from kpybroker.client.client import Spot
from kpybroker.client.reader import ReadRecord
from kpywire.aborted import Aborted
from kpywire.batch import BatchHeader, parse_header
from kpywire.record import Record, build_batch


def test_numbers_stand_to_the_right_also_beside_missing_ones() -> None:
    assert columns(("NAME", "COUNT"), [("a", 5), ("bb", "-"), ("c", 1000)]) == (
        "NAME  COUNT\na         5\nbb        -\nc      1000"
    )


def test_words_stand_to_the_left_and_lines_end_without_spaces() -> None:
    assert columns(("A", "B"), [("x", ""), ("yy", "z")]) == "A   B\nx\nyy  z"


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("plain", 5),
        ("größe", 5),
        ("gro\u0308ße", 5),
        ("住所", 4),
        ("주소", 4),
        ("\u1112\u1161\u11ab", 2),
        ("ｱﾄﾞﾚｽ", 5),
        ("ＡＢ", 4),
        ("👍", 2),
        ("👍🏽", 2),
        ("❤", 1),
        ("❤\ufe0f", 2),
        ("👩\u200d🚀", 2),
        ("🇨🇭", 2),
        ("नी", 2),
    ],
)
def test_letters_take_the_columns_that_a_terminal_gives_them(text: str, width: int) -> None:
    assert width_of(text) == width


def test_columns_are_aligned_behind_wide_letters() -> None:
    table = columns(("NAME", "KIND", "COUNT"), [("住所", "👍🏽", 5), ("a", "gro\u0308ße", 1000)]).splitlines()
    assert table == ["NAME  KIND   COUNT", "住所  👍🏽         5", "a     gro\u0308ße   1000"]
    assert {width_of(line) for line in table} == {18}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1023 * 1024, "1023 KiB"),
        (5 << 30, "5 GiB"),
        (3 << 50, "3072 TiB"),
    ],
)
def test_sizes_are_short(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (61_000, "1 min 1 s"),
        (7_200_000, "2 h"),
        (90_061_000, "1 d 1 h"),
        (3_601_000, "1 h"),
    ],
)
def test_durations_have_their_two_largest_units(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_progress_says_what_is_left() -> None:
    assert progress_text("Read", "byte", 25, 100, 5.0) == "Read 25 of 100 bytes (25 %), 5 a second, 15 s to go"
    assert progress_text("Sent", "record", 9, 0, 3.0) == "Sent 9 records, 3 a second"
    assert progress_text("Sent", "record", 0, 10, 0.0) == "Sent 0 of 10 records (0 %), 0 a second"
    assert (plural(1, "record"), plural(0, "record")) == ("1 record", "0 records")


def found(key: bytes | None, value: bytes | None) -> ReadRecord:
    return ReadRecord(Spot("t", 1), Record(offset=2, timestamp=3, key=key, value=value))


def test_a_null_value_is_shown_differently_from_an_empty_one() -> None:
    assert formatter("%k|%v|%s", null=b"NULL")(found(None, b"")) == b"NULL||"
    assert formatter("%k|%v")(found(None, b"")) == b"|"


def test_lengths_come_as_text_and_as_bytes() -> None:
    assert formatter("%S %R")(found(None, b"12345")) == b"5 \0\0\0\x05"
    assert formatter("%R")(found(None, None)) == b"\xff\xff\xff\xff"


def test_a_time_can_be_a_date() -> None:
    year = formatter("%d{strftime[%Y]} %d")
    assert year(ReadRecord(Spot("t", 0), Record(timestamp=1_700_000_000_000))) == b"2023 1700000000000"
    assert year(ReadRecord(Spot("t", 0), Record())) == b" -1"


def test_names_cannot_move_the_cursor() -> None:
    assert columns(("NAME",), [("a\x1b[2Jb\nc",)]) == "NAME\na\\x1b[2Jb\\nc"
    assert columns(("NAME",), [("a\u202eb",)]) == "NAME\na\\u202eb"


def batch(producer_id: int, base_offset: int, count: int = 1, *, transactional: bool = True) -> BatchHeader:
    data = build_batch(
        [Record(timestamp=0)] * count,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )
    return parse_header(data)


def test_records_of_aborted_transactions_are_marked_up_to_their_marker() -> None:
    aborted = Aborted([(20, 7), (3, 7), (5, 8)])
    assert not aborted.covers(batch(7, 0, 2))
    assert aborted.covers(batch(7, 3))
    assert not aborted.covers(batch(8, 4))
    assert aborted.covers(batch(8, 5))
    assert not aborted.covers(batch(7, 6, transactional=False))
    aborted.ends(7)
    assert not aborted.covers(batch(7, 10))
    assert aborted.covers(batch(7, 19, 4))


@pytest.mark.parametrize("delimiter", [":", "%", "\\", "%s", "\t"])
def test_a_key_delimiter_is_printed_as_it_is(delimiter: str) -> None:
    assert formatter(simple_layout(delimiter))(found(b"k", b"v")) == f"k{delimiter}v\n".encode()
    assert formatter(simple_layout(None))(found(b"k", b"v")) == b"v\n"
