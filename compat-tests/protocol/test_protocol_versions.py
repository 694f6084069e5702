"""Every API at every version that ApiVersions promises is answered, and what it does not promise is not."""

import struct

import pytest

from differential.error_paths import first_of_its_paths
from kpywire import api, error_codes
from kpywire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kpywire.messages.metadata import MetadataRequest
from support.plausible_requests import plausible
from support.raw_client import RawClient


def advertised(raw: RawClient) -> dict[int, tuple[int, int]]:
    response = raw.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    assert response.error_code == error_codes.NONE
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}


def test_every_promised_version_is_answered(raw: RawClient, topic: str, target: str) -> None:
    unknown = []
    for key, (first, last) in advertised(raw).items():
        first = max(first, api.API_KEYS[key].min_version)
        last = min(last, api.API_KEYS[key].max_version)
        for version in range(first, last + 1):
            request = plausible(key, version, topic) or first_of_its_paths(key, version)
            if request is None:
                unknown.append(key)
                continue
            try:
                raw.call(request, version)
            except Exception as error:
                pytest.fail(f"{api.API_KEYS[key].name} version {version}: {error!r}")
    if target == "kpybroker":
        assert not unknown, f"keys that are advertised without a request here: {sorted(set(unknown))}"


def test_produce_is_advertised_from_zero(raw: RawClient) -> None:
    assert advertised(raw)[api.PRODUCE][0] == 0


def test_the_advertised_versions_are_kafkas(raw: RawClient, in_zookeeper_mode: bool) -> None:
    if in_zookeeper_mode:
        newest = {key: last for key, (_, last) in advertised(raw).items()}
        assert {**newest, api.ENVELOPE: 0} == raw.newest
        return
    for key, (first, last) in advertised(raw).items():
        entry = api.API_KEYS[key]
        assert (0 if key == api.PRODUCE else entry.min_version, entry.max_version) == (first, last), entry.name


@pytest.mark.parametrize("version", [6, 9, 32767])
def test_an_unknown_api_versions_version_is_answered_in_version_zero(raw: RawClient, version: int) -> None:
    body = struct.pack(">hhih", api.API_VERSIONS, version, 77, -1) + b"\0whatever a future version puts here"
    raw.sock.sendall(struct.pack(">i", len(body)) + body)
    response: ApiVersionsResponse = raw.receive(api.API_VERSIONS, 0)
    assert raw.received_id == 77
    assert response.error_code == error_codes.UNSUPPORTED_VERSION
    assert [entry.api_key for entry in response.api_keys] == [api.API_VERSIONS]
    assert advertised(raw)


@pytest.mark.parametrize("name", ["", "with space", "trailing-", "ünicode"])
def test_an_invalid_client_software_name_is_refused(raw: RawClient, name: str) -> None:
    response = raw.call(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
    assert response.error_code == error_codes.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "version"),
    [(0, 2), (0, 14), (1, 3), (1, 19), (3, 14), (4, 0), (5, 0), (93, 0), (500, 0), (-1, 0), (52, 0)],
)
def test_an_unserved_api_version_closes_the_connection(raw: RawClient, key: int, version: int) -> None:
    body = struct.pack(">hhih", key, version, 1, -1) + bytes(50)
    raw.sock.sendall(struct.pack(">i", len(body)) + body)
    assert raw.is_closed()


def test_a_pipelined_request_behind_api_versions_is_answered(raw: RawClient) -> None:
    raw.send(ApiVersionsRequest(), 0)
    raw.send(MetadataRequest(topics=[]), 0)
    assert raw.receive(api.API_VERSIONS, 0).error_code == 0
    assert raw.receive(api.METADATA, 0).brokers
