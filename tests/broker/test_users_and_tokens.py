"""Users and delegation tokens of a running node, by the command line and on the wire: who logs in, who may ask."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from running_node import RunningNode

from kpybroker.cli import main
from kpybroker.client.client import Client
from kpybroker.machines.controller import delegation_tokens
from kpybroker.machines.sasl.scram import SCRAM_SHA_256
from kpybroker.machines.sasl.scram_client import ScramClient
from kpywire import codec, error_codes
from kpywire.header import decode_response_header
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kpywire.messages.default_principal_data import DefaultPrincipalData
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from oracle.jars import java
from support.envelopes import envelope_of
from support.raw_client import RawClient
from support.waiting import eventually

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
KEY = "a key of all nodes"
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{MODULE} required;",
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{MODULE} required;",
    "delegation.token.secret.key": KEY,
    "delegation.token.expiry.check.interval.ms": "50",
}


class Broker:
    """A node with an open listener and one with SCRAM, and commands for both."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.node = RunningNode({"log.dirs": str(directory / "data"), **SETTINGS})
        self.open = f"127.0.0.1:{self.node.node.ports['PLAINTEXT']}"
        self.sasl = f"127.0.0.1:{self.node.node.ports['SASL']}"
        self.controller = f"127.0.0.1:{self.node.node.ports['CONTROLLER']}"

    def file(self, user: str, password: str, mechanism: str = "SCRAM-SHA-256", *, by_token: bool = False) -> str:
        jaas = f'{MODULE} required username="{user}" password="{password}"{" tokenauth=true" * by_token};'
        file = self.directory / "client.properties"
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
        return str(file)

    def run(self, *words: str, stdin: str = "", server: str = "") -> Result:
        return CliRunner().invoke(main, [*words, "-b", server or self.open], input=stdin)

    def as_(self, user: str, *words: str) -> Result:
        return self.run(*words, "--command-config", self.file(user, f"{user}-secret"), server=self.sasl)

    def by_token(self, token: dict[str, str], *words: str, mechanism: str = "SCRAM-SHA-256") -> Result:
        file = self.file(token["token_id"], token["hmac"], mechanism, by_token=True)
        return self.run(*words, "--command-config", file, server=self.sasl)

    def token(self, user: str, *words: str) -> dict[str, str]:
        made = self.as_(user, "tokens", "create", "--json", *words)
        assert made.exit_code == 0, made.output
        found: dict[str, str] = json.loads(made.output)
        return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("users"))
    try:
        for user in ("alice", "bob"):
            set_ = made.run(
                "users", "set", user, "-m", "SCRAM-SHA-256", "--password-file", "-", stdin=f"{user}-secret\n"
            )
            assert set_.exit_code == 0, set_.output
        yield made
    finally:
        made.node.stop()


# Users.


def test_users_are_set_listed_and_removed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPYBROKER_PASSWORD", "first")
    both = ("-m", "scram-sha-256", "-m", "SCRAM-SHA-512", "--iterations", "5000")
    assert broker.run("users", "set", "carol", *both).output == (
        "Set the password of carol for SCRAM-SHA-256\nSet the password of carol for SCRAM-SHA-512\n"
    )
    assert json.loads(broker.run("users", "list", "carol", "--json").output) == [
        {"user": "carol", "mechanism": "SCRAM-SHA-256", "iterations": 5000},
        {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 5000},
    ]
    file = broker.file("carol", "first", "SCRAM-SHA-512")
    assert broker.run("cluster", "id", "--command-config", file, server=broker.sasl).exit_code == 0
    monkeypatch.delenv("KPYBROKER_PASSWORD")
    prompted = broker.run("users", "set", "carol", stdin="second\nsecond\n")
    assert prompted.exit_code == 0
    assert "second" not in prompted.output, "what is typed is not shown"
    assert broker.run("cluster", "id", "--command-config", file, server=broker.sasl).exit_code == 1
    assert broker.run("users", "remove", "carol", "-m", "SCRAM-SHA-512").exit_code == 0
    assert broker.run("users", "remove", "carol").output == "Removed carol from SCRAM-SHA-256\n"
    gone = broker.run("users", "remove", "carol")
    assert (gone.exit_code, gone.output) == (
        1,
        "Error: user carol has no SCRAM credential (RESOURCE_NOT_FOUND)\n",
    )
    assert broker.run("users", "remove", "carol", "--if-exists").exit_code == 0
    assert "alice  SCRAM-SHA-256" in broker.run("users", "list").output


def test_a_password_that_is_empty_is_a_usage_error(broker: Broker) -> None:
    refused = broker.run("users", "set", "carol", "--password-file", "-", stdin="\n")
    assert (refused.exit_code, "the password is empty" in refused.output) == (2, True)


