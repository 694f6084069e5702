"""Logins on a node: what the log shows, and what the wire sees.

Apache Kafka shows the same on the wire: compat-tests/security/test_sasl_wire.py.
"""

import hashlib
import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from running_node import RunningNode

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.answered_errors import errors_in
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.exchange import AuthenticationFailed
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from kpybroker.machines.sasl.made_up_credentials import MadeUpCredentials
from kpybroker.machines.sasl.plain import PlainClient
from kpybroker.node.assembly.logins import Logins, Users, no_tokens
from kpybroker.requests.dispatching.login import LONGEST_REFUSED_BYTES, LoginStage
from kpybroker.requests.handlers import served_versions
from kpybroker.requests.server.time_limit import TimeLimit
from kpywire import api
from kpywire.error_codes import ILLEGAL_SASL_STATE, NONE, SASL_AUTHENTICATION_FAILED
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from support import sasl_wire
from support.quota_requests import set_quotas
from support.raw_client import RawClient
from support.raw_requests import create
from support.waiting import eventually


def add_scram_user(node: RunningNode, mechanism: scram.ScramMechanism, name: str, password: str) -> None:
    """Put a user into the metadata as this node knows them."""
    salt = scram.salt_of(b"any salt is right")
    credential = mechanism.credential(mechanism.salted_password(password, salt, 4096), salt, 4096)
    record = UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.code,
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=4096,
    )
    node.call(lambda: node.node.image.scram_credentials.update({(mechanism.code, name): record}))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    listeners = [f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *sasl_wire.LISTENERS)]
    directory = str(tmp_path_factory.mktemp("logins"))
    further = {"log.dirs": directory, "connection.failed.authentication.delay.ms": "5"}
    node = RunningNode({**sasl_wire.properties(), "listeners": ",".join(listeners), **further})
    try:
        add_scram_user(node, scram.SCRAM_SHA_256, sasl_wire.USER, sasl_wire.PASSWORD)
        yield node
    finally:
        node.stop()


@pytest.mark.parametrize("case", sasl_wire.CASES, ids=lambda case: case.name)
def test_the_wire_sees_what_apache_kafka_shows(case: sasl_wire.Case, node: RunningNode) -> None:
    assert sasl_wire.seen(case, node.node.ports) == case.expected


@pytest.fixture
def wire(node: RunningNode) -> Iterator[RawClient]:
    """A connection that has to log in."""
    with RawClient(node.node.ports[sasl_wire.SECURED]) as raw:
        yield raw


def login_frames(raw: RawClient) -> bytes:
    token = PlainClient(sasl_wire.USER, sasl_wire.PASSWORD).first()
    handshake = raw.frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return handshake + raw.frame(SaslAuthenticateRequest(auth_bytes=token), 2)


def is_served(raw: RawClient) -> bool:
    assert raw.receive(SaslHandshakeRequest.KEY, 1).error_code == NONE
    assert raw.receive(SaslAuthenticateRequest.KEY, 2).error_code == NONE
    return bool(raw.receive(MetadataRequest.KEY, 12).brokers)


def test_requests_that_follow_at_once_are_served_as_the_user(wire: RawClient, node: RunningNode) -> None:
    wire.sock.sendall(login_frames(wire) + wire.frame(MetadataRequest(topics=[]), 12))
    assert is_served(wire)

    def clients() -> list[tuple[str, str]]:
        assert node.node.server is not None
        found = [each.client for each in node.node.server.connections if each.client.port == wire.sock.getsockname()[1]]
        return [(str(client.principal), client.security_protocol) for client in found]

    assert node.call(clients) == [("User:alice", "SASL_PLAINTEXT")]


def test_a_login_may_come_byte_by_byte(wire: RawClient) -> None:
    wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in login_frames(wire) + wire.frame(MetadataRequest(topics=[]), 12):
        wire.sock.sendall(bytes([byte]))
    assert is_served(wire)


def test_frames_may_be_large_after_the_login_and_not_before(wire: RawClient) -> None:
    large = MetadataRequest(topics=[MetadataRequestTopic(name=f"{number:0200}") for number in range(100)])
    wire.sock.sendall(login_frames(wire) + wire.frame(large, 12))
    assert is_served(wire)
    wire.send(large, 12)
    assert len(wire.receive(MetadataRequest.KEY, 12).topics) == 100


