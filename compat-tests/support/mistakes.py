"""Clients that connect in every way, right and wrong, and what each of them reports: one record is sent with each."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Producer
from kafka import KafkaProducer

from kpybroker.machines.sasl.jaas import MODULES
from oracle.asked import AskedOracle
from support.certificates import Authority

USER, PASSWORD = "alice", "wonder"
TOPIC = "mistakes"
PATIENCE_S = 1.0
"""The time after which a client gives up that has made a mistake. Others have the time of `UNHURRIED_S`."""
UNHURRIED_S = 30.0


class Files:
    """The certificates of brokers and clients, in files."""

    def __init__(self, directory: Path) -> None:
        right, other = Authority("Authority"), Authority("Another authority")
        self.directory = directory
        self.authorities = {"right": right.save(directory / "ca.pem"), "other": other.save(directory / "other-ca.pem")}
        expired = (-3, -1)
        made = {
            "broker": right.issue("broker"),
            "expired-broker": right.issue("expired-broker", days=expired),
            "elsewhere": right.issue("elsewhere", ["elsewhere.example"]),
            "client": right.issue("client"),
            "expired-client": right.issue("expired-client", days=expired),
            "stranger": other.issue("stranger"),
        }
        self.certificates = {name: each.save_pem(directory / f"{name}.pem") for name, each in made.items()}


class Way(NamedTuple):
    """A way in which a client connects."""

    listener: str
    protocol: str
    mechanism: str = ""
    password: str = PASSWORD
    authority: str = "right"
    certificate: str = ""
    """The name of the client's own certificate; empty for none."""
    patience_s: float = PATIENCE_S

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


RIGHT: Final = {
    "TLS": Way("TLS", "SSL", patience_s=UNHURRIED_S),
    "mTLS": Way("MTLS", "SSL", certificate="client", patience_s=UNHURRIED_S),
    "PLAIN": Way("SASL", "SASL_PLAINTEXT", "PLAIN", patience_s=UNHURRIED_S),
    "SCRAM": Way("SASL", "SASL_PLAINTEXT", "SCRAM-SHA-256", patience_s=UNHURRIED_S),
    "PLAIN over TLS": Way("SASLTLS", "SASL_SSL", "PLAIN", patience_s=UNHURRIED_S),
    "SCRAM over TLS": Way("SASLTLS", "SASL_SSL", "SCRAM-SHA-256", patience_s=UNHURRIED_S),
}
WRONG: Final = {
    "wrong password, PLAIN": Way("SASL", "SASL_PLAINTEXT", "PLAIN", "hidden-secret"),
    "wrong password, SCRAM over TLS": Way("SASLTLS", "SASL_SSL", "SCRAM-SHA-256", "hidden-secret"),
    "mechanism that is not enabled": Way("SASL", "SASL_PLAINTEXT", "SCRAM-SHA-512"),
    "no SASL configured": Way("SASL", "PLAINTEXT"),
    "SASL on a PLAINTEXT port": Way("PLAINTEXT", "SASL_PLAINTEXT", "PLAIN"),
    "TLS on a PLAINTEXT port": Way("PLAINTEXT", "SSL"),
    "no TLS on a TLS port": Way("TLS", "PLAINTEXT"),
    "CA that is not trusted": Way("TLS", "SSL", authority="other"),
    "wrong host name": Way("ELSEWHERE", "SSL"),
    "expired certificate of the broker": Way("EXPIRED", "SSL"),
    "expired certificate of the client": Way("MTLS", "SSL", certificate="expired-client"),
    "certificate of an unknown CA": Way("MTLS", "SSL", certificate="stranger"),
    "no certificate of the client": Way("MTLS", "SSL"),
}
"""The mistakes, by their names in docs/security.md."""

Reports = Callable[[Way, str, Files], str]
"""(way, address, files) -> what the client reports; empty if its record was acknowledged."""


@contextmanager
def warnings_of(library: str) -> Iterator[list[str]]:
    """The warnings and errors that a library logs."""
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    logger, kept = logging.getLogger(library), Kept(logging.WARNING)
    logger.addHandler(kept)
    try:
        yield found
    finally:
        logger.removeHandler(kept)


