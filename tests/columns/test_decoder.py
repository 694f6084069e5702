"""Record batches to Arrow: the rows are the records that kpywire reads."""

import pytest

from kpywire.aborted import Aborted
from kpywire.columns.decoder import Decoder, Place
from kpywire.columns.schema import PLAIN, schema_of
from kpywire.errors import Malformed
from kpywire.record import Record, build_batch

HERE = Place("t", 3)


def test_every_column_has_what_was_written() -> None:
    batch = build_batch([Record(-1, 5, b"k", b"v", (("h", b"1"), ("n", None))), Record(-1, 7)], base_offset=40)
    decoder = Decoder(HERE, [*PLAIN, "headers"])
    decoder.add(batch, Aborted())
    first, second = decoder.take().to_pylist()
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert [first[name] for name in ("key", "value", "topic", "partition", "offset", "timestampType")] == [
        b"k", b"v", "t", 3, 40, 0,
    ]  # fmt: skip
    assert (second["key"], second["value"], second["headers"], second["offset"]) == (None, None, None, 41)
    assert (first["timestamp"].timestamp(), second["timestamp"].timestamp()) == (0.005, 0.007)


def test_only_wanted_offsets_and_columns_are_rows() -> None:
    batch = build_batch([Record(value=b"%d" % n) for n in range(9)], base_offset=100)
    decoder = Decoder(HERE, ["value"], start_offset=103, end_offset=105)
    decoder.add(batch, Aborted())
    taken = decoder.take()
    assert taken.schema == schema_of(["value"])
    assert taken.to_pylist() == [{"value": b"3"}, {"value": b"4"}]
    assert decoder.next_offset == 109


def test_a_damaged_batch_is_malformed() -> None:
    batch = bytearray(build_batch([Record(value=b"v" * 50)]))
    batch[-7] ^= 1
    with pytest.raises(Malformed, match="offset 0 has a wrong CRC"):
        Decoder(HERE, PLAIN).add(batch, Aborted())