@pytest.mark.parametrize("key", sorted(served_versions().keys() - {SaslAuthenticateRequest.KEY}))
def test_every_other_api_is_refused_in_the_middle_of_a_login(
    wire: RawClient, key: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == NONE
    for version in served_versions()[key][1:]:
        answer = wire.call(api.request_class(key)(), version)
        codes: list[int] = []
        find = errors_in(type(answer))
        if find is not None:
            find(answer, codes)
        assert set(codes) <= {ILLEGAL_SASL_STATE}
    assert wire.is_closed()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("count", [100, LONGEST_REFUSED_BYTES, 100_000])
def test_a_long_request_in_the_middle_of_a_login_is_closed_without_an_answer(wire: RawClient, count: int) -> None:
    """Its answer would be 60 times as long. A short one is answered, as in Kafka."""
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == NONE
    wire.send(FindCoordinatorRequest(key_type=0, coordinator_keys=[""] * count), 4)
    if count == 100:
        answer = wire.receive(FindCoordinatorRequest.KEY, 4)
        assert {each.error_code for each in answer.coordinators} == {ILLEGAL_SASL_STATE}
        assert len(answer.coordinators) == count
    assert wire.is_closed()


def test_a_short_request_with_a_long_answer_in_the_middle_of_a_login_is_closed_without_it(wire: RawClient) -> None:
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == NONE
    wire.send(FindCoordinatorRequest(key_type=0, coordinator_keys=[""] * (LONGEST_REFUSED_BYTES - 30)), 4)
    assert wire.is_closed()


def test_half_open_logins_hold_little_memory(node: RunningNode) -> None:
    server = node.node.server
    assert server is not None
    with ExitStack() as opened:
        clients = [opened.enter_context(RawClient(node.node.ports[sasl_wire.SECURED])) for _ in range(50)]
        for client in clients:
            client.sock.sendall(struct.pack(">i", sasl_wire.MOST_BYTES) + bytes(5))
        eventually(lambda: len(server.budget.owners()) >= 50, "the beginnings of frames")
        assert server.budget.used_bytes <= 50 * 128


def stage_of(node: RunningNode) -> LoginStage:
    def find() -> LoginStage:
        assert node.node.server is not None
        stage = next(each.dispatch for each in node.node.server._listening.values() if each.name == sasl_wire.SECURED)
        assert isinstance(stage, LoginStage)
        return stage

    found: LoginStage = node.call(find)
    return found


def test_a_login_that_is_never_finished_is_closed(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(node)
    monkeypatch.setattr(stage, "_time_limit", TimeLimit(50, stage._too_slow))
    with RawClient(node.node.ports[sasl_wire.SECURED]) as idle, RawClient(node.node.ports[sasl_wire.SECURED]) as slow:
        assert slow.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == NONE
        assert idle.is_closed()
        assert slow.is_closed()
    with RawClient(node.node.ports[sasl_wire.SECURED]) as raw:
        raw.sock.sendall(login_frames(raw))
        raw.receive(SaslHandshakeRequest.KEY, 1)
        raw.receive(SaslAuthenticateRequest.KEY, 2)
        with RawClient(node.node.ports[sasl_wire.SECURED]) as later:
            assert later.is_closed()
        assert raw.call(MetadataRequest(topics=[]), 12).brokers


def test_more_failures_than_may_wait_are_answered_early(node: RunningNode) -> None:
    late = stage_of(node).refusals
    kept = late.delay_ms, late._most_waiting
    late.delay_ms, late._most_waiting = 600_000, 2
    try:
        with ExitStack() as opened:
            clients = [opened.enter_context(RawClient(node.node.ports[sasl_wire.SECURED])) for _ in range(3)]
            for client in clients:
                client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                client.send(SaslAuthenticateRequest(auth_bytes=b"?"), 2)
                eventually(lambda: len(late) > 0, "a failure that waits")
            assert clients[0].receive(SaslAuthenticateRequest.KEY, 2).error_code == SASL_AUTHENTICATION_FAILED
            assert clients[0].is_closed()
            eventually(lambda: len(late) == 2, "the others to wait")
            for client in clients:
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset at the end
        eventually(lambda: len(late) == 0, "nothing to be kept for clients that are gone")
    finally:
        late.delay_ms, late._most_waiting = kept


def again_frames(raw: RawClient) -> bytes:
    """A login again on the same connection, and a request behind it."""
    return login_frames(raw) + raw.frame(MetadataRequest(topics=[]), 12)


def test_a_login_again_waits_for_its_turn_while_a_fetch_is_parked(node: RunningNode) -> None:
    with RawClient(node.port) as admin:
        create(admin, "parked")
    with RawClient(node.node.ports[sasl_wire.SESSIONS]) as raw:
        raw.sock.sendall(again_frames(raw))
        assert is_served(raw)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
        fetch = FetchRequest(max_wait_ms=300, min_bytes=1, topics=[FetchTopic(topic="parked", partitions=[partition])])
        raw.sock.sendall(raw.frame(fetch, 12) + again_frames(raw))
        assert raw.receive(FetchRequest.KEY, 12).responses[0].partitions[0].error_code == NONE
        assert is_served(raw)


def test_a_login_again_waits_for_its_turn_while_the_client_is_muted(node: RunningNode) -> None:
    with RawClient(node.port) as admin, RawClient(node.node.ports[sasl_wire.SESSIONS], client_id="muted") as raw:
        raw.sock.sendall(again_frames(raw))
        assert is_served(raw)
        set_quotas(admin, {"client-id": "muted"}, request_percentage=1e-6)
        try:
            waits = 0
            while not waits:
                waits = raw.call(MetadataRequest(topics=[]), 12).throttle_time_ms
            assert waits <= 1_000
            raw.sock.sendall(again_frames(raw))
            assert is_served(raw)
        finally:
            set_quotas(admin, {"client-id": "muted"}, request_percentage=None)


def test_passwords_follow_the_configuration(node: RunningNode) -> None:
    key = f"listener.name.{sasl_wire.SECURED.lower()}.plain.sasl.jaas.config"
    value = f'{PLAIN_MODULE} required user_bob="builder";'
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=str(node.node.config.node_id), configs=[change])

    def code(user: str, password: str) -> int:
        with RawClient(node.node.ports[sasl_wire.SECURED]) as raw:
            raw.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            token = PlainClient(user, password).first()
            return int(raw.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code)

    with RawClient(node.port) as raw:
        answer = raw.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert [each.error_code for each in answer.responses] == [NONE]
        eventually(lambda: code("bob", "builder") == NONE, "the new user")
        assert code(sasl_wire.USER, sasl_wire.PASSWORD) == SASL_AUTHENTICATION_FAILED
        change.value = "com.sun.security.auth.module.JndiLoginModule required;"
        answer = raw.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert answer.responses[0].error_code != NONE
        assert "JndiLoginModule" in answer.responses[0].error_message
        change.config_operation = 1
        raw.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    eventually(lambda: code(sasl_wire.USER, sasl_wire.PASSWORD) == NONE, "the configured user")


def test_users_whose_config_comes_before_a_listener_opens_are_known_there() -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    listeners = "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
    others = {"listeners": listeners, "sasl.enabled.mechanisms": "PLAIN", "log.dirs": "/data"}
    config = BrokerConfig.load(None, {**others, key: f'{PLAIN_MODULE} required user_alice="secret";'})
    logins = Logins(config, Users(lambda: MetadataImage("cluster"), no_tokens, MagicMock()))
    logins.reconfigure(config.with_dynamic({}, {key: f'{PLAIN_MODULE} required user_bob="secret";'}))
    stage = logins.stage(config.listeners[0], cast("Any", None))
    assert stage.terms.exchanges["PLAIN"]().respond(b"\0bob\0secret") == b""
    with pytest.raises(AuthenticationFailed):
        stage.terms.exchanges["PLAIN"]().respond(b"\0alice\0secret")


def test_challenges_of_users_that_do_not_exist_stay_as_they_are_over_a_restart(tmp_path: Path) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "log.dirs": str(tmp_path),
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    seen: list[list[bytes]] = []
    for _ in range(2):
        node = RunningNode(settings)
        try:
            seen.append([_challenge(node.node.ports["SASL"], name) for name in ("zoe", "carl")])
            cluster_id = node.node.image.cluster_id
        finally:
            node.stop()
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][1]
    public = MadeUpCredentials(lambda: hashlib.sha256(cluster_id.encode()).digest())
    assert public.of(scram.SCRAM_SHA_512, "zoe").salt != seen[0][0], "clients know the id of the cluster"


def _challenge(port: int, name: str) -> bytes:
    """The salt that a user is asked for."""
    with RawClient(port) as raw:
        raw.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        first = f"n,,n={name},r=nonce".encode()
        answer = raw.call(SaslAuthenticateRequest(auth_bytes=first), 2).auth_bytes
        return scram.decode_server_first(answer).salt