def error_text(error: BaseException, warnings: list[str]) -> str:
    return " | ".join([f"{type(error).__name__}: {error}", *dict.fromkeys(warnings)])


def _of_python(way: Way, address: str) -> dict[str, Any]:
    """The keywords that kafka-python and aiokafka have in common."""
    found: dict[str, Any] = {"bootstrap_servers": address, "security_protocol": way.protocol}
    if way.mechanism:
        found |= {
            "sasl_mechanism": way.mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": way.password,
        }
    return found


def kafka_python(way: Way, address: str, files: Files) -> str:
    config = _of_python(way, address)
    if way.has_tls:
        config["ssl_cafile"] = str(files.authorities[way.authority])
    if way.certificate:
        config["ssl_certfile"] = config["ssl_keyfile"] = str(files.certificates[way.certificate])
    wait_ms = int(way.patience_s * 1000)
    with warnings_of("kafka") as warnings:
        try:
            producer = KafkaProducer(**config, max_block_ms=wait_ms, bootstrap_timeout_ms=wait_ms)
            try:
                producer.send(TOPIC, b"x").get(UNHURRIED_S)
            finally:
                producer.close(timeout=0)
        except Exception as error:
            return error_text(error, warnings)
    return ""


def aiokafka(way: Way, address: str, files: Files) -> str:
    config = _of_python(way, address)
    if way.has_tls:
        context = create_ssl_context(cafile=str(files.authorities[way.authority]))
        if way.certificate:
            context.load_cert_chain(files.certificates[way.certificate])
        config["ssl_context"] = context

    async def send() -> None:
        producer = AIOKafkaProducer(**config, request_timeout_ms=int(way.patience_s * 1000))
        try:
            await producer.start()
            await producer.send_and_wait(TOPIC, b"x")
        finally:
            await producer.stop()

    with warnings_of("aiokafka") as warnings:
        try:
            asyncio.run(send())
        except Exception as error:
            return error_text(error, warnings)
    return ""


def confluent_kafka(way: Way, address: str, files: Files) -> str:
    errors: list[str] = []
    done: list[Any] = []
    config: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": way.protocol,
        "message.timeout.ms": int(way.patience_s * 1000),
        "error_cb": lambda error: errors.append(f"{error.name()}: {error.str()}"),
        "log_level": 0,
    }
    if way.mechanism:
        config |= {"sasl.mechanism": way.mechanism, "sasl.username": USER, "sasl.password": way.password}
    if way.has_tls:
        config["ssl.ca.location"] = str(files.authorities[way.authority])
    if way.certificate:
        config["ssl.certificate.location"] = config["ssl.key.location"] = str(files.certificates[way.certificate])
    producer = Producer(config)
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _message: done.append(error))
    while not (done or any("_ALL_BROKERS_DOWN" not in each for each in errors)):
        producer.poll(0.05)
    if done and done[0] is None:
        return ""
    producer.purge()
    producer.flush(1)
    return " | ".join(errors or [str(done[0])])


def java(oracle: AskedOracle) -> Reports:
    """Java's producer, in the JVM of an oracle."""

    def report(way: Way, address: str, files: Files) -> str:
        config: dict[str, Any] = {
            "bootstrap.servers": address,
            "security.protocol": way.protocol,
            "max.block.ms": int(way.patience_s * 1000),
        }
        if way.mechanism:
            config["sasl.mechanism"] = way.mechanism
            config["sasl.jaas.config"] = (
                f'{MODULES[way.mechanism]} required username="{USER}" password="{way.password}";'
            )
        if way.has_tls:
            config |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": files.authorities[way.authority]}
        if way.certificate:
            config |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": files.certificates[way.certificate]}
        file = files.directory / "java.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        answer = oracle.ask_for_line(file, TOPIC)
        return "" if answer == "ok" else answer

    return report


PYTHON: Final[Mapping[str, Reports]] = {
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "confluent-kafka": confluent_kafka,
}
