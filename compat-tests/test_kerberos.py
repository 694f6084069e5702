"""Real clients log in by Kerberos, or learn why they cannot: Java's, kafka-python, aiokafka and kpybroker's own, with a
KDC on loopback."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from kdc import MISSING, REALM, WHY_MISSING, Kdc
from kpybroker.sasl.jaas import KRB5_MODULE, PLAIN_MODULE
from oracle import BrokerProcess, free_port
from oracle.asked import AskedOracle
from oracle.process import HOST
from targets import KpyBroker
from waiting import eventually

pytest.importorskip("gssapi", reason="gssapi is not installed: pip install 'kpybroker[kerberos]'")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=WHY_MISSING)

BROKER = "kafka/localhost"
SERVICE = "kafka"
RULES = "RULE:[1:$1@$0](svc-.*@.*)s/svc-(.*)@.*/$1/U,RULE:[2:$1-$2](.*)s/-localhost//,DEFAULT"


class Secured(NamedTuple):
    """A broker with a listener for Kerberos, and its KDC."""

    kdc: Kdc
    broker: BrokerProcess
    port: int
    keytabs: dict[str, Path]

    @property
    def server(self) -> str:
        return f"localhost:{self.port}"

    def log(self) -> str:
        return self.broker.output.read_text(encoding="utf-8")

    def jaas(self, principal: str, **options: str) -> str:
        """The JAAS config of a client with a keytab."""
        return with_keytab(principal, self.keytabs[principal], serviceName=SERVICE, **options)


def with_keytab(principal: str, keytab: Path, **options: str) -> str:
    further = "".join(f' {name}="{value}"' for name, value in options.items())
    return (
        f'{KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
        f'principal="{principal}@{REALM}"{further};'
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("kerberos")
    port = free_port()
    with pytest.MonkeyPatch.context() as patch, Kdc(directory) as kdc:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        names = (BROKER, "alice", "svc-orders", "other/localhost", "a/b/c")
        keytabs = {name: kdc.add(name) for name in names}
        broker = KpyBroker(
            {
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "GSSAPI,PLAIN",
                "sasl.kerberos.service.name": SERVICE,
                "listener.name.kerberos.sasl.kerberos.principal.to.local.rules": RULES,
                "listener.name.kerberos.gssapi.sasl.jaas.config": with_keytab(BROKER, keytabs[BROKER]),
                "listener.name.kerberos.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_bob="builder";',
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:alice;User:ORDERS;User:kafka",
            },
            directory=directory,
        )
        broker.properties["listeners"] += f",KERBEROS://{HOST}:{port}"
        broker.properties["advertised.listeners"] += f",KERBEROS://localhost:{port}"
        with broker:
            yield Secured(kdc, broker, port, keytabs)


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


def test_librdkafka_logs_in_with_a_keytab(secured: Secured) -> None:
    from confluent_kafka import KafkaException, Producer

    config = {
        "bootstrap.servers": secured.server,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.keytab": str(secured.keytabs["alice"]),
        "sasl.kerberos.principal": f"alice@{REALM}",
    }
    try:
        producer = Producer(config)
    except KafkaException as error:
        if "No provider for SASL mechanism GSSAPI" in str(error):
            pytest.skip("this librdkafka was built without GSSAPI (libsasl2), as the wheels of confluent-kafka are")
        raise
    acknowledged: list[Any] = []
    producer.produce("logins", b"x", on_delivery=lambda error, _message: acknowledged.append(error))
    assert producer.flush(20) == 0
    assert acknowledged == [None]


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
    assert java_says(secured, java, secured.jaas("alice")) == "ok"
    wrong_service = java_says(secured, java, secured.jaas("alice").replace('"kafka"', '"kafak"'))
    print("WS", wrong_service)
    wrong_keytab = java_says(secured, java, with_keytab("alice", secured.keytabs["svc-orders"], serviceName=SERVICE))
    print("WK", wrong_keytab)
    other_key = java_says(secured, java, secured.jaas("alice").replace('"kafka"', '"other"'))
    print("OK", other_key)
    words = re.compile("login failed: GSSAPI from [0-9.:]+ on listener KERBEROS: .*other/localhost")
    eventually(lambda: words.search(secured.log()), "the reason in the log")
    unnamed = java_says(secured, java, secured.jaas("a/b/c"))
    assert f"Failed to set name for 'a/b/c@{REALM}' based on Kerberos authentication rules." in unnamed


def command(secured: Secured, properties: dict[str, str], **environment: str) -> "subprocess.CompletedProcess[str]":
    """``kpybroker topics list`` with these properties."""
    file = secured.kdc.directory / "command.properties"
    said = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", **properties}
    file.write_text("".join(f"{name}={value}\n" for name, value in said.items()))
    return subprocess.run(
        [str(KpyBroker.path), "topics", "list", "-b", secured.server, "--command-config", str(file)],
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


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {"sasl.kerberos.service.name": SERVICE},
            "the owner of the tickets by GSSAPI: no ticket for this user: No Cre",
        ),
        ({"sasl.kerberos.service.name": "kafak", "sasl.kerberos.keytab": "", "sasl.kerberos.principal": "alice"}, ""),
        ({}, "GSSAPI needs sasl.kerberos.service.name; the usual one is kafka"),
    ],
)
def test_a_mistake_in_a_command_is_one_line(secured: Secured, properties: dict[str, str], words: str) -> None:
    said = command(secured, properties)
    assert said.returncode != 0
    assert words in said.stderr
    assert "Traceback" not in said.stderr
