"""Variable-length integers: Java's bytes, Java's widths, Java's limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire.errors import Malformed
from kpywire.varint import (
    as_int64,
    decode_unsigned_varint,
    decode_unsigned_varlong,
    decode_varint,
    decode_varlong,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_32_bits_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 5
    assert decode_varint(b"\xff" + encoded + b"\xff", 1) == (value, 1 + len(encoded))
    assert decode_varlong(encoded, 0) == (value, len(encoded))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_64_bits_round_trip(value: int) -> None:
    encoded = encode_varlong(value)
    assert len(encoded) <= 10
    assert decode_varlong(memoryview(encoded), 0) == (value, len(encoded))


@given(st.integers(0, (1 << 32) - 1))
def test_unsigned_integers_round_trip(value: int) -> None:
    encoded = encode_unsigned_varint(value)
    assert decode_unsigned_varint(encoded, 0) == (value, len(encoded))
    assert decode_unsigned_varlong(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (300, "d804"),
        ((1 << 31) - 1, "feffffff0f"),
    ],
)
def test_the_bytes_are_zigzag_groups_of_seven_bits(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "ffffffffff01"])
def test_32_bits_that_are_cut_off_or_too_long_are_malformed(encoded: str) -> None:
    with pytest.raises(Malformed):
        decode_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["", "80", "ffffffffffffffffff", "8080808080808080808001"])
def test_64_bits_that_are_cut_off_or_too_long_are_malformed(encoded: str) -> None:
    with pytest.raises(Malformed):
        decode_varlong(bytes.fromhex(encoded), 0)


def test_bits_beyond_the_width_are_dropped() -> None:
    assert decode_unsigned_varint(b"\xff\xff\xff\xff\x7f", 0) == ((1 << 32) - 1, 5)
    assert decode_unsigned_varlong(b"\xff" * 9 + b"\x7f", 0) == ((1 << 64) - 1, 10)


@given(st.integers(-(1 << 70), 1 << 70))
def test_sums_wrap_at_64_bits(value: int) -> None:
    wrapped = as_int64(value)
    assert -(1 << 63) <= wrapped < 1 << 63
    assert (wrapped - value) % (1 << 64) == 0
