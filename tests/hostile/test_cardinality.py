"""Every array of every API with as many elements as fit into a frame, and clients with as many names: all answered or
refused, while an honest client is served.
"""

import struct

import pytest
from attacker import Attacker, create_topic
from swollen import Array, Filling, arrays, swollen
from watched import PATIENCE_S, WatchedBroker

from kpybroker.requests.handlers import served_versions
from kpywire import api
from kpywire.messages.metadata import MetadataRequest

TOPIC = "cardinality"
FRAME_BYTES = 50_000
"""The bytes of each request and round."""
KINDS = (0, 2, 4, 32)
"""Resource types among others: topics, brokers, groups."""


@pytest.fixture(scope="module", autouse=True)
def _topic(broker: WatchedBroker) -> None:
    with Attacker(broker.port) as client:
        create_topic(client, TOPIC, 10)


def widest(key: int, version: int, array: Array, filling: Filling, size: int) -> bytes:
    """A request of about this number of bytes."""
    hundred, none = (len(swollen(key, version, array, count, filling)) for count in (100, 0))
    return swollen(key, version, array, max(1, 100 * size // max(100, hundred - none)), filling)


@pytest.mark.parametrize("key", sorted(served_versions()), ids=lambda key: api.API_KEYS[key].name)
def test_arrays_as_long_as_they_get_are_answered_or_refused(target: WatchedBroker, key: int, rounds: int) -> None:
    version = api.API_KEYS[key].max_version
    found = list(arrays(api.request_class(key), version))
    kinds = KINDS if key in (api.DESCRIBE_CONFIGS, api.ALTER_CONFIGS, api.INCREMENTAL_ALTER_CONFIGS) else (0,)
    for array in found:
        for filling in (Filling(TOPIC, distinct, kind) for distinct in (True, False) for kind in kinds):
            payload = widest(key, version, array, filling, FRAME_BYTES * rounds)
            with Attacker(target.port, timeout_s=4 * PATIENCE_S) as client:
                client.send_frame(payload)
                client.drain()
    assert target.is_alive


def test_clients_with_ten_thousand_names_leave_nothing_behind(target: WatchedBroker) -> None:
    before = target.memory_bytes()
    for number in range(10_000):
        with Attacker(target.port, client_id=f"client-{number:05}-" + "x" * 1000) as client:
            client.send(MetadataRequest(topics=[]), 9)
            (size,) = struct.unpack(">i", client._read(4))
            client._read(size)
    assert target.memory_bytes() - before < 16 * 1024 * 1024
