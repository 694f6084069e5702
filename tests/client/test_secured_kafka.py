"""The command line and both shells of the client against Apache Kafka with TLS and logins: what works, and the one line
for each mistake."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import main
from kpybroker.client.asyncio_connection import AsyncioConnection
from kpybroker.client.connection import BrokerConnection
from kpybroker.client.login import LoginRefused
from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import security_of
from kpywire.messages.metadata import MetadataRequest
from oracle import ApacheKafka, free_port
from support.certificates import Authority

pytestmark = pytest.mark.java

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM = f'{SCRAM_MODULE} required username="alice" password="alice-secret";'
PLAIN = f'{PLAIN_MODULE} required username="bob" password="bobs secret";'
REAUTHENTICATED_MS = 1_200


class Secured(NamedTuple):
    """A Kafka node with a listener of each kind, all in the same directory of keys."""

    directory: Path
    sasl_ssl: int
    mutual: int
    sasl: int
    plain: int
    expired: int

    def run(
        self, port: int, properties: dict[str, str], *words: str, stdin: str = "", host: str = "localhost"
    ) -> Result:
        file = self.directory / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        arguments = [*words, "-b", f"{host}:{port}", "--command-config", str(file)]
        return CliRunner().invoke(main, arguments, input=stdin)

    @property
    def trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / "ca.pem")}

    def login(self, mechanism: str = "SCRAM-SHA-512", jaas: str = SCRAM) -> dict[str, str]:
        return {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas, **self.trust}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("keys")
    authority = Authority()
    authority.save(directory / "ca.pem")
    Authority("Another authority").save(directory / "other.pem")
    server = authority.issue("server", ["localhost"], days=(-1, 60)).save_pkcs12(
        directory / "server.p12", "server-secret"
    )
    expired = authority.issue("server", ["localhost"], days=(-3, -1)).save_pkcs12(
        directory / "old.p12", "server-secret"
    )
    authority.issue("client").save_pem(directory / "client.pem")
    made = Secured(directory, *(free_port() for _ in range(5)))
    names = {"SASL_SSL": made.sasl_ssl, "MUTUAL": made.mutual, "SASL": made.sasl, "PLAINTEXT": made.plain}
    names["EXPIRED"] = made.expired
    kafka = ApacheKafka(
        directory=directory / "kafka",
        port=made.plain,
        formatting=("--standalone", "--add-scram", 'SCRAM-SHA-512=[name=alice,password="alice-secret"]'),
    )
    store = {"location": str(server), "password": "server-secret", "type": "PKCS12"}
    listeners = ",".join(
        [f"{name}://localhost:{port}" for name, port in names.items()]
        + [f"CONTROLLER://localhost:{kafka.controller_port}"]
    )
    jaas = f'{PLAIN_MODULE} required user_bob="bobs secret";'
    kafka.properties |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,MUTUAL:SSL,SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "EXPIRED:SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_ssl.plain.connections.max.reauth.ms": str(REAUTHENTICATED_MS),
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": jaas,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.location": str(expired),
        **{f"ssl.keystore.{name}": value for name, value in store.items()},
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }
    with kafka:
        yield made


def line(result: Result, code: int) -> str:
    """The one line of a mistake."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert "Traceback" not in result.stderr
    return lines[-1].removeprefix("Error: ")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_commands_work_behind_tls_and_a_login(node: Secured, mechanism: str) -> None:
    properties = node.login(mechanism, PLAIN if mechanism == "PLAIN" else SCRAM)
    topic = f"t-{mechanism}"
    assert node.run(node.sasl_ssl, properties, "topics", "create", topic).exit_code == 0
    assert node.run(node.sasl_ssl, properties, "produce", topic, "-q", stdin="one\ntwo\n").exit_code == 0
    consumed = node.run(node.sasl_ssl, properties, "consume", topic, "-c", "2", "-q")
    assert (consumed.exit_code, consumed.stdout) == (0, "one\ntwo\n")


def test_a_properties_file_of_librdkafka_works_too_and_x_counts_before_it(node: Secured) -> None:
    properties = {
        "bootstrap.servers": f"localhost:{node.sasl_ssl}",
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": "bobs secret",
        "ssl.ca.location": str(node.directory / "ca.pem"),
        "statistics.interval.ms": "1000",
    }
    assert node.run(node.sasl_ssl, properties, "topics", "list").exit_code == 0
    file = str(node.directory / "client.properties")
    assert CliRunner().invoke(main, ["topics", "list"], env={"KPYBROKER_COMMAND_CONFIG": file}).exit_code == 0
    wrong = node.run(node.sasl_ssl, properties, "produce", "t", "-X", "sasl.password=no", stdin="x\n")
    assert "refuses the login of user 'bob' by PLAIN: Authentication failed: Invalid username or password" in line(
        wrong, 1
    )


def test_a_client_certificate_is_shown_where_it_is_demanded(node: Secured) -> None:
    keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(node.directory / "client.pem")}
    secured = {"security.protocol": "SSL", **node.trust}
    assert node.run(node.mutual, {**secured, **keys}, "topics", "list").exit_code == 0
    error_line = line(node.run(node.mutual, secured, "topics", "list"), 3)
    assert "demands a client certificate: set ssl.keystore.location" in error_line


