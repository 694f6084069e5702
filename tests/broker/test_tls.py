"""Listeners with TLS on a node, as real clients see them, and what the log says of their mistakes."""

import asyncio
import logging
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from kafka import KafkaConsumer, KafkaProducer
from running_node import RunningNode

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.node.assembly import encryption
from kpybroker.security.tls.contexts import client_context
from kpybroker.security.tls.settings import TlsSettings
from support.certificates import Authority, Certificate
from support.waiting import eventually

PASSWORD = "keystore-secret"
LISTENERS = ("PLAINTEXT", "SECURE", "MTLS", "BOTH")
PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL,MTLS:SSL,BOTH:SASL_SSL"


class Site:
    """A node with listeners of every kind, and the files of its clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.ca = self.authority.save(directory / "ca.pem")
        self.store = self.authority.issue("broker").save_pkcs12(directory / "broker.p12", PASSWORD)
        self.pem = self.authority.issue("broker").save_pem(directory / "broker.pem")
        self.alice = self.client("alice")
        properties = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            "listener.security.protocol.map": PROTOCOLS,
            "log.dirs": str(directory / "data"),
            "group.initial.rebalance.delay.ms": "0",
            "ssl.keystore.location": str(self.store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/,RULE:^CN=CLIENT-(.*)$/$1/L",
            "listener.name.secure.ssl.client.auth": "none",
            "listener.name.secure.ssl.keystore.type": "PEM",
            "listener.name.secure.ssl.keystore.location": str(self.pem),
            "listener.name.both.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.both.plain.sasl.jaas.config": (
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bobs-secret";'
            ),
        }
        properties |= {f"listener.name.{name}.ssl.keystore.password": PASSWORD for name in ("mtls", "both")}
        self.node = RunningNode(properties)

    def client(self, name: str, authority: Authority | None = None) -> Path:
        return (authority or self.authority).issue(name, ()).save_pem(self.directory / f"{name}.pem")

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.node.node.ports[listener]}"

    def seen(self, listener: str) -> set[str]:
        """The principals of the clients that are connected to a listener."""
        server = self.node.node.server
        assert server is not None
        clients = [connection.client for connection in server.connections]
        return {f"{each.security_protocol} {each.principal}" for each in clients if each.listener_name == listener}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("tls"))
    yield site
    site.node.stop()


def librdkafka(site: Site, listener: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": site.address(listener),
        "security.protocol": "SSL",
        "ssl.ca.location": str(site.ca),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def identity(certificate: Path) -> dict[str, str]:
    return {"ssl_certificate_location": str(certificate), "ssl_key_location": str(certificate)}


def test_kafka_python_writes_and_reads_over_tls(site: Site) -> None:
    secure: dict[str, Any] = {
        "bootstrap_servers": site.address("SECURE"), "security_protocol": "SSL", "ssl_cafile": str(site.ca)
    }  # fmt: skip
    producer = KafkaProducer(**secure)
    producer.send("kafka-python", b"hello").get(20)
    assert site.seen("SECURE") == {"SSL User:ANONYMOUS"}
    producer.close()
    consumer = KafkaConsumer("kafka-python", auto_offset_reset="earliest", **secure)
    assert next(consumer).value == b"hello"
    consumer.close()


def test_librdkafka_reads_ten_megabytes_and_is_known_by_its_certificate(site: Site) -> None:
    config = librdkafka(site, "MTLS", **identity(site.alice))
    values = [os.urandom(100_000) for _ in range(100)]
    producer = Producer(config)
    for value in values:
        producer.produce("bulk", value)
    assert producer.flush(30) == 0
    assert site.seen("MTLS") == {"SSL User:alice"}
    consumer = Consumer({**config, "group.id": "bulk", "auto.offset.reset": "earliest", "check.crcs": True})
    consumer.subscribe(["bulk"])
    read: list[bytes] = []
    while len(read) < len(values):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    assert read == values


@pytest.mark.parametrize(
    ("rules", "subject", "expected"),
    [
        ("DEFAULT", [], "User:ANONYMOUS"),
        ("DEFAULT", [(NameOID.COMMON_NAME, "ann")], "User:CN=ann"),
        ("RULE:^CN=(.*)$/$1/,DEFAULT", [(NameOID.COMMON_NAME, "ann")], "User:ann"),
        ("RULE:^CN=a(.*)$/$1/,DEFAULT", [(NameOID.COMMON_NAME, "a")], "User:ANONYMOUS"),
        ("RULE:^(.*)$/x$1/", [], "User:x"),
    ],
)
def test_a_certificate_that_names_no_user_is_that_of_an_anonymous_client(
    rules: str, subject: list[tuple[x509.ObjectIdentifier, str]], expected: str
) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(kind, value) for kind, value in subject])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(x509.Name([])).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    certificate = built.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    config = BrokerConfig.load(None, {"ssl.principal.mapping.rules": rules})
    principal_of = encryption._principals(config, "PLAINTEXT", "SSL")
    assert principal_of is not None
    assert str(principal_of(certificate)) == expected


def test_aiokafka_writes_and_reads_with_a_mapped_name(site: Site) -> None:
    context = ssl.create_default_context(cafile=str(site.ca))
    context.load_cert_chain(site.client("CLIENT-Carol"))

    async def play() -> None:
        secure: dict[str, Any] = {
            "bootstrap_servers": site.address("MTLS"), "security_protocol": "SSL", "ssl_context": context
        }  # fmt: skip
        async with AIOKafkaProducer(**secure) as producer:
            await producer.send_and_wait("aiokafka", b"hello")
            assert site.seen("MTLS") == {"SSL User:carol"}
        async with AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **secure) as consumer:
            assert (await consumer.getone()).value == b"hello"

    eventually(lambda: not site.seen("MTLS"))
    asyncio.run(play())


def test_a_login_names_the_client_where_both_are_there(site: Site) -> None:
    config = librdkafka(
        site, "BOTH", security_protocol="SASL_SSL", sasl_mechanisms="PLAIN", sasl_username="bob", **identity(site.alice)
    )
    config["sasl.password"] = "bobs-secret"
    producer = Producer(config)
    producer.produce("both", b"hello")
    assert producer.flush(20) == 0
    assert site.seen("BOTH") == {"SASL_SSL User:bob"}


def test_mistakes_of_clients_are_named_in_the_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    def tries(**config: Any) -> None:
        admin = AdminClient({"socket.timeout.ms": 3000, **config})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.4)

    stranger = site.client("eve", Authority("Another"))
    plain = {"bootstrap.servers": site.address("SECURE")}
    wrong_ca = librdkafka(site, "SECURE")
    wrong_ca["ssl.ca.location"] = str(Authority("Another").save(site.directory / "other.pem"))
    cases: list[tuple[dict[str, Any], str]] = [
        (plain, "speaks without TLS on listener SECURE (SSL); set security.protocol=SSL in that client"),
        (
            wrong_ca,
            "does not accept the certificate of listener SECURE (SSL) (alert unknown_ca; CN=broker, issued by CN=",
        ),
        (librdkafka(site, "MTLS"), "sent no client certificate on listener MTLS (SSL), and ssl.client.auth=required"),
        (librdkafka(site, "MTLS", **identity(stranger)), "its client certificate is refused on listener MTLS (SSL)"),
        (librdkafka(site, "PLAINTEXT"), "a TLS handshake on a plaintext listener?"),
        (librdkafka(site, "MTLS", **identity(site.client("UNKNOWN"))), "names no user on listener MTLS (SSL)"),
    ]
    server = site.node.node.server
    assert server is not None
    for config, line in cases:
        site.node.call(server.complaints._kept_back.clear)
        with caplog.at_level(logging.INFO, "kpybroker.server"):
            caplog.clear()
            tries(**config)
            eventually(lambda line=line: line in caplog.text)
        assert PASSWORD not in caplog.text
    assert caplog.text.count("\n") < 20, "one line for each kind"


def test_plain_bytes_get_no_answer_that_a_client_could_take_for_a_frame(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.node.node.ports["SECURE"]), timeout=20) as plain:
        plain.sendall(bytes.fromhex("0000001800120000000000010003726177") + bytes(11))
        assert plain.recv(1) == b"", "an alert of TLS would be a frame of 350 MB to Java's clients"


# Renewal


def presented(site: Site, listener: str) -> bytes:
    """The certificate that a listener shows now."""
    trusted = TlsSettings(truststore_type="PEM", truststore_location=str(site.ca))
    with (
        socket.create_connection(("127.0.0.1", site.node.node.ports[listener]), timeout=20) as sock,
        client_context(trusted).wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        shown = tls.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def alter(site: Site, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": site.address("PLAINTEXT")})
    entries = [
        ConfigEntry(
            f"listener.name.secure.ssl.{name.replace('_', '.')}", value, incremental_operation=AlterConfigOpType.SET
        )
        for name, value in configs.items()
    ]
    (done,) = admin.incremental_alter_configs([ConfigResource("BROKER", "1", incremental_configs=entries)]).values()
    done.result(20)


def test_a_listener_takes_over_new_keys_and_open_connections_stay(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer(librdkafka(site, "SECURE"))
    producer.produce("before", b"x")
    assert producer.flush(20) == 0
    before = presented(site, "SECURE")

    renewed = site.authority.issue("broker")
    alter(site, keystore_location=str(renewed.save_pem(site.directory / "renewed.pem")))
    eventually(lambda: presented(site, "SECURE") == renewed.der != before)

    again = site.authority.issue("broker")
    again.save_pem(site.directory / "renewed.pem")
    alter(site, keystore_location=str(site.directory / "renewed.pem"))  # the same value, another file
    eventually(lambda: presented(site, "SECURE") == again.der)

    third = site.authority.issue("broker")
    third.save_pem(site.directory / "renewed.pem")  # nobody says anything
    site.node.call(looks(site))
    eventually(lambda: presented(site, "SECURE") == third.der)

    producer.produce("before", b"y")
    assert producer.flush(20) == 0, "the connection goes on"

    for words, configs in (
        (
            "DistinguishedName does not match",
            {"keystore_location": saved(site, "owner", site.authority.issue("other"))},
        ),
        (
            "SubjectAltNames do not match",
            {"keystore_location": saved(site, "names", site.authority.issue("broker", ["a.example"]))},
        ),
        ("cannot be read", {"keystore_location": "/no/such.pem"}),
        ("restart the broker", {"client_auth": "required"}),
    ):
        with pytest.raises(KafkaException, match=words):
            alter(site, **configs)
    assert presented(site, "SECURE") == third.der

    site.authority.issue("other").save_pem(site.directory / "renewed.pem")
    with caplog.at_level(logging.WARNING, "kpybroker.server"):
        site.node.call(looks(site))
        eventually(lambda: "listener SECURE keeps its former keys" in caplog.text)
    assert presented(site, "SECURE") == third.der


def saved(site: Site, name: str, certificate: Certificate) -> str:
    return str(certificate.save_pem(site.directory / f"{name}.pem"))


def looks(site: Site) -> Callable[[], object]:
    """The look at the files that the timer brings now and then."""
    encryption = site.node.node.encryption
    assert encryption is not None
    return encryption.look


def test_secrets_of_listeners_are_not_shown(site: Site) -> None:
    admin = AdminClient({"bootstrap.servers": site.address("PLAINTEXT")})
    alter(site, key_password="a-new-secret")
    (described,) = admin.describe_configs([ConfigResource("BROKER", "1")]).values()
    shown = {name: entry.value for name, entry in described.result(20).items()}
    assert not [name for name, value in shown.items() if value and ("secret" in value)]
    assert shown["ssl.truststore.location"] == str(site.ca)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "listener SECURE (SSL): no key store is set"),
        ({"ssl.keystore.location": "/no/such.p12"}, "ssl.keystore.location=/no/such.p12 cannot be read: No such file"),
        ({"ssl.keystore.location": "CA"}, "is a PEM file; set ssl.keystore.type=PEM"),
        ({"ssl.keystore.location": "P12", "ssl.keystore.password": "wrong"}, "cannot be read as PKCS12: its password"),
        ({"ssl.principal.mapping.rules": "nonsense", "ssl.keystore.location": "P12", "ssl.keystore.password": PASSWORD},
         "Invalid rule: `nonsense`"),
    ],
)  # fmt: skip
def test_a_start_with_keys_that_cannot_be_used_is_refused(
    site: Site, tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    files = {"CA": str(site.ca), "P12": str(site.store)}
    with pytest.raises(StartRefused) as caught:
        RunningNode(
            {
                "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
                "listener.security.protocol.map": PROTOCOLS,
                "log.dirs": str(tmp_path / "data"),
                **{name: files.get(value, value) for name, value in changes.items()},
            }
        )
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data").exists(), "nothing was written"


def test_a_request_over_tls_costs_no_more_than_its_frame(site: Site) -> None:
    """A raw client, so that the bytes are those of the test: ApiVersions, byte by byte records."""
    trusted = TlsSettings(truststore_type="PEM", truststore_location=str(site.ca))
    with (
        socket.create_connection(("127.0.0.1", site.node.node.ports["SECURE"]), timeout=20) as sock,
        client_context(trusted).wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        body = struct.pack(">hhih", 18, 0, 7, -1)
        for byte in struct.pack(">i", len(body)) + body:
            tls.sendall(bytes([byte]))
        assert struct.unpack(">ii", tls.recv(8))[1] == 7
