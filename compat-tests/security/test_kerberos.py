"""Real clients log in by Kerberos, or learn why they cannot: Java's, kafka-python, aiokafka and kpybroker's own, with a
KDC on loopback."""

import asyncio
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from kpybroker.machines.sasl.gssapi import GssapiClient, GssFailure
from kpybroker.machines.sasl.jaas import KRB5_MODULE
from kpybroker.machines.sasl.krb5_login import Krb5Login
from kpybroker.security.kerberos import contexts
from kpybroker.security.kerberos.contexts import Initiator
from kpywire.error_codes import SASL_AUTHENTICATION_FAILED
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from oracle import BrokerProcess, BrokerProcessError, free_port
from oracle.asked import AskedOracle
from oracle.process import HOST
from support.kdc import MISSING, REALM, WHY_MISSING, Kdc, with_keytab
from support.raw_client import RawClient
from support.targets import KpyBroker
from support.waiting import eventually

pytest.importorskip("gssapi", reason="gssapi is not installed: pip install 'kpybroker[kerberos]'")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=WHY_MISSING)

BROKER = "kafka/localhost"
SERVICE = "kafka"
SERVICE_KEY = "sasl.kerberos.service.name"
KEYS = {"sasl.kerberos.principal": "alice", "sasl.kerberos.keytab": "KEYTAB"}
KCAT = shutil.which("kcat")
LISTENERS = ("KERBEROS", "REPLAYED", "REKEYED")
"""All alike: the log has one line of a kind for each listener in ten seconds."""
RULES = "RULE:[1:$1@$0](svc-.*@.*)s/svc-(.*)@.*/$1/U,RULE:[2:$1-$2](.*)s/-localhost//,DEFAULT"


class Secured(NamedTuple):
    """A broker with a listener for Kerberos, and its KDC."""

    kdc: Kdc
    broker: BrokerProcess
    ports: dict[str, int]
    keytabs: dict[str, Path]

    @property
    def server(self) -> str:
        return f"localhost:{self.ports['KERBEROS']}"

    def log(self) -> str:
        return self.broker.output.read_text(encoding="utf-8")

    def jaas(self, principal: str, **options: str) -> str:
        """The JAAS config of a client with a keytab."""
        return with_keytab(principal, self.keytabs[principal], serviceName=SERVICE, **options)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("kerberos")
    with pytest.MonkeyPatch.context() as patch, Kdc(directory) as kdc:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        names = (BROKER, "alice", "svc-orders", "other/localhost", "a/b/c")
        keytabs = {name: kdc.add(name) for name in names}
        ports = {name: free_port() for name in LISTENERS}
        broker = KpyBroker(
            {
                "listener.security.protocol.map": ",".join(
                    ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in LISTENERS)]
                ),
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.kerberos.service.name": SERVICE,
                "listener.name.kerberos.sasl.kerberos.principal.to.local.rules": RULES,
                **{
                    f"listener.name.{name.lower()}.gssapi.sasl.jaas.config": with_keytab(BROKER, keytabs[BROKER])
                    for name in LISTENERS
                },
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:alice;User:ORDERS",
            },
            directory=directory,
        )
        for key, host in (("listeners", HOST), ("advertised.listeners", "localhost")):
            broker.properties[key] += "".join(f",{name}://{host}:{port}" for name, port in ports.items())
        with broker:
            yield Secured(kdc, broker, ports, keytabs)


def test_the_kdc_takes_another_port_where_its_own_is_taken(tmp_path: Path) -> None:
    kdc = Kdc(tmp_path)
    with socket.create_server((HOST, kdc.port)) as other, kdc:
        assert kdc.port != other.getsockname()[1]
        kdc.tickets("alice", kdc.add("alice"))


def of_kafka_python(secured: Secured, **further: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": secured.server,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": SERVICE,
        **further,
    }


def with_tickets(secured: Secured, patch: pytest.MonkeyPatch, principal: str = "alice", *options: str) -> None:
    """Let this process have the tickets of a principal."""
    patch.setenv("KRB5CCNAME", f"FILE:{secured.kdc.tickets(principal, secured.keytabs[principal], *options)}")


