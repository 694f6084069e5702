"""No secret is shown: a broker at DEBUG with every kind of secret is used rightly and wrongly, and all it says is read.

What it says is its log, its metrics, what it answers about configs, what commands print of its files, and the `repr`
of every message and object that holds a secret.
"""

import base64
import hashlib
import hmac
import json
import secrets
import socket
import struct
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attacker import Attacker
from click.testing import CliRunner
from login_crowds import handshake, metadata, play, token
from secured_broker import LOGIN, PASSWORD, USER, SecuredBroker

from kpybroker.cli import main
from kpybroker.machines.sasl.plain import PlainClient
from kpybroker.machines.sasl.scram import SCRAM_SHA_256, ClientFinal, ServerFinal
from kpybroker.machines.sasl.scram_client import ScramClient
from kpywire.error_codes import NONE
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kpywire.messages.create_delegation_token import CreateDelegationTokenResponse
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

MASTER_KEY = "the-master-key-of-all-tokens"
KEY_PASSWORD = "the-password-of-the-private-key"
WRONG = "a-wrong-password-that-somebody-typed"
CAROLS = "carol's-password"
NEW = "a-password-that-was-set-by-a-request"
JAAS_KEY = f"listener.name.{LOGIN.lower()}.plain.sasl.jaas.config"


class TalkativeBroker(SecuredBroker):
    """It logs all it can, and has a second port."""

    def command(self) -> Sequence[str]:
        return [*super().command(), "--log-level", "DEBUG"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TalkativeBroker]:
    directory = tmp_path_factory.mktemp("talkative")
    broker = TalkativeBroker({"delegation.token.secret.key": MASTER_KEY}, directory=directory)
    broker.with_http = True
    broker.properties["ssl.keystore.location"] = str(
        broker.authority.issue().save_pem(directory / "encrypted.pem", KEY_PASSWORD)
    )
    broker.properties["ssl.key.password"] = KEY_PASSWORD
    with broker:
        yield broker


class Used:
    """All secrets that were used, by what they are."""

    def __init__(self) -> None:
        self.texts = {
            "password of PLAIN": PASSWORD,
            "key of tokens": MASTER_KEY,
            "password of a key": KEY_PASSWORD,
            "wrong password": WRONG,
            "password of SCRAM": CAROLS,
            "password set by a request": NEW,
        }
        self.bytes: dict[str, bytes] = {}

    def found_in(self, reported: str) -> list[str]:
        """The secrets that a text holds, as they are or in base64, hex, or as Python writes bytes."""
        spelled = [(what, text) for what, text in self.texts.items()]
        for what, data in self.bytes.items():
            spelled += [(what, base64.b64encode(data).decode()), (what, data.hex()), (what, repr(data)[2:-1])]
        spelled += [(what, base64.b64encode(text.encode()).decode()) for what, text in self.texts.items()]
        return [what for what, text in spelled if text in reported]


def ask(port: int, request: Any, version: int) -> Any:
    with Attacker(port) as client:
        return client.call(request, version)


def log_in(broker: TalkativeBroker, used: Used) -> None:
    """By each mechanism, rightly and wrongly, and in the wrong place."""
    for user, password in ((USER, PASSWORD), (USER, WRONG), ("nobody", WRONG)):
        data = handshake() + token(PlainClient(user, password).first())
        play(broker.ports[LOGIN], lambda _number, data=data: data + metadata(), iter([0]), 1, ends=True)
    salt = secrets.token_bytes(20)
    salted = SCRAM_SHA_256.salted_password(CAROLS, salt, 4_096)
    upsertion = ScramCredentialUpsertion(name="carol", mechanism=1, iterations=4_096, salt=salt, salted_password=salted)
    answer = ask(broker.port, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]), 0)
    assert answer.results[0].error_code == NONE
    credential = SCRAM_SHA_256.credential(salted, salt, 4_096)
    used.bytes |= {
        "salted password": salted,
        "stored key": credential.stored_key,
        "server key": credential.server_key,
        "client key": hmac.digest(salted, b"Client Key", hashlib.sha256),
    }
    for password in (CAROLS, WRONG):
        exchange = ScramClient(SCRAM_SHA_256, "carol", password, secrets.token_hex(8))
        with Attacker(broker.ports[LOGIN]) as client:
            client.sock.sendall(handshake("SCRAM-SHA-256"))
            client.read_frame()
            message: bytes | None = exchange.first()
            with suppress(Exception):  # the wrong one ends here
                while message is not None:
                    answered = client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
                    if b",p=" in message:
                        used.texts[f"proof of {password}"] = message.decode().rpartition(",p=")[2]
                    message = exchange.respond(answered.auth_bytes)
    raw = struct.pack(">i", 400) + PlainClient(USER, PASSWORD).first()
    for port in broker.ports.values():  # to whom it may concern
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(raw)
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(PASSWORD.encode() + b"\r\n" + raw)