# Tokens.


def test_a_token_logs_in_as_its_owner_by_both_mechanisms_and_asks_for_no_other_token(broker: Broker) -> None:
    token = broker.token("alice")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        reached = broker.by_token(token, "cluster", "id", mechanism=mechanism)
        assert reached.exit_code == 0, reached.output
        refused = broker.by_token(token, "tokens", "create", mechanism=mechanism)
        assert "(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)" in refused.output
    wrong = broker.by_token({**token, "hmac": base64.b64encode(bytes(64)).decode()}, "cluster", "id")
    assert "(SASL_AUTHENTICATION_FAILED)" in wrong.output
    assert broker.as_("alice", "tokens", "expire", token["token_id"]).exit_code == 0
    assert "(SASL_AUTHENTICATION_FAILED)" in broker.by_token(token, "cluster", "id").output


def test_tokens_are_renewed_and_ended_by_owner_and_renewers(broker: Broker) -> None:
    token = broker.token("alice", "--renewer", "bob", "--max-lifetime", "1h")
    listed = broker.as_("bob", "tokens", "list", "--owner", "alice").output
    assert token["token_id"] in listed
    assert token["hmac"] not in listed
    assert token["hmac"] in broker.as_("alice", "tokens", "list", "--show-hmac").output
    assert broker.as_("bob", "tokens", "renew", token["token_id"], "--period", "5min").exit_code == 0
    shortened = broker.as_("alice", "tokens", "expire", token["token_id"], "--period", "1min")
    assert f"Token {token['token_id']} expires 2" in shortened.output
    assert broker.as_("bob", "tokens", "expire", token["token_id"]).output == f"Removed token {token['token_id']}\n"
    unknown = broker.as_("bob", "tokens", "renew", token["token_id"])
    assert (unknown.exit_code, "(DELEGATION_TOKEN_NOT_FOUND)" in unknown.output) == (1, True)
    for period in ("1 week", "-1d", ""):
        assert broker.as_("bob", "tokens", "renew", "x", "--period", period).exit_code == 2


def test_a_client_that_has_not_logged_in_hears_nothing_of_tokens(broker: Broker) -> None:
    broker.token("alice")
    for words in (("list",), ("create",), ("create", "--owner", "alice")):
        refused = broker.run("tokens", *words)
        assert (refused.exit_code, "(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)" in refused.output) == (1, True)


def test_a_token_for_another_user_is_seen_by_both(broker: Broker) -> None:
    token = broker.token("alice", "--owner", "User:bob")
    assert (token["owner"], token["requester"]) == ("User:bob", "User:alice")
    assert broker.by_token(token, "cluster", "id").exit_code == 0
    for user in ("alice", "bob"):
        assert token["token_id"] in broker.as_(user, "tokens", "list", "--owner", "bob").output


def test_a_list_of_owners_also_selects_by_requester_and_renewer_as_in_kafka(broker: Broker) -> None:
    token = broker.token("alice", "--owner", "User:bob", "--renewer", "User:carol")
    for owner in ("alice", "bob", "carol"):
        assert token["token_id"] in broker.as_("bob", "tokens", "list", "--owner", owner).output
    assert token["token_id"] not in broker.as_("bob", "tokens", "list", "--owner", "dave").output


def test_a_token_that_has_expired_is_removed_and_others_stay(broker: Broker) -> None:
    short, long = broker.token("alice", "--max-lifetime", "1ms"), broker.token("alice")
    eventually(lambda: short["token_id"] not in broker.node.node.image.delegation_tokens, "the sweep")
    assert long["token_id"] in broker.node.node.image.delegation_tokens
    assert "(SASL_AUTHENTICATION_FAILED)" in broker.by_token(short, "cluster", "id").output


