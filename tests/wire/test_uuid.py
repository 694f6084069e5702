"""UUIDs as Kafka writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire.uuid import ONE_UUID, ZERO_UUID, from_string, is_reserved, random_uuid, to_string, usable

uuids = st.binary(min_size=16, max_size=16)


@given(uuids)
def test_a_uuid_survives_its_text(value: bytes) -> None:
    text = to_string(value)
    assert len(text) == 22
    assert from_string(text) == value
    assert from_string(text + "==") == value


def test_reserved_uuids_have_kafkas_text() -> None:
    assert to_string(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert to_string(ONE_UUID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert is_reserved(ONE_UUID)
    assert not is_reserved((100).to_bytes(16, "big"))


@given(st.text(max_size=30))
def test_other_text_is_refused(text: str) -> None:
    try:
        value = from_string(text)
    except ValueError:
        return
    assert len(value) == 16
    assert to_string(value)[:21] == text[:21]


@pytest.mark.parametrize(
    "text", ["", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA=", "A+AAAAAAAAAAAAAAAAAAAA", "A" * 100]
)
def test_uuids_that_kafka_refuses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a UUID"):
        from_string(text)


@given(uuids)
def test_random_uuids_are_of_version_4(value: bytes) -> None:
    made = random_uuid(value)
    assert (made[6] >> 4, made[8] >> 6) == (4, 2)
    assert usable(made) == (not to_string(made).startswith("-"))


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_uuid_has_16_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="16"):
        to_string(bytes(size))
    with pytest.raises(ValueError, match="16"):
        random_uuid(bytes(size))