def change_configs(broker: TalkativeBroker) -> list[Any]:
    """Set passwords, and try to set what is refused."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    values = [
        (JAAS_KEY, f'{module} required user_{USER}="{PASSWORD}" user_bob="{NEW}";'),
        (JAAS_KEY, f'com.sun.security.auth.module.JndiLoginModule required user_bob="{NEW}";'),
        (JAAS_KEY, f'{module} required user_bob="{NEW}'),
        ("ssl.key.password", NEW),
        ("listener.name.encrypted.ssl.keystore.password", NEW),
        ("listener.name.encrypted.ssl.key.password", NEW),
        ("delegation.token.secret.key", NEW),
    ]
    answers = []
    for name, value in values:
        resource = AlterConfigsResource(
            resource_type=4, resource_name="1", configs=[AlterableConfig(name=name, config_operation=0, value=value)]
        )
        answers.append(ask(broker.port, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1))
    everything = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    described = DescribeConfigsRequest(resources=[everything], include_synonyms=True, include_documentation=False)
    return [*answers, ask(broker.port, described, 4)]


def use_tokens(broker: TalkativeBroker, used: Used, directory: Path) -> list[str]:
    """Create, log in by, list and end a token with the commands."""
    file = directory / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{USER}" password="{PASSWORD}";\n'
    )
    server = ["-b", f"127.0.0.1:{broker.ports[LOGIN]}", "--command-config", str(file)]
    made = CliRunner().invoke(main, ["tokens", "create", "--json", *server])
    assert made.exit_code == 0, made.output
    found = json.loads(made.output)
    used.texts["HMAC of a token"] = found["hmac"]
    used.bytes["HMAC of a token"] = base64.b64decode(found["hmac"])
    outputs = [CliRunner().invoke(main, ["tokens", *words, *server]).output for words in (["list"], ["list", "--json"])]
    further = (["renew", found["token_id"]], ["expire", found["token_id"]], ["renew", found["token_id"]])
    return [*outputs, *(CliRunner().invoke(main, ["tokens", *words, *server]).output for words in further)]


def printed_of_files(broker: TalkativeBroker) -> list[str]:
    """The outputs of the commands that print files."""
    log = broker.data / "__cluster_metadata-0"
    runs = [
        ["dump-log", "--cluster-metadata-decoder", str(log)],
        ["dump-log", "--cluster-metadata-decoder", "--json", str(log)],
        ["metadata", "-d", str(log), "tree"],
        ["metadata", "-d", str(log), "tree", "--json"],
    ]
    outputs = [CliRunner().invoke(main, run) for run in runs]
    for output in outputs:
        assert output.exit_code == 0, output.output
        assert len(output.output) > 500
    return [output.output for output in outputs]


def test_no_secret_is_in_a_log_an_answer_a_metric_or_a_dump(broker: TalkativeBroker, tmp_path: Path) -> None:
    used = Used()
    log_in(broker, used)
    answers = change_configs(broker)
    shown = use_tokens(broker, used, tmp_path)
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/metrics") as page:
        shown.append(page.read().decode())
    shown += printed_of_files(broker)
    shown += [repr(answer) for answer in answers]
    shown += [str(each.configs) for each in answers[-1].results]
    log = broker.output.read_text(errors="replace")
    assert "login failed: PLAIN" in log
    assert "login failed: SCRAM-SHA-256" in log
    assert "carol" in "".join(shown), "the dumps show the user"
    assert JAAS_KEY in "".join(shown), "and the config, without its value"
    assert not used.found_in(log)
    for reported in shown:
        assert not used.found_in(reported), reported
    assert used.found_in(f"x{MASTER_KEY}x"), "the search finds what is there"


def test_no_secret_is_in_a_repr() -> None:
    used = Used()
    data = secrets.token_bytes(32)
    used.bytes["bytes"] = data
    credential = SCRAM_SHA_256.credential(data, b"salt", 4_096)
    holders = [
        SaslAuthenticateRequest(auth_bytes=data),
        SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=data),
        ScramCredentialUpsertion(name="a", mechanism=1, iterations=1, salt=b"s", salted_password=data),
        CreateDelegationTokenResponse(hmac=data),
        RenewDelegationTokenRequest(hmac=data, renew_period_ms=1),
        ExpireDelegationTokenRequest(hmac=data, expiry_time_period_ms=1),
        UserScramCredentialRecord(name="a", mechanism=1, salt=b"s", stored_key=data, server_key=data, iterations=1),
        AlterableConfig(name="ssl.key.password", config_operation=0, value=PASSWORD),
        AlterableConfig(name=JAAS_KEY, config_operation=0, value=f'module required password="{PASSWORD}";'),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.keystore.password", value=PASSWORD),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.keystore.key", value=PASSWORD),
        credential,
        PlainClient("alice", PASSWORD),
        ScramClient(SCRAM_SHA_256, "alice", PASSWORD, "nonce"),
        ClientFinal.made("n,,", "nonce", data),
        ServerFinal(data),
    ]
    for holder in holders:
        assert not used.found_in(repr(holder)), type(holder).__name__
        assert not used.found_in(repr([holder])), type(holder).__name__
