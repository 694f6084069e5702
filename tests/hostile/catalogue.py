"""A request of every API at every version the broker advertises: the raw material of the mutations."""

from random import Random
from typing import NamedTuple

from attacker import Attacker

from kpywire import api
from kpywire.codec import encode
from kpywire.header import encode_request_header
from kpywire.messages.api_versions import ApiVersionsRequest
from support.plausible_requests import plausible
from tests.wire.message_values import random_message

CORRELATION_ID = 0x11223344
NO_SUCH_NODE = 1 << 30
UNKNOWN_ID = bytes(range(16))
"""The topic id of the plausible requests."""


class Specimen(NamedTuple):
    """One request as it goes into a frame."""

    key: int
    version: int
    payload: bytes

    def __str__(self) -> str:
        return f"{api.API_KEYS[self.key].name} v{self.version}"


def advertised(port: int) -> list[tuple[int, int]]:
    """(api key, version) of everything that is served."""
    with Attacker(port) as client:
        keys = client.call(ApiVersionsRequest(), 0).api_keys
    served = []
    for entry in keys:
        first = max(entry.min_version, api.API_KEYS[entry.api_key].min_version)
        served += [(entry.api_key, version) for version in range(first, entry.max_version + 1)]
    return served


def ordinary(key: int, version: int, topic: str, topic_id: bytes) -> Specimen:
    """A request that an ordinary client might send; a topic that goes by its id is the one that there is."""
    request = plausible(key, version, topic)
    if request is None:  # nobody has written one, but one can be made
        request = random_message(api.request_class(key), version, Random(version), size=1)
    body = encode(request, version).replace(UNKNOWN_ID, topic_id)
    return Specimen(key, version, _header(key, version) + body)


def arbitrary(key: int, version: int, rng: Random) -> Specimen:
    """A request that can be decoded, and whose fields hold edges of their types and odd texts."""
    request = random_message(api.request_class(key), version, rng)
    if key == api.UNREGISTER_BROKER:
        request.broker_id |= NO_SUCH_NODE  # the broker itself would leave, as it is asked to, and its clients with it
    return Specimen(key, version, _header(key, version) + encode(request, version))


def _header(key: int, version: int) -> bytes:
    return encode_request_header(key, version, CORRELATION_ID, "hostile")
