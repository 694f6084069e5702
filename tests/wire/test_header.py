"""Headers, written by hand for speed, are those that the declarations say; any bytes decode or are Malformed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire import codec
from kpywire.api import API_KEYS, API_VERSIONS, CONTROLLED_SHUTDOWN, FETCH, METADATA, PRODUCE
from kpywire.errors import Malformed
from kpywire.header import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    request_header_version,
    response_header_version,
)
from kpywire.messages.request_header import RequestHeader
from kpywire.messages.response_header import ResponseHeader

i32 = st.integers(-(2**31), 2**31 - 1)
apis = st.sampled_from([(key, version) for key, api in API_KEYS.items() for version in range(api.max_version + 1)])
client_ids = st.none() | st.text(st.characters(codec="utf-8"), max_size=200)


@given(apis, i32, client_ids)
def test_request_headers_are_those_of_their_declaration(
    api: tuple[int, int], correlation_id: int, client_id: str | None
) -> None:
    key, version = api
    declared = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    expected = codec.encode(declared, request_header_version(key, version))
    assert encode_request_header(key, version, correlation_id, client_id) == expected
    for buffer in (b"size" + expected + b"body", memoryview(bytearray(b"size" + expected + b"body"))):
        decoded = decode_request_header(buffer, 4)
        assert decoded == (key, version, correlation_id, client_id, 4 + len(expected))
        assert decoded.client_id == client_id


@given(apis, i32)
def test_response_headers_are_those_of_their_declaration(api: tuple[int, int], correlation_id: int) -> None:
    expected = codec.encode(ResponseHeader(correlation_id=correlation_id), response_header_version(*api))
    assert encode_response_header(*api, correlation_id) == expected
    assert decode_response_header(*api, b"size" + expected, 4) == (correlation_id, 4 + len(expected))


@given(st.binary(max_size=100) | apis.flatmap(lambda api: st.binary().map(encode_request_header(*api, 1, "").__add__)))
def test_any_bytes_are_a_header_or_malformed(data: bytes) -> None:
    try:
        header = decode_request_header(data)
    except Malformed:
        return
    assert header.end <= len(data)


def test_a_header_cut_anywhere_is_malformed() -> None:
    for key, version in ((PRODUCE, 3), (FETCH, 17)):
        whole = encode_request_header(key, version, 7, "client")
        for length in range(len(whole)):
            with pytest.raises(Malformed):
                decode_request_header(whole[:length])
    for length in range(5):
        with pytest.raises(Malformed):
            decode_response_header(FETCH, 17, bytes(length))


def test_api_versions_answers_without_tagged_fields() -> None:
    assert [response_header_version(API_VERSIONS, version) for version in range(5)] == [0] * 5
    assert [request_header_version(API_VERSIONS, version) for version in range(5)] == [1, 1, 1, 2, 2]
    assert response_header_version(METADATA, 9) == 1


def test_an_api_that_kafka_has_not_still_has_a_correlation_id() -> None:
    for key in (CONTROLLED_SHUTDOWN, 999, -1):
        assert decode_request_header(encode_request_header(key, 99, 7, "c")).correlation_id == 7


def test_tagged_fields_of_a_header_are_skipped_up_to_a_number() -> None:
    def header(fields: int) -> bytes:
        tags = b"".join(bytes((tag, 1, 0)) for tag in range(min(fields, 0x80)))
        return encode_request_header(METADATA, 12, 7, None)[:-1] + bytes((fields,)) + tags + b"\0"

    assert decode_request_header(header(0x7F)).end == 11 + 3 * 0x7F
    with pytest.raises(Malformed, match="too many"):
        decode_request_header(header(0x80))


def test_a_client_id_that_is_too_long_is_refused() -> None:
    assert len(encode_request_header(PRODUCE, 3, 1, "c" * 0x7FFF)) == 10 + 0x7FFF
    with pytest.raises(ValueError, match="client id"):
        encode_request_header(PRODUCE, 3, 1, "c" * 0x8000)