def test_a_token_that_has_expired_and_is_not_removed_yet_does_not_log_in(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller removes tokens once an hour. Requests that come together with the end of the login are not served
    either."""
    monkeypatch.setattr(delegation_tokens, "has_expired", lambda _token, _now_ms: False)
    alive, expired = broker.token("alice"), broker.token("alice", "--max-lifetime", "1ms")
    assert _served_behind_the_login(broker, alive) == 3
    for _ in range(3):
        assert _served_behind_the_login(broker, expired) == 0
    assert expired["token_id"] in broker.node.node.image.delegation_tokens


def _served_behind_the_login(broker: Broker, token: dict[str, str]) -> int:
    """How many of three requests are served that are sent with the last message of a login."""
    client = ScramClient(SCRAM_SHA_256, token["token_id"], token["hmac"], "nonce", by_token=True)
    with RawClient(broker.node.node.ports["SASL"]) as raw:
        raw.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        final = client.respond(raw.call(SaslAuthenticateRequest(auth_bytes=client.first()), 2).auth_bytes)
        assert final is not None
        metadata = [raw.frame(MetadataRequest(topics=[]), 12) for _ in range(3)]
        raw.sock.sendall(raw.frame(SaslAuthenticateRequest(auth_bytes=final), 2) + b"".join(metadata))
        is_in = raw.receive(SaslAuthenticateRequest.KEY, 2).error_code == error_codes.NONE
        served = 0
        with suppress(ConnectionError):
            while served < 3:
                raw.receive(MetadataRequest.KEY, 12)
                served += 1
        assert is_in is (served > 0)
        return served


def test_the_secret_is_shown_nowhere(broker: Broker) -> None:
    token = broker.token("alice")
    with Client(broker.open) as client:
        found = client.call(
            DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="1")])
        )
        (key,) = [each for each in found.results[0].configs if each.name == "delegation.token.secret.key"]
        assert (key.value, key.is_sensitive) == (None, True)
        owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="alice")
        refused = client.call(DescribeDelegationTokenRequest(owners=[owner]))
        assert (refused.error_code, refused.tokens) == (error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
    hmac = base64.b64decode(token["hmac"])
    for file in (broker.directory / "data").rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert hmac not in data
            assert KEY.encode() not in data
            assert b"alice-secret" not in data


@pytest.mark.parametrize(
    ("name", "by_token", "code"),
    [
        ("alice", False, error_codes.NONE),
        ("alice", True, error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        ("ANONYMOUS", False, error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    ],
)
def test_a_controller_serves_the_sender_that_an_envelope_names(
    broker: Broker, name: str, by_token: bool, code: int
) -> None:
    data = DefaultPrincipalData(type="User", name=name, token_authenticated=by_token)
    principal = b"\0\0" + codec.encode(data, 0)
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    with Client(broker.controller) as client:
        answer = client.call(envelope_of(request, 3, request_principal=principal))
    assert answer.error_code == error_codes.NONE
    start = decode_response_header(request.KEY, 3, answer.response_data)[1]
    token = codec.decode(CreateDelegationTokenResponse, 3, answer.response_data, start)
    assert (token.error_code, token.principal_name) == (code, name)
    assert bool(token.hmac) == (code == error_codes.NONE)


def test_dumped_metadata_hide_the_keys(broker: Broker) -> None:
    log = str(broker.directory / "data" / "__cluster_metadata-0")
    dumped = CliRunner().invoke(main, ["metadata", "-d", log, "cat", "/image/scram/SCRAM-SHA-256/alice"])
    assert (dumped.exit_code, "[hidden]" in dumped.output, "alice" in dumped.output) == (0, True, True), dumped.output
    credential = broker.node.call(lambda: broker.node.node.image.scram_credentials[1, "alice"])
    for key in (credential.stored_key, credential.server_key):
        assert base64.b64encode(key).decode() not in dumped.output


# Kafka's tools.


@pytest.mark.java
def test_kafka_delegation_tokens_and_kafka_configs_work(broker: Broker) -> None:
    def tool(name: str, *words: str) -> str:
        done = java(name, "--bootstrap-server", broker.sasl, "--command-config", config, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    config = broker.file("alice", "alice-secret")
    tokens, configs = "org.apache.kafka.tools.DelegationTokenCommand", "org.apache.kafka.tools.ConfigCommand"
    made = tool(tokens, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    token_id, hmac, *rest = made.strip().splitlines()[-1].split()
    assert rest[:3] == ["User:alice", "User:alice", "[User:bob]"]
    assert token_id in tool(tokens, "--describe", "--owner-principal", "User:alice")
    assert "Completed renew operation" in tool(tokens, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    config = broker.file(token_id, hmac, "SCRAM-SHA-512", by_token=True)
    entity = ("--entity-type", "users", "--entity-name", "dave")
    add = "SCRAM-SHA-256=[iterations=8192,password=x],SCRAM-SHA-512=[password=x]"
    done = java(configs, "--bootstrap-server", broker.open, "--alter", *entity, "--add-config", add)
    assert done.returncode, "two mechanisms of a user in one request are an error, as on Kafka"
    tool(configs, "--alter", *entity, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=x]")
    described = tool(configs, "--describe", *entity)
    assert "SCRAM credential configs for user-principal 'dave' are SCRAM-SHA-256=iterations=8192" in described
    file = broker.file("dave", "x")
    assert broker.run("cluster", "id", "--command-config", file, server=broker.sasl).exit_code == 0
    tool(configs, "--alter", *entity, "--delete-config", "SCRAM-SHA-256")
    config = broker.file("alice", "alice-secret")
    assert "Completed expire operation" in tool(tokens, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