def test_each_mistake_is_one_line_that_says_what_to_change(node: Secured) -> None:
    def error_line(port: int, properties: dict[str, str], code: int = 3, host: str = "localhost") -> str:
        return line(node.run(port, properties, "topics", "list", host=host), code)

    right, tls = node.login(), {"security.protocol": "SSL", **node.trust}
    wrong = error_line(node.sasl_ssl, right | {"sasl.jaas.config": SCRAM.replace("alice-secret", "guess")}, 1)
    assert "refuses the login of user 'alice' by SCRAM-SHA-512" in wrong
    assert "check user and password (sasl.jaas.config) (SASL_AUTHENTICATION_FAILED)" in wrong
    assert "guess" not in wrong
    assert "does not enable SCRAM-SHA-256, but PLAIN, SCRAM-SHA-512: set sasl.mechanism=PLAIN" in error_line(
        node.sasl_ssl, right | {"sasl.mechanism": "SCRAM-SHA-256"}, 1
    )
    assert "speaks TLS, not Kafka's protocol: a listener with TLS; set security.protocol=SSL" in error_line(
        node.sasl_ssl, {}
    )
    assert "speaks Kafka's protocol without TLS: set security.protocol=PLAINTEXT, or SASL_PLAINTEXT" in error_line(
        node.plain, tls
    )
    assert "speaks Kafka's protocol without TLS: set security.protocol=SASL_PLAINTEXT" in error_line(node.sasl, right)
    assert "demands a login by PLAIN: set security.protocol=SASL_PLAINTEXT" in error_line(node.sasl, {})
    assert "demands a login by PLAIN, SCRAM-SHA-512: set security.protocol=SASL_SSL" in error_line(node.sasl_ssl, tls)
    assert "is a listener without a login: set security.protocol=PLAINTEXT" in error_line(
        node.plain, {**node.login("PLAIN", PLAIN), "security.protocol": "SASL_PLAINTEXT"}, 1
    )
    other = right | {"ssl.truststore.location": str(node.directory / "other.pem")}
    assert (
        "is not trusted (self-signed certificate in certificate chain); it was issued by CN=Test authority: give"
        in error_line(node.sasl_ssl, other)
    )
    named = error_line(node.sasl_ssl, right, host="127.0.0.1")
    assert "is not for 127.0.0.1, it is for localhost: connect by a name of the certificate" in named
    unchecked = right | {"ssl.endpoint.identification.algorithm": ""}
    assert node.run(node.sasl_ssl, unchecked, "topics", "list", host="127.0.0.1").exit_code == 0
    assert f"the certificate of localhost:{node.expired} expired on 20" in error_line(node.expired, tls)


def test_the_doctor_dials_each_listener(node: Secured) -> None:
    result = node.run(node.sasl_ssl, node.login(), "doctor", "--patience", "0", "--json")
    assert result.exit_code == 4
    found = [each["message"] for each in json.loads(result.stdout) if each["check"] == "listeners"]

    def about(name: str) -> str:
        (message,) = (each for each in found if f"listener {name}:" in each)
        return message

    assert "certificate for localhost, issued by CN=Test authority, valid until" in about("SASL_SSL")
    assert about("SASL_SSL").endswith("; logins by PLAIN, SCRAM-SHA-512")
    assert about("SASL").endswith(": logins by PLAIN")
    assert "expired on 20" in about("EXPIRED")
    assert len(found) == 4


def protection(properties: dict[str, str]) -> ConnectionProtection:
    return ConnectionProtection(security_of(properties))


REQUEST = MetadataRequest(topics=[], allow_auto_topic_creation=False)


def test_a_session_is_renewed_before_it_ends_by_both_shells(node: Secured) -> None:
    """Later than the session's end, only a renewal is answered."""
    secured = protection(node.login("PLAIN", PLAIN))
    blocking = BrokerConnection("localhost", node.sasl_ssl, 10, protection=secured)

    async def both() -> None:
        running = await AsyncioConnection.connect("localhost", node.sasl_ssl, "me", secured)
        await running.call(REQUEST)
        blocking.call(REQUEST)
        await asyncio.sleep(REAUTHENTICATED_MS / 1000 + 0.1)
        assert not blocking.is_closed
        await running.call(REQUEST)
        blocking.call(REQUEST)
        running.close()

    asyncio.run(both())
    blocking.close()


def test_the_asyncio_shell_names_mistakes_too(node: Secured) -> None:
    async def error_line(port: int, properties: dict[str, str] | None, host: str = "localhost") -> str:
        secured = None if properties is None else protection(properties)

        async def ask() -> None:
            await (await AsyncioConnection.connect(host, port, "me", secured)).call(REQUEST)

        with pytest.raises((ConnectionError, LoginRefused)) as failed:
            await ask()
        return str(failed.value)

    async def play() -> None:
        right = node.login()
        tls = {"security.protocol": "SSL", **node.trust}
        assert "speaks TLS" in await error_line(node.sasl_ssl, None)
        assert "without TLS: set security.protocol=PLAINTEXT" in await error_line(node.plain, tls)
        assert "demands a login by PLAIN" in await error_line(node.sasl, None)
        assert "demands a client certificate" in await error_line(node.mutual, tls)
        assert "is not for 127.0.0.1" in await error_line(node.sasl_ssl, right, "127.0.0.1")
        assert "check user and password" in await error_line(
            node.sasl_ssl, right | {"sasl.jaas.config": SCRAM.replace("alice-secret", "guess")}
        )

    asyncio.run(play())
