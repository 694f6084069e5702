"""The image with logins and TLS, by the variables that Kafka's images document, and with blanks in its paths."""

import socket
import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner
from images import free_address, laid_out, started

from kpybroker.cli import main
from kpybroker.config.properties import written_properties
from support.certificates import Authority

RUN = "etc/kafka/docker/run"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return laid_out(tmp_path / "an image")


def lists_topics(address: str, directory: Path, password: str = "", kafka_opts: str = "") -> bool:
    """Whether alice can log in, by a property or by the section KafkaClient of a login file."""
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    if password:
        properties["sasl.jaas.config"] = f'{PLAIN} required username="alice" password="{password}";'
    file = directory / "client.properties"
    file.write_text(written_properties(properties))
    words = ["topics", "list", "-b", address, "--command-config", str(file)]
    return CliRunner().invoke(main, words, env={"KAFKA_OPTS": kafka_opts}).exit_code == 0


def server_certificate(address: str, authority: Path) -> bytes | None:
    """The certificate of a listener, if it is trusted."""
    host, port = address.split(":")
    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname=host) as up,
    ):
        return up.getpeercert(binary_form=True)


def secured(places: dict[str, str]) -> dict[str, str]:
    """The variables of a compose file for Apache Kafka's image."""
    listeners = {name: f"{name}://{address}" for name, address in places.items()}
    advertised = {name: uri for name, uri in listeners.items() if name != "CONTROLLER"}
    return {
        "CLUSTER_ID": CLUSTER_ID,
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@{places['CONTROLLER']}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": ",".join(listeners.values()),
        "KAFKA_ADVERTISED_LISTENERS": ",".join(advertised.values()),
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        ",SSL:SSL",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
    }


def test_logins_and_certificates_come_from_the_documented_variables(image: Path) -> None:
    places = {name: free_address() for name in ("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT", "SSL")}
    secrets = image / "the secrets"
    secrets.mkdir()
    authority = Authority()
    certificate = authority.issue("kafka", ["127.0.0.1"])
    certificate.save_pkcs12(secrets / "kafka.p12", "key-secret")
    (secrets / "password").write_text("key-secret\n")
    variables = {
        **secured(places),
        "KPYBROKER_SECRETS": str(secrets),
        "KAFKA_LOG_DIRS": f"{image / 'some data'}, {image / 'data'}",
        "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG": (
            f'{PLAIN} required \\\n  user_alice="alice-secret";\n'
        ),
        "KAFKA_SSL_KEYSTORE_FILENAME": "kafka.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "password",
        "KAFKA_SSL_KEY_CREDENTIALS": "password",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    }
    for _ in range(2):  # the second start finds its directories formatted
        with started(image, [RUN], **variables):
            assert lists_topics(places["SASL_PLAINTEXT"], image, "alice-secret")
            assert not lists_topics(places["SASL_PLAINTEXT"], image, "another")
            assert server_certificate(places["SSL"], authority.save(image / "ca.pem")) == certificate.der
    for name in ("some data", "data"):
        assert f"cluster.id={CLUSTER_ID}" in (image / name / "meta.properties").read_text()
    assert (image / "etc/kafka/kafka.properties").stat().st_mode & 0o077 == 0


def test_logins_come_from_the_login_file_of_kafka_opts(image: Path, tmp_path: Path) -> None:
    places = {name: free_address() for name in ("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT")}
    jaas = tmp_path / "jaas.conf"
    client = f'KafkaClient {{ {PLAIN} required username="alice" password="alice-secret"; }};'
    jaas.write_text(f'KafkaServer {{\n  {PLAIN} required\n  user_alice="alice-secret";\n}};\n{client}')
    options = f"-Xmx1g -Djava.security.auth.login.config={jaas}"
    with started(image, [RUN], **secured(places), KAFKA_OPTS=options):
        assert lists_topics(places["SASL_PLAINTEXT"], image, "alice-secret")
        assert not lists_topics(places["SASL_PLAINTEXT"], image, "another")
        assert lists_topics(places["SASL_PLAINTEXT"], image, kafka_opts=options)
        assert not lists_topics(places["SASL_PLAINTEXT"], image)
