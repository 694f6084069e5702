"""The files and the settings of ``kpybroker start --secure``: what stands in each. Pure.

One node with a SASL_SSL listener, SCRAM-SHA-512, an authorizer, and one administrator.
"""

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from kpybroker.cli.connection_settings import PASSWORD_KEY, ConnectionSettings, login_module
from kpybroker.config.properties import written_properties
from kpybroker.machines.endpoints import parse_address
from kpybroker.machines.sasl.jaas import SCRAM_MODULE

PROTOCOL: Final = "SASL_SSL"
MECHANISM: Final = "SCRAM-SHA-512"
ADMINISTRATOR: Final = "admin"
CA: Final = "ca.pem"
CA_KEY: Final = "ca-keystore.pem"
SERVER: Final = "server-keystore.pem"
SERVER_PROPERTIES: Final = "server.properties"
JAVA: Final = "client.properties"
LIBRDKAFKA: Final = "librdkafka.properties"
PYTHON: Final = "kafka-python.json"
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def server_settings(listener: str, directory: PurePath, password: str) -> dict[str, str]:
    """The configs of the node; ``listener`` is ``host:port``. ``password`` is the administrator's.

    There is no listener without a login: brokers would log in to each other as the administrator.
    """
    return {
        "listeners": f"{PROTOCOL}://{listener}",
        "security.inter.broker.protocol": PROTOCOL,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.{PROTOCOL.lower()}.{MECHANISM.lower()}.sasl.jaas.config": jaas(password),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / SERVER),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / CA),
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMINISTRATOR}",
        "log.dirs": str(directory),
    }


def console_settings(http: str | None, directory: PurePath) -> dict[str, str]:
    """The configs of the second port at ``http``, None for its usual address: users log in to the console by their
    passwords. Beyond loopback that needs https, and the metrics take a login too."""
    users = {"kpybroker.http.users": "scram"}
    address = parse_address(http or "")
    if address is None or address[0] in LOOPBACK:
        return {**users, "kpybroker.http.open.paths": "/live,/ready,/metrics"}
    return {**users, "kpybroker.http.ssl.keystore.location": str(directory / SERVER)}


def console_login(directory: PurePath, password: str | None) -> str:
    """The line that says how to log in to the console. ``password``: that of a new administrator, printed once."""
    kept = f"in {directory / JAVA}"
    if password is None:
        return f"  user {ADMINISTRATOR}; its password is {kept}"
    return f"  user {ADMINISTRATOR}, password {password} (printed this once; it is {kept})"


def jaas(password: str) -> str:
    """The login module of the administrator."""
    return login_module(SCRAM_MODULE, {"username": ADMINISTRATOR, "password": password})


def client_files(server: str, directory: PurePath, password: str) -> dict[str, str]:
    """The contents of the files for clients, by their names; ``server`` is the address that they connect to."""
    settings = ConnectionSettings(server, PROTOCOL, MECHANISM, ADMINISTRATOR, password, str(directory / CA))
    return {
        JAVA: written_properties(settings.java()),
        LIBRDKAFKA: "".join(f"{key}={value}\n" for key, value in settings.confluent().items()),
        PYTHON: json.dumps(settings.kafka_python(), indent=2) + "\n",
    }


def how_to_connect(program: str, directory: PurePath, server: str) -> list[str]:
    """The lines that are printed once the node serves."""
    java, librdkafka, python = (directory / name for name in (JAVA, LIBRDKAFKA, PYTHON))
    return [
        f"{PROTOCOL} with {MECHANISM}, user {ADMINISTRATOR}; its password and the certificates are in {directory}",
        "In another terminal:",
        f"  {program} topics create hello --partitions 3 --command-config {java}",
        f"  echo world | {program} produce hello --command-config {java}",
        f"  {program} consume hello -c 1 --command-config {java}",
        "With Kafka's tools, and any Java client:",
        f"  kafka-topics.sh --bootstrap-server {server} --command-config {java} --list",
        "With librdkafka:",
        f"  kcat -F {librdkafka} -L",
        "In Python, with kafka-python:",
        f'  KafkaConsumer("hello", **json.load(open("{python}")))',
    ]


def password_in(librdkafka: str) -> str | None:
    """The administrator's password in the text of librdkafka's file; None if it is not there."""
    pairs = (line.partition("=") for line in librdkafka.splitlines())
    return next((value for key, _, value in pairs if key == PASSWORD_KEY and value), None)


def merged(settings: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """The settings of ``--secure``, and over them those that the user gave."""
    return {**settings, **over}