def test_kafka_python_and_aiokafka_log_in_with_tickets(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    with_tickets(secured, monkeypatch)
    producer = KafkaProducer(**of_kafka_python(secured))
    assert producer.send("logins", b"x").get(20).partition == 0
    producer.close()

    async def send() -> int:
        async with AIOKafkaProducer(**of_kafka_python(secured)) as aio:
            return int((await aio.send_and_wait("logins", b"x")).partition)

    assert asyncio.run(send()) == 0


def test_librdkafka_logs_in_with_a_keytab(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's librdkafka, by kcat: wheels of confluent-kafka are built without GSSAPI."""
    features = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout if KCAT else ""
    if "sasl_gssapi" not in features:
        pytest.skip("kcat with GSSAPI is not installed (Debian's kcat and libsasl2-modules-gssapi-mit)")
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.keytab": str(secured.keytabs["alice"]),
        "sasl.kerberos.principal": f"alice@{REALM}",
    }
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{secured.kdc.directory / 'librdkafka.tickets'}")
    words = [word for name, value in config.items() for word in ("-X", f"{name}={value}")]
    sent = subprocess.run(
        ["kcat", "-b", secured.server, "-P", "-t", "logins", *words],
        input="x\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert sent.returncode == 0, sent.stderr


@pytest.fixture(scope="module")
def java(secured: Secured) -> Iterator[AskedOracle]:
    oracle = AskedOracle("ClientLogins.java", "ClientLogins")
    oracle.ask_for_line("set", "java.security.krb5.conf", secured.kdc.configuration)
    yield oracle
    oracle.close()


def java_says(secured: Secured, java: AskedOracle, jaas: str, **further: str) -> str:
    """The outcome of one record that Java's producer sends."""
    properties = {
        "bootstrap.servers": secured.server,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": jaas,
        "max.block.ms": "3000",
        **further,
    }
    file = secured.kdc.directory / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return java.ask_for_line(file, "logins")


@pytest.mark.java
def test_java_logs_in_with_a_keytab_and_learns_about_mistakes(secured: Secured, java: AskedOracle) -> None:
    unhurried = {"max.block.ms": "30000"}
    assert java_says(secured, java, secured.jaas("alice"), **unhurried) == "ok"
    # Java finds no such service in the KDC, and ends the connection.
    wrong_service = java_says(secured, java, secured.jaas("alice").replace('"kafka"', '"kafak"'))
    assert "terminated during authentication" in wrong_service
    wrong_keytab = java_says(secured, java, with_keytab("alice", secured.keytabs["svc-orders"], serviceName=SERVICE))
    assert "LoginException: Could not login" in wrong_keytab
    other_key = java_says(secured, java, secured.jaas("alice").replace('"kafka"', '"other"'))
    assert "due to invalid credentials with SASL mechanism GSSAPI" in other_key
    words = re.compile("login failed: GSSAPI from [0-9.:]+ on listener KERBEROS: .*other/localhost")
    eventually(lambda: words.search(secured.log()), "the reason in the log")
    unnamed = java_says(secured, java, secured.jaas("a/b/c"))
    assert f"Failed to set name for 'a/b/c@{REALM}' based on Kerberos authentication rules." in unnamed


def command(
    secured: Secured, properties: dict[str, str], *words: str, server: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    """``kpybroker topics`` with these properties: ``list``, or other words."""
    file = secured.kdc.directory / "command.properties"
    reported = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", **properties}
    file.write_text("".join(f"{name}={value}\n" for name, value in reported.items()))
    return subprocess.run(
        [
            str(KpyBroker.path),
            "topics",
            *(words or ["list"]),
            "-b",
            server or secured.server,
            "--command-config",
            str(file),
        ],
        env={**secured.kdc.environment, "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_commands_log_in_with_a_keytab_or_with_tickets(secured: Secured) -> None:
    by_keytab = command(secured, {"sasl.jaas.config": secured.jaas("alice")})
    assert by_keytab.returncode == 0, by_keytab.stderr
    keytab = {"sasl.kerberos.keytab": str(secured.keytabs["alice"]), "sasl.kerberos.principal": "alice"}
    as_librdkafka = command(secured, {**keytab, "sasl.kerberos.service.name": SERVICE})
    assert as_librdkafka.returncode == 0, as_librdkafka.stderr
    tickets = secured.kdc.tickets("alice", secured.keytabs["alice"])
    by_tickets = command(secured, {"sasl.kerberos.service.name": SERVICE}, KRB5CCNAME=f"FILE:{tickets}")
    assert by_tickets.returncode == 0, by_tickets.stderr


def test_a_principal_becomes_the_user_of_the_rules(secured: Secured) -> None:
    made = command(secured, {"sasl.jaas.config": secured.jaas("svc-orders")}, "create", "orders")
    assert made.returncode == 0, made.stderr  # ORDERS may do everything
    denied = command(secured, {"sasl.jaas.config": secured.jaas("other/localhost")}, "create", "others")
    assert denied.returncode == 1
    eventually(lambda: "Principal = User:other is Denied operation = CREATE" in secured.log(), "the line of the audit")


MISTAKES = [
    ({SERVICE_KEY: SERVICE}, "as the owner of the tickets by GSSAPI: no ticket for this user: No Kerberos credentials"),
    ({}, "GSSAPI needs sasl.kerberos.service.name; the usual one is kafka"),
    ({SERVICE_KEY: "kafak", **KEYS}, f"principal 'alice' by GSSAPI: Server kafak/localhost@{REALM} not found in Kerb"),
    ({SERVICE_KEY: SERVICE, **KEYS, "sasl.kerberos.principal": "bob"}, "no ticket for bob by the keytab"),
    ({SERVICE_KEY: SERVICE, **KEYS, "sasl.kerberos.principal": ""}, "sasl.kerberos.principal is a text"),
    ({SERVICE_KEY: "other", **KEYS}, "due to invalid credentials with SASL mechanism GSSAPI: check its principal and"),
    ({"sasl.jaas.config": f"{KRB5_MODULE} required serviceName=kafka;"}, "names neither a keytab (useKeyTab=true) nor"),
]


@pytest.mark.parametrize(("properties", "words"), MISTAKES)
def test_a_mistake_in_a_command_is_one_line(secured: Secured, properties: dict[str, str], words: str) -> None:
    keytab = str(secured.keytabs["alice"])
    reported = command(secured, {name: keytab if value == "KEYTAB" else value for name, value in properties.items()})
    assert reported.returncode in (1, 2)
    assert words in reported.stderr
    assert "Traceback" not in reported.stderr


def test_an_expired_ticket_is_named(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = secured.kdc.tickets("alice", secured.keytabs["alice"], "-l", "2s")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    initiator = Initiator(Krb5Login(service=SERVICE))
    assert initiator.context("localhost").step(b"")
    eventually(
        lambda: "expired" in failure_of(lambda: initiator.context("localhost").step(b"")), "the end of the ticket"
    )


def test_tickets_of_a_keytab_are_renewed(secured: Secured) -> None:
    keytab = secured.kdc.add("brief", "-maxlife", "2s")
    initiator = Initiator(Krb5Login("brief", use_keytab=True, keytab=str(keytab), service=SERVICE))
    asked = requests_for_tickets(secured, "brief")
    for _ in range(8):
        assert initiator.context("localhost").step(b"")
        time.sleep(0.5)
    # The ticket lives for two seconds, and four have passed.
    assert requests_for_tickets(secured, "brief") >= asked + 2


def requests_for_tickets(secured: Secured, principal: str) -> int:
    log = (secured.kdc.directory / "kdc.log").read_text()
    return len(re.findall(rf"AS_REQ .*ISSUE: .* {principal}@{REALM} for krbtgt", log))


def failure_of(work: Callable[[], object]) -> str:
    try:
        work()
    except GssFailure as why:
        return str(why)
    return ""


@pytest.fixture
def raw(secured: Secured) -> Iterator[RawClient]:
    with RawClient(secured.ports["KERBEROS"]) as client:
        yield client


def client_half(secured: Secured) -> GssapiClient:
    login = Krb5Login("alice", use_keytab=True, keytab=str(secured.keytabs["alice"]), service=SERVICE)
    initiator = Initiator(login)
    return GssapiClient(lambda: initiator.context("localhost"))


def test_requests_that_come_with_the_login_are_served_after_it(secured: Secured, raw: RawClient) -> None:
    """The broker's thread is busy with a token, and the next requests are here already."""
    half = client_half(secured)
    assert raw.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
    message: bytes | None = half.first()
    offers = 0
    while message is not None and offers < 2:
        message = half.respond(raw.call(SaslAuthenticateRequest(auth_bytes=message), 2).auth_bytes)
        offers += 1
    last = raw.frame(SaslAuthenticateRequest(auth_bytes=message), 2)
    raw.sock.sendall(last + raw.frame(MetadataRequest(topics=[]), 12) * 3)
    assert raw.receive(SaslAuthenticateRequest.KEY, 2).error_code == 0
    assert all(raw.receive(MetadataRequest.KEY, 12).brokers for _ in range(3))


def test_tokens_may_come_without_headers(secured: Secured, raw: RawClient) -> None:
    """SaslHandshake version 0 announces them."""
    half = client_half(secured)
    assert raw.call(SaslHandshakeRequest(mechanism="GSSAPI"), 0).error_code == 0
    message: bytes | None = half.first()
    while message is not None:
        raw.sock.sendall(len(message).to_bytes(4, "big") + message)
        size = int.from_bytes(raw.sock.recv(4, socket.MSG_WAITALL), "big")
        message = half.respond(raw.sock.recv(size, socket.MSG_WAITALL) if size else b"")
    assert half.is_complete
    assert raw.call(MetadataRequest(topics=[]), 12).brokers


def test_a_token_that_was_there_before_ends_the_connection_without_an_answer(secured: Secured) -> None:
    token = client_half(secured).first()
    with RawClient(secured.ports["REPLAYED"]) as honest, RawClient(secured.ports["REPLAYED"]) as other:
        assert honest.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
        assert honest.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
        assert other.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
        other.sock.sendall(other.frame(SaslAuthenticateRequest(auth_bytes=token), 2))
        assert other.is_closed()
    eventually(lambda: "on listener REPLAYED: Request is a replay" in secured.log(), "the reason in the log")


@pytest.mark.parametrize("token", [b"", b"\0", b"junk" * 1000, b"\x60\x82\xff\xff\x06\x09", bytes(50_000)])
def test_tokens_that_are_none_are_refused(raw: RawClient, token: bytes) -> None:
    assert raw.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
    answer = raw.call(SaslAuthenticateRequest(auth_bytes=token), 2)
    assert answer.error_code == SASL_AUTHENTICATION_FAILED
    assert answer.error_message.endswith("due to invalid credentials with SASL mechanism GSSAPI")
    assert raw.is_closed()


def test_a_client_that_leaves_during_its_login_is_forgotten(secured: Secured) -> None:
    for _ in range(20):
        with RawClient(secured.ports["KERBEROS"]) as gone:
            handshake = gone.frame(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
            gone.sock.sendall(handshake + gone.frame(SaslAuthenticateRequest(auth_bytes=b"junk"), 2))
    assert command(secured, {"sasl.jaas.config": secured.jaas("alice")}).returncode == 0
    assert "Traceback" not in secured.log()


def test_a_start_without_a_key_is_refused_in_one_line(secured: Secured, tmp_path: Path) -> None:
    keytab = secured.keytabs[BROKER]
    jaas = "listener.name.kerberos.gssapi.sasl.jaas.config"
    broker = KpyBroker(
        {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            jaas: with_keytab("kafka/elsewhere", keytab),
        },
        directory=tmp_path,
    )
    broker.properties["listeners"] += f",KERBEROS://{HOST}:{free_port()}"
    broker.prepare()
    with pytest.raises(BrokerProcessError):
        broker.start()
    reported = broker.output.read_text()
    assert f"{jaas}: {keytab}: no key of kafka/elsewhere@{REALM} can be read: No key table entry found for" in reported
    assert "Traceback" not in reported


def test_a_keytab_that_is_replaced_counts_at_once(secured: Secured) -> None:
    """The last test of this broker: its former keys are of no use afterwards."""
    keytab = secured.keytabs[BROKER]
    secured.kdc.change_key(BROKER)
    alice = {"sasl.jaas.config": secured.jaas("alice")}
    server = f"localhost:{secured.ports['REKEYED']}"
    refused = command(secured, alice, "list", server=server)
    assert "due to invalid credentials with SASL mechanism GSSAPI" in refused.stderr
    eventually(lambda: f"Cannot find key for {BROKER}@{REALM} kvno 2 in keytab" in secured.log(), "the reason")
    secured.kdc.run("kadmin.local", "-r", REALM, "-q", f"ktadd -norandkey -k {keytab} {BROKER}")
    assert command(secured, alice, "list", server=server).returncode == 0


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts._library.cache_clear()
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(GssFailure, match=r"pip install 'kpybroker\[kerberos\]'"):
        contexts.Acceptor(Krb5Login("kafka/localhost", use_keytab=True)).check()
    contexts._library.cache_clear()
