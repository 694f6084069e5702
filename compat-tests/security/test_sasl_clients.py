"""Real clients log in, or learn why they cannot: kafka-python, confluent-kafka and aiokafka with PLAIN and SCRAM."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer

from kpybroker.cli.format import command as format_command
from kpybroker.hosts.quorum import formatter
from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.plain import PlainClient
from kpybroker.runtime.io.limits import raise_open_files
from kpywire.error_codes import SASL_AUTHENTICATION_FAILED
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from oracle import BrokerProcess, free_port
from oracle.process import HOST
from support import sasl_wire
from support.raw_client import RawClient
from support.targets import KpyBroker
from support.waiting import eventually

USER, PASSWORD = sasl_wire.USER, sasl_wire.PASSWORD
PLAIN, SCRAM = sasl_wire.MECHANISMS
FAILED_LOGINS = 1000


class Secured(NamedTuple):
    """A broker and the addresses of its listeners."""

    broker: BrokerProcess
    ports: sasl_wire.Ports

    def server(self, listener: str = sasl_wire.SECURED) -> str:
        return f"{HOST}:{self.ports[listener]}"

    def log(self) -> str:
        return self.broker.output.read_text(encoding="utf-8")


def with_scram_user(records: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The first records of a cluster, and a user."""
    mechanism, salt = scram.SCRAM_SHA_256, b"any salt is right"
    credential = mechanism.credential(mechanism.salted_password(PASSWORD, salt, 4096), salt, 4096)
    user = UserScramCredentialRecord(
        name=USER,
        mechanism=mechanism.code,
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=4096,
    )
    return lambda levels: [*records(levels), user]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    numbers = {name: free_port() for name in sasl_wire.LISTENERS}
    broker = KpyBroker(sasl_wire.properties(), directory=directory)
    for key in ("listeners", "advertised.listeners"):
        further = [f"{name}://{HOST}:{port}" for name, port in numbers.items()]
        broker.properties[key] = ",".join([broker.properties[key], *further])
    broker.prepare()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formatter, "bootstrap_records", with_scram_user(formatter.bootstrap_records))
        format_command.main(["-c", str(directory / "server.properties")], standalone_mode=False)
    with broker:
        yield Secured(broker, numbers)


def of_librdkafka(server: str, mechanism: str = PLAIN, password: str = PASSWORD, **further: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": server,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
        **further,
    }


def of_kafka_python(server: str, mechanism: str = PLAIN, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap_servers": server,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }


def produce(config: dict[str, Any]) -> str:
    """Send one record with confluent-kafka. What the client says of a failure; empty if there is none."""
    errors: list[Any] = []
    producer = Producer({**config, "error_cb": errors.append, "message.timeout.ms": 3000})
    acknowledged: list[Any] = []
    producer.produce("logins", b"x", on_delivery=lambda error, _message: acknowledged.append(error))
    while not (acknowledged or errors):
        producer.poll(0.05)
    if acknowledged and acknowledged[0] is None:
        return ""
    text = "; ".join(str(error) for error in errors)
    producer.purge()
    producer.flush(1)
    return text


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM])
def test_clients_log_in(secured: Secured, mechanism: str) -> None:
    server = secured.server()
    assert produce(of_librdkafka(server, mechanism)) == ""
    producer = KafkaProducer(**of_kafka_python(server, mechanism))
    assert producer.send("logins", b"x").get(20).partition == 0
    producer.close()

    async def send() -> int:
        async with AIOKafkaProducer(**of_kafka_python(server, mechanism)) as aio:
            return int((await aio.send_and_wait("logins", b"x")).partition)

    assert asyncio.run(send()) == 0


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM])
def test_a_wrong_password_is_reported_to_the_client_and_in_the_log(secured: Secured, mechanism: str) -> None:
    reported = produce(of_librdkafka(secured.server(), mechanism, "hidden-secret"))
    assert "_AUTHENTICATION" in reported
    assert ("Invalid username or password" if mechanism == PLAIN else "due to invalid credentials") in reported
    words = re.compile(f"login failed: {mechanism} from [0-9.:]+ on listener SECURED: user 'alice': wrong password")
    eventually(lambda: words.search(secured.log()), "the reason in the log")
    assert "hidden-secret" not in secured.log()


def test_a_mechanism_that_is_not_enabled_is_named_with_those_that_are(secured: Secured) -> None:
    reported = produce(of_librdkafka(secured.server(), "SCRAM-SHA-512"))
    assert "broker's supported mechanisms" in reported
    assert PLAIN in reported


def test_a_client_without_sasl_is_named_in_the_log(secured: Secured) -> None:
    producer = Producer({"bootstrap.servers": secured.server(), "message.timeout.ms": 300})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=0.3)
    words = "Metadata is its first request, but it has to log in first; set security.protocol=SASL_PLAINTEXT"
    eventually(lambda: words in secured.log(), "the reason in the log")


def test_a_session_is_renewed_on_the_same_connection(secured: Secured) -> None:
    server = secured.server(sasl_wire.BRIEF)
    found: list[dict[str, Any]] = []
    errors: list[Any] = []
    producer = Producer(
        of_librdkafka(server, SCRAM)
        | {
            "stats_cb": lambda text: found.append(json.loads(text)),
            "statistics.interval.ms": 100,
            "error_cb": errors.append,
        }
    )
    began = time.monotonic()
    sent = 0
    while time.monotonic() < began + 3 * sasl_wire.RENEWED_MS / 1000:
        producer.produce("logins", b"x")
        sent += 1
        producer.poll(0.05)
    assert producer.flush(10) == 0
    assert not errors
    brokers = found[-1]["brokers"].values()
    assert sum(broker["req"].get("SaslHandshake", 0) for broker in brokers) >= 3
    assert all(broker["disconnects"] == 0 for broker in brokers if broker["nodeid"] > 0)


def test_a_thousand_failed_logins_at_once_do_not_stop_an_honest_client(secured: Secured) -> None:
    raise_open_files()
    with ExitStack() as opened:
        guesses = [opened.enter_context(RawClient(secured.ports[sasl_wire.SECURED])) for _ in range(FAILED_LOGINS)]
        wrong = PlainClient(USER, "guessed").first()
        for guess in guesses:
            handshake = guess.frame(SaslHandshakeRequest(mechanism=PLAIN), 1)
            guess.sock.sendall(handshake + guess.frame(SaslAuthenticateRequest(auth_bytes=wrong), 2))
        assert produce(of_librdkafka(secured.server())) == ""
        for guess in guesses:
            assert guess.receive(SaslHandshakeRequest.KEY, 1).error_code == 0
            assert guess.receive(SaslAuthenticateRequest.KEY, 2).error_code == SASL_AUTHENTICATION_FAILED
            assert guess.is_closed()
    assert secured.log().count("login failed: PLAIN") < FAILED_LOGINS / 10
