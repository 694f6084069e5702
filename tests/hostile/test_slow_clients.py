"""Clients that do not read, do not finish, do not wait, or are gone: they cost little, and nobody waits for them."""

import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attacker import Attacker, create_topic, produce, produce_request
from watched import WatchedBroker

from kpywire import api, error_codes
from kpywire.batch import batch_headers, check_crc
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest
from kpywire.record import Record, build_batch
from support.waiting import eventually

MIB = 1024 * 1024
TOPIC = "large"
LARGE_BYTES = 96 * MIB
FETCH_VERSION = 12
FOR_EVER_MS = 2**31 - 1


@pytest.fixture(scope="module", autouse=True)
def _large(broker: WatchedBroker) -> None:
    """A log much larger than what may be resident, and most of it far from its end."""
    with Attacker(broker.port) as client:
        create_topic(client, TOPIC)
        batch = build_batch([Record(timestamp=int(time.time() * 1000), value=os.urandom(1_000_000))])
        for _ in range(LARGE_BYTES // len(batch)):
            assert produce(client, TOPIC, batch).error_code == error_codes.NONE


def fetch_from(offset: int, *, max_wait_ms: int = 0, min_bytes: int = 0, topic: str = TOPIC) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=LARGE_BYTES)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )


@contextmanager
def crowd(target: WatchedBroker, count: int) -> Iterator[list[Attacker]]:
    """Many connections, which end with a reset."""
    clients = [Attacker(target.port) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.vanish()


def test_unread_records_are_not_copied_into_memory(target: WatchedBroker) -> None:
    before, files = target.memory_bytes(), target.descriptors()
    target.forget_peak()
    with crowd(target, 150) as clients:
        for number, client in enumerate(clients):
            client.send(fetch_from(number % 50), FETCH_VERSION)
        with Attacker(target.port) as probe:
            assert probe.drain()
        time.sleep(0.5)
        assert target.peak_memory_bytes() - before < 100 * MIB
        assert target.descriptors() - files < 150 + 64
        # One of them begins to read after all, and gets all of it.
        answer = clients[7].receive(api.FETCH, FETCH_VERSION).responses[0].partitions[0]
        data = bytes(answer.records)
        assert len(data) > 40 * MIB
        headers = list(batch_headers(data))
        assert [header.base_offset for _, header in headers] == list(range(7, 7 + len(headers)))
        assert all(check_crc(data, header, position) for position, header in headers)


def test_unread_answers_in_memory_are_dropped_in_time(target: WatchedBroker) -> None:
    everything = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[everything] * 150, include_synonyms=True, include_documentation=True)
    position = target.log_position()
    with crowd(target, 40) as clients:
        for client in clients:
            client.send(request, 4)
        eventually(lambda: "does not read" in str(target.log_since(position)), "the slowest is given up")
        with Attacker(target.port) as reading:
            assert len(reading.call(request, 4).results) == 150


@pytest.mark.parametrize("reading", [True, False], ids=["read", "not read"])
def test_a_hundred_thousand_pipelined_requests(target: WatchedBroker, reading: bool) -> None:
    count = 100_000
    before = target.memory_bytes()
    target.forget_peak()
    with Attacker(target.port) as client:
        asked = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        request = client.frame(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
        stream = bytearray(request * count)
        for number in range(count):
            struct.pack_into(">i", stream, number * len(request) + 8, number)
        if not reading:
            client.sock.settimeout(1)  # the sender gives up then
        sender = threading.Thread(target=_send_all, args=(client, bytes(stream)))
        sender.start()
        if reading:
            for number in range(count):
                client.receive(api.LIST_OFFSETS, 7)
                assert client.received_id == number
        else:
            sender.join()
            client.vanish()
        sender.join()
    assert target.peak_memory_bytes() - before < 32 * MIB


def _send_all(client: Attacker, data: bytes) -> None:
    try:
        client.sock.sendall(data)
    except OSError:
        return  # the broker does not read on, and the test ends the connection


def test_a_hundred_thousand_produce_requests_without_acknowledgement_are_all_appended(target: WatchedBroker) -> None:
    batch = build_batch([Record(timestamp=int(time.time() * 1000), value=b"x")])
    with Attacker(target.port) as client:
        create_topic(client, "acks-0")
        frame = client.frame(produce_request("acks-0", batch, acks=0), 9)
        for _ in range(100):
            client.sock.sendall(frame * 1000)
        asked = ListOffsetsTopic(name="acks-0", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        client.sock.settimeout(120)
        answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
        assert answer.topics[0].partitions[0].offset == 100_000


def test_a_client_that_disconnects_during_a_parked_fetch_leaves_nothing_behind(target: WatchedBroker) -> None:
    batch = build_batch([Record(timestamp=int(time.time() * 1000), value=b"x")])
    sockets = target.sockets()
    with crowd(target, 100) as clients:
        end = produce(clients[0], TOPIC, batch).base_offset + 1
        for client in clients:
            client.send(fetch_from(end, max_wait_ms=FOR_EVER_MS, min_bytes=1), FETCH_VERSION)
        with Attacker(target.port) as probe:
            for _ in range(3):
                # What is pipelined behind a parked fetch waits, first in the broker, then in the socket.
                assert probe.drain()
                for client in clients[::2]:
                    client.sock.sendall(client.frame(MetadataRequest(topics=[]), 9) * 10)
            assert probe.drain()
        for client in clients[:50]:
            client.vanish()
        eventually(lambda: target.sockets() <= sockets + 50, "those that were reset are gone")
        assert cpu_s_in_a_second(target) < 0.4, "the broker is busy with clients that are gone"
        with Attacker(target.port) as probe:
            assert produce(probe, TOPIC, batch).error_code == error_codes.NONE
        for client in clients[50:]:
            answer = client.receive(api.FETCH, FETCH_VERSION).responses[0].partitions[0]
            assert len(answer.records) == len(batch)


def cpu_s_in_a_second(target: WatchedBroker) -> float:
    before = target.cpu_s()
    time.sleep(1)
    return target.cpu_s() - before


def test_a_client_that_disconnects_mid_request_or_mid_answer_leaves_nothing_behind(target: WatchedBroker) -> None:
    batch = build_batch([Record(timestamp=int(time.time() * 1000), value=os.urandom(900_000))])
    files = target.descriptors()
    for number in range(120):
        client = Attacker(target.port)
        match number % 3:
            case 0:
                frame = client.frame(produce_request(TOPIC, batch, acks=number % 2), 9)
                client.sock.sendall(frame[: len(frame) * (number + 1) // 121])
            case 1:
                client.send(fetch_from(number % 40), FETCH_VERSION)
                client.sock.recv(100_000)
            case 2:
                client.send(fetch_from(number % 40), FETCH_VERSION)
        if number % 2:
            client.vanish()
        else:
            client.sock.close()
    eventually(lambda: target.descriptors() <= files + 8, "no descriptor is left of them")


def test_a_half_closed_connection_is_ended(attacker: Attacker) -> None:
    attacker.send(ApiVersionsRequest(), 0)
    attacker.sock.shutdown(1)
    assert attacker.receive(api.API_VERSIONS, 0).error_code == error_codes.NONE
    assert attacker.is_closed()
