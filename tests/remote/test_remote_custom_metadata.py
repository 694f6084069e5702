"""The custom metadata of records: fields that are there are read back, other bytes are refused in one line."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpystorage.errors import CorruptObject
from kpystorage.remote.custom_metadata import CustomMetadata, decode, encode

fields = st.builds(
    CustomMetadata,
    st.none() | st.integers(0, 2**63 - 1),
    st.none() | st.text(max_size=200),
    st.none() | st.text(max_size=200),
    st.none() | st.integers(0, 2**63 - 1),
)


@given(fields)
def test_fields_are_read_back(metadata: CustomMetadata) -> None:
    assert decode(encode(metadata)) == metadata


def test_no_field_takes_no_bytes() -> None:
    assert encode(CustomMetadata()) == b""
    assert decode(b"") == decode(None) == CustomMetadata()


def test_a_field_that_is_not_known_is_left_out() -> None:
    assert decode(b"\x02\x00\x01\x0a\x07\x02xy") == CustomMetadata(remote_size=5)


@pytest.mark.parametrize(
    "data",
    [
        b"\x01",
        b"\x01\x00\x05\x0a",
        b"\x01\x00\x01\x0a!",
        b"\x02\x02\x02\x02a\x01\x02\x02a",
        b"\x02\x00\x01\x0a\x00\x01\x0a",
        b"\xff\xff\xff\xff\x0f",
        b"\x01\x00\x01\x09",
        b"\x01\x00\x02\x0a\x00",
        b"\x01\x01\x02\x05a",
        b"\x01\x01\x01\x00",
        b"\x01\x01\x02\x02\xff",
        b"\x01\x01\xff\xff\xff\xff\x07",
    ],
)
def test_bytes_that_are_none_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(CorruptObject) as refused:
        decode(data)
    assert "\n" not in str(refused.value)


@given(st.binary(max_size=40))
def test_any_bytes_are_fields_or_refused(data: bytes) -> None:
    with suppress(CorruptObject):
        decode(data)
