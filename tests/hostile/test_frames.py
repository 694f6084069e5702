"""Frames that are none, or lie about their size, or are cut into crumbs; and what the log says of them."""

import os
import re
import socket
import struct
from collections.abc import Callable

import pytest
from attacker import Attacker, create_topic, produce
from watched import WatchedBroker

from kpywire import api, error_codes
from kpywire.header import encode_request_header
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.waiting import eventually

StartBroker = Callable[..., WatchedBroker]
MIB = 1024 * 1024
CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + os.urandom(32) + bytes(100)
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING) ")

NO_FRAMES = {
    "TLS": CLIENT_HELLO,
    "HTTP": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "size -1": struct.pack(">i", -1) + bytes(20),
    "size 0": struct.pack(">i", 0) + bytes(20),
    "size 7": struct.pack(">i", 7) + bytes(20),
    "smallest int": struct.pack(">i", -(2**31)) + bytes(20),
    "largest int": struct.pack(">i", 2**31 - 1) + bytes(20),
    "over the limit": struct.pack(">i", 100 * MIB + 1) + bytes(20),
    "api key -1": struct.pack(">ihhih", 10, -1, 0, 1, -1),
    "unknown api key": struct.pack(">ihhih", 10, 12_345, 0, 1, -1),
    "version -1": struct.pack(">ihhih", 10, api.METADATA, -1, 1, -1),
    "unknown version": struct.pack(">ihhih", 10, api.METADATA, 99, 1, -1),
    "controllers only": struct.pack(">ihhih", 10, api.VOTE, 0, 1, -1),
    "client id beyond the frame": struct.pack(">ihhih", 10, api.METADATA, 1, 1, 1000),
    "client id of a negative length": struct.pack(">ihhih", 10, api.METADATA, 1, 1, -2),
}


@pytest.mark.parametrize("sent", NO_FRAMES.values(), ids=NO_FRAMES.keys())
def test_bytes_that_are_no_request_end_the_connection(target: WatchedBroker, sent: bytes) -> None:
    with Attacker(target.port) as client:
        client.sock.sendall(sent)
        assert client.is_closed()


def test_the_log_has_one_line_for_an_offence_and_no_more_for_thousands_like_it(start_broker: StartBroker) -> None:
    broker = start_broker()
    position = broker.log_position()
    for number in range(2000):
        with Attacker(broker.port) as client:
            client.sock.sendall(struct.pack(">i", -1 - number) + bytes(20))
            assert client.is_closed()
        eventually(lambda: bool(broker.log_since(position)), "the offence is in the log")
        assert len(broker.log_since(position)) <= 3
    assert "claims -1 bytes" in broker.log_since(position)[0]


def test_random_bytes_end_their_connections(target: WatchedBroker) -> None:
    position = target.log_position()
    for number in range(300):
        with Attacker(target.port) as client:
            client.sock.sendall(os.urandom(4 + number * 7))
            client.sock.shutdown(socket.SHUT_WR)
            assert client.is_closed()
    assert len(target.log_since(position)) <= 30


def test_requests_before_an_invalid_one_are_answered(attacker: Attacker) -> None:
    good = attacker.frame(MetadataRequest(topics=[]), 9)
    attacker.sock.sendall(good + good + struct.pack(">i", -1) + bytes(100))
    for _ in range(2):
        assert attacker.receive(api.METADATA, 9).brokers
    assert attacker.is_closed()


def test_a_declared_size_costs_nothing_until_its_bytes_come(target: WatchedBroker) -> None:
    before = target.memory_bytes()
    clients = [Attacker(target.port) for _ in range(300)]
    for client in clients:
        client.sock.sendall(struct.pack(">i", 100 * MIB) + bytes(1000))
    with Attacker(target.port) as probe:
        assert probe.drain()
    assert target.memory_bytes() - before < 64 * MIB
    for client in clients:
        client.vanish()


def test_requests_that_come_byte_by_byte_are_answered(target: WatchedBroker) -> None:
    clients = [Attacker(target.port) for _ in range(50)]
    frames = [client.frame(MetadataRequest(topics=[]), 9) for client in clients]
    for index in range(len(frames[0])):
        for client, frame in zip(clients, frames, strict=True):
            client.sock.sendall(frame[index : index + 1])
    for client in clients:
        assert client.receive(api.METADATA, 9).brokers
        client.sock.close()


def test_a_large_request_in_crumbs_is_put_together_again(attacker: Attacker) -> None:
    names = [f"crumb-{number:06}" for number in range(20_000)]
    topics = [MetadataRequestTopic(name=name) for name in names]
    frame = attacker.frame(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    sizes = (1, 3, 4096, 5, 60_000, 2, 1, 300_000)
    position = 0
    while position < len(frame):
        step = sizes[position % len(sizes)]
        attacker.sock.sendall(frame[position : position + step])
        position += step
    assert [topic.name for topic in attacker.receive(api.METADATA, 9).topics] == names


@pytest.mark.parametrize("forged", ["\n", "\r\n", "\x1b[2K\r", "\0", "\u2028", "%s%n"], ids=ascii)
def test_clients_cannot_inject_lines_into_the_log(start_broker: StartBroker, forged: str) -> None:
    target = start_broker()
    position = target.log_position()
    text = f"evil{forged}2026-11-20 00:00:00,000 WORSE forged line"
    with Attacker(target.port, client_id=text) as client:
        answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=text)]), 9)
        assert answer.topics[0].error_code == error_codes.INVALID_TOPIC_EXCEPTION
        assert produce(client, text, b"").error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(AssertionError, match="error_code=17"):
            create_topic(client, text)
        config = AlterableConfig(name=text, config_operation=0, value=text)
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
        altered = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert altered.responses[0].error_code == error_codes.NONE
        client.send_frame(encode_request_header(api.VOTE, 0, 1, text))
        assert client.is_closed()
    eventually(lambda: "api key" in str(target.log_since(position)), "the offence is in the log")
    lines = target.log_since(position)
    assert any("forged" in line for line in lines), "no name of this test is in the log"
    assert all(LINE.match(line) for line in lines)


def test_the_longest_client_id_is_no_burden(target: WatchedBroker) -> None:
    before = target.memory_bytes()
    clients = [Attacker(target.port, client_id="x" * 32_767) for _ in range(200)]
    for _ in range(3):
        for client in clients:
            assert client.call(MetadataRequest(topics=[]), 9).brokers
    assert target.memory_bytes() - before < 32 * MIB
    for client in clients:
        client.sock.close()


def test_a_header_of_a_million_tagged_fields_is_refused(target: WatchedBroker) -> None:
    header = encode_request_header(api.METADATA, 9, 1, "tags")[:-1]
    fields = b"".join(struct.pack(">BBBB", 0x80 | n & 0x7F, 0x80 | n >> 7 & 0x7F, n >> 14, 0) for n in range(1_000_000))
    with Attacker(target.port) as client:
        client.send_frame(header + b"\xc0\x84\x3d" + fields)
        assert client.is_closed()
