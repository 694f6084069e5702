"""The live view of a connection over TLS, and what it never shows: passwords, tokens, records."""

import json
import ssl
import struct
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from time import time
from typing import Any
from urllib.parse import quote

import pytest
from console_node import ConsoleNode, console_node

from kpybroker.monitoring.console.answers.connections import without_records
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from kpywire.record import Record, build_batch
from support.certificates import Authority
from support.raw_client import RawClient
from support.waiting import eventually

SECRET = b"hunter2-and-more"
PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="{SECRET.decode()}";'


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[ConsoleNode]:
    store = authority.issue("broker").save_pem(tmp_path_factory.mktemp("tls") / "broker.pem")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0,BOTH://127.0.0.1:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SECURE:SSL,BOTH:SASL_SSL",
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(store),
        "sasl_enabled_mechanisms": "PLAIN",
    }
    with console_node(**settings, **{"listener.name.both.plain.sasl.jaas.config": PLAIN}) as made:
        made.create("flights")
        yield made


@contextmanager
def over_tls(node: ConsoleNode, authority: Authority, listener: str) -> Iterator[RawClient]:
    context = ssl.create_default_context(cadata=authority.pem)
    with RawClient(node.node.ports[listener], client_id="watched") as client:
        client.sock = context.wrap_socket(client.sock, server_hostname="localhost")
        yield client


def look(node: ConsoleNode, client: RawClient) -> Any:
    host, port = client.sock.getsockname()
    reply = node.get(f"/api/connections/{quote(f'{host}:{port}', safe='')}")
    assert reply.status == 200, reply.text
    page = node.get(f"/connections/{quote(f'{host}:{port}', safe='')}").text
    for hidden in (SECRET.decode(), b64encode(SECRET).decode().rstrip("=")[:-1], SECRET.hex()):
        assert hidden not in reply.text
        assert hidden not in page
    return reply.json


def test_requests_and_answers_over_tls_are_shown_decoded(node: ConsoleNode, authority: Authority) -> None:
    with over_tls(node, authority, "SECURE") as client:
        client.call(MetadataRequest(topics=[]), 12)
        assert look(node, client)["connection"]["protocol"] == "SSL"
        client.call(MetadataRequest(topics=[]), 12)
        (newest,) = look(node, client)["exchanges"]
        assert (newest["request"], newest["version"], newest["client_id"]) == ("Metadata", 12, "watched")
        assert json.loads(newest["request_json"])["topics"] == []
        assert json.loads(newest["answer_json"])["brokers"][0]["nodeId"] == 1


def test_secrets_and_records_over_tls_are_left_out(node: ConsoleNode, authority: Authority) -> None:
    config = AlterableConfig(name="ssl.key.password", config_operation=0, value=SECRET.decode())
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    user = ScramCredentialUpsertion(name="ann", mechanism=1, iterations=4096, salt=SECRET, salted_password=SECRET * 2)
    batch = build_batch([Record(timestamp=int(time() * 1000), value=SECRET)])
    produced = TopicProduceData(name="flights", partition_data=[PartitionProduceData(index=0, records=batch)])
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    requests: list[tuple[Any, int]] = [
        (IncrementalAlterConfigsRequest(resources=[resource], validate_only=True), 1),
        (AlterUserScramCredentialsRequest(deletions=[], upsertions=[user]), 0),
        (ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[produced]), 9),
        (
            FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=[FetchTopic(topic="flights", partitions=[wanted])],
                forgotten_topics_data=[],
            ),
            12,
        ),
    ]
    with over_tls(node, authority, "SECURE") as client:
        look(node, client)
        for request, version in requests:
            client.call(request, version)
        shown = look(node, client)["exchanges"]
        assert [each["request"] for each in reversed(shown)] == [
            "IncrementalAlterConfigs",
            "AlterUserScramCredentials",
            "Produce",
            "Fetch",
        ]
        assert [each["request_json"] is None for each in reversed(shown)] == [True, True, False, False]


def test_a_login_over_tls_is_seen_and_its_password_is_not(node: ConsoleNode, authority: Authority) -> None:
    with over_tls(node, authority, "BOTH") as client:
        eventually(lambda: look(node, client)["connection"]["protocol"] == "SASL_SSL", "the connection is known")
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert client.call(SaslAuthenticateRequest(auth_bytes=b"\0bob\0" + SECRET), 2).error_code == 0
        shown = look(node, client)
        assert [each["request"] for each in shown["exchanges"]] == ["SaslAuthenticate", "SaslHandshake"]
        assert shown["exchanges"][0]["request_json"] is None
        assert shown["connection"]["principal"] == "User:bob"
        client.call(MetadataRequest(topics=[]), 12)
        assert look(node, client)["exchanges"][0]["request"] == "Metadata", "the view goes on behind the login"


def test_a_login_without_headers_is_not_shown(node: ConsoleNode, authority: Authority) -> None:
    with over_tls(node, authority, "BOTH") as client:
        eventually(lambda: look(node, client)["connection"]["protocol"] == "SASL_SSL", "the connection is known")
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        token = b"\0bob\0" + SECRET
        client.sock.sendall(struct.pack(">i", len(token)) + token)
        assert client.sock.recv(4) == b"\0\0\0\0"
        assert [each["request"] for each in look(node, client)["exchanges"]] == ["SaslHandshake"]


def test_the_configs_of_a_node_hide_its_secrets(node: ConsoleNode) -> None:
    for path in ("/api/configs", "/configs"):
        page = node.get(path, all=1).text
        assert "ssl.keystore.location" in page
        assert SECRET.decode() not in page


def test_records_are_left_out_whatever_their_field_is_called() -> None:
    found = {
        "records": "AAAA",
        "unalignedRecords": "AAAA",
        "recordErrors": [{"batchIndex": 0}],
        "a": [{"records": "AA=="}],
    }
    assert without_records(found) == {
        "records": "3 bytes",
        "unalignedRecords": "3 bytes",
        "recordErrors": [{"batchIndex": 0}],
        "a": [{"records": "1 bytes"}],
    }
