"""Attacks that other brokers did not withstand, with the numbers of their CVEs; docs/security.md has the table."""

import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacker import Attacker, create_topic, produce_request
from login_crowds import converse, frames_of, handshake, metadata, token
from secured_broker import ENCRYPTED, LOGIN, SecuredBroker
from test_attacked_logins import is_served, secured_socket, token_answer
from watched import PATIENCE_S, WatchedBroker

from kpybroker.machines.sasl.jaas import PLAIN_MODULE
from kpybroker.machines.sasl.plain import PlainClient
from kpywire import api
from kpywire.error_codes import INVALID_REQUEST, NONE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.record import Record, build_batch
from oracle import free_port

JAAS_KEY = f"listener.name.{LOGIN.lower()}.plain.sasl.jaas.config"
MIB = 1024 * 1024
MODULES = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
    "kpybroker.machines.sasl.plain.PlainServer",
    "os.system",
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(directory=tmp_path_factory.mktemp("known")) as broker:
        yield broker
        assert broker.is_alive
        assert not broker.defects_since(0)


def altered(broker: SecuredBroker, name: str, value: str | None) -> tuple[int, str]:
    """The answer to a change of a config of the broker; None removes it."""
    config = AlterableConfig(name=name, config_operation=0 if value else 1, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    with Attacker(broker.port) as client:
        (answer,) = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
    return answer.error_code, answer.error_message or ""


@pytest.mark.parametrize("module", MODULES)
def test_a_login_module_that_is_set_by_a_request_is_refused_by_its_name(secured: SecuredBroker, module: str) -> None:
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819: modules that load something from elsewhere."""
    text = f'{module} required user.provider.url="ldap://127.0.0.1:{free_port()}" user_alice="x";'
    code, message = altered(secured, JAAS_KEY, text)
    assert code != NONE
    assert module in message
    assert "alice" not in message


@pytest.mark.parametrize("text", ["${env:PATH}", "${file:/etc/passwd:root}", "$${x}", "%(user)s", "{0.__class__}"])
def test_a_placeholder_in_a_config_stays_text(secured: SecuredBroker, text: str) -> None:
    """CVE-2024-31141: configs of a request that read files and the environment. The text itself is the password."""
    assert altered(secured, JAAS_KEY, f'{PLAIN_MODULE} required user_bob="{text}";') == (NONE, "")
    try:
        login = handshake() + token(PlainClient("bob", text).first())
        answer = converse(secured.ports[LOGIN], login + metadata(), 3)
        assert token_answer(answer).error_code == NONE
        assert is_served(answer)
    finally:
        altered(secured, JAAS_KEY, None)


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_an_endless_key_store_is_refused_without_delaying_others(
    secured: SecuredBroker, tmp_path: Path, kind: str
) -> None:
    """Any user with ALTER_CONFIGS names the file, and the broker reads it before it answers."""
    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / "pipe") if kind == "a pipe" else "/dev/zero"
    code, message = altered(secured, f"listener.name.{ENCRYPTED.lower()}.ssl.keystore.location", path)
    assert code == INVALID_REQUEST
    assert f"{path} is no regular file" in message


def test_a_transactional_batch_without_a_transactional_id_is_not_written(
    target: WatchedBroker, attacker: Attacker
) -> None:
    """CVE-2018-17196: a batch said to be transactional in a request that is not, so that nobody asks for permission."""
    create_topic(attacker, "crafted")
    record = Record(timestamp=1_700_000_000_000, value=b"x")
    batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    answer = attacker.call(produce_request("crafted", batch), 9)
    assert answer.responses[0].partition_responses[0].error_code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    asked = ListOffsetsTopic(name="crafted", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    assert attacker.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7).topics[0].partitions[0].offset == 0
    assert target.is_alive


@pytest.fixture(scope="module")
def combined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    """A node with a listener of its controller; ``http_port`` is that listener's."""
    directory: Path = tmp_path_factory.mktemp("combined")
    broker = WatchedBroker({}, directory=directory)
    listeners = f"PLAINTEXT://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.http_port}"
    broker.properties |= {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "advertised.listeners": listeners,
    }
    with broker:
        yield broker


@pytest.mark.parametrize("of_controller", [False, True], ids=["broker", "controller"])
def test_every_request_with_nothing_in_it_leaves_the_node_alive(combined: WatchedBroker, of_controller: bool) -> None:
    """CVE-2026-83525: a FetchSnapshot without topics ended a controller. Every API at every version, all empty."""
    port, position = combined.http_port if of_controller else combined.port, combined.log_position()
    with Attacker(port) as client:
        versions = client.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3).api_keys
    for each in versions:
        request = api.request_class(each.api_key)()
        for version in range(max(each.min_version, request.VERSIONS.start), each.max_version + 1):
            with Attacker(port) as client:
                client.send(request, version)
                client.drain()
    assert combined.is_alive, combined.tail()
    assert not combined.defects_since(position)


def test_new_keys_demanded_a_thousand_times_cost_little(secured: SecuredBroker) -> None:
    """TLS 1.3 lets a client ask for new keys in every record."""
    before_s, before = secured.cpu_s(), secured.memory_bytes()
    address = f"127.0.0.1:{secured.ports[ENCRYPTED]}"
    program = ["openssl", "s_client", "-connect", address, "-tls1_3"]
    asked = subprocess.run(
        program, input="K\n" * 1_000, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "KEYUPDATE" in asked.stdout + asked.stderr
    assert secured.cpu_s() - before_s < 2
    assert secured.memory_bytes() - before < 8 * MIB
    with secured_socket(secured, ENCRYPTED, ssl.TLSVersion.TLSv1_3) as sock:
        sock.sendall(metadata())
        assert list(frames_of(sock.recv(1 << 16)))
