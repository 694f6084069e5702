"""Real clients log in by OAUTHBEARER, or learn why they cannot: kafka-python, aiokafka, confluent-kafka and Java."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

import oracle
from kpybroker.machines.sasl.jaas import OAUTHBEARER_MODULE
from kpybroker.security.oauth import token_login
from kpybroker.testing.oidc import LISTENER, TOKEN, OidcProvider
from oracle import BrokerProcess, free_port
from support.certificates import Authority
from support.oauth_wire import ALLOWED
from support.targets import KpyBroker
from support.topics import create_topic
from support.waiting import eventually

TOPIC = "tokens"
BRIEF_S = 12
"""Long enough that librdkafka has a new token before it renews a session, also on a busy machine."""
WRONG_AUDIENCE = "its audience (aud) is not among sasl.oauthbearer.expected.audience"


class Secured(NamedTuple):
    """A broker that speaks TLS and accepts the tokens of a provider."""

    broker: BrokerProcess
    provider: OidcProvider
    server: str
    authority: Path

    def log(self) -> str:
        return self.broker.output.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tokens")
    authority = Authority()
    keys = authority.issue().save_pem(directory / "server.pem")
    trusted = authority.save(directory / "authority.pem")
    with OidcProvider(certificate=keys, clients={"client": "the secret"}) as provider:
        port = free_port()
        jaas = (
            f'{OAUTHBEARER_MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="{trusted}" '
            'unsecuredLoginStringClaim_sub="node";'
        )
        settings = {
            **provider.listener_config(protocol="SASL_SSL"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
            f"listener.name.{LISTENER.lower()}.oauthbearer.sasl.jaas.config": jaas,
        }
        broker = KpyBroker(settings, directory=directory)
        for key in ("listeners", "advertised.listeners"):
            broker.properties[key] += f",{LISTENER}://localhost:{port}"
        with broker:
            create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), TOPIC)
            yield Secured(broker, provider, f"localhost:{port}", trusted)
        for secret in ("eyJ", "the secret"):
            assert secret not in broker.output.read_text(encoding="utf-8")


def of_librdkafka(secured: Secured, **further: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": secured.server,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(secured.authority),
        "log_level": 0,
        **further,
    }


def with_oidc(secured: Secured, secret: str = "the secret", **further: Any) -> dict[str, Any]:
    return of_librdkafka(
        secured,
        **{
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "client",
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": secured.provider.token_url,
            "https.ca.location": str(secured.authority),
        },
        **further,
    )


def with_callback(secured: Secured, **claims: Any) -> dict[str, Any]:
    return of_librdkafka(
        secured, oauth_cb=lambda _config: (secured.provider.token("alice", **claims), time.time() + 600)
    )


def produce(config: dict[str, Any]) -> str:
    """Send one record with confluent-kafka. What the client says of a failure; empty if there is none."""
    errors: list[Any] = []
    acknowledged: list[Any] = []
    producer = Producer({**config, "error_cb": errors.append, "message.timeout.ms": 10_000})
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _message: acknowledged.append(error))
    while not (acknowledged or errors):
        producer.poll(0.05)
    if acknowledged and acknowledged[0] is None:
        return ""
    producer.purge()
    producer.flush(1)
    return "; ".join(str(error) for error in errors)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens for kafka-python."""

    def __init__(self, new_token: Callable[[], str]) -> None:
        super().__init__()
        self._new_token = new_token

    def token(self) -> str:
        return self._new_token()


class AsyncTokens(AsyncTokenProvider):  # type: ignore[misc]
    """Tokens for aiokafka."""

    def __init__(self, new_token: Callable[[], str]) -> None:
        self._new_token = new_token

    async def token(self) -> str:
        return self._new_token()


def of_python(secured: Secured) -> dict[str, Any]:
    return {
        "bootstrap_servers": secured.server,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
    }


def test_confluent_kafka_logs_in_with_a_callback_and_with_client_credentials(secured: Secured) -> None:
    assert produce(with_callback(secured)) == ""
    assert produce(with_oidc(secured)) == ""


def test_kafka_python_and_aiokafka_log_in(secured: Secured) -> None:
    import ssl

    tokens = Tokens(lambda: secured.provider.token("alice"))
    producer = KafkaProducer(**of_python(secured), ssl_cafile=str(secured.authority), sasl_oauth_token_provider=tokens)
    assert producer.send(TOPIC, b"x").get(20).partition == 0
    producer.close()

    async def send() -> int:
        context = ssl.create_default_context(cafile=secured.authority)
        own = AsyncTokens(lambda: secured.provider.token("alice"))
        async with AIOKafkaProducer(**of_python(secured), ssl_context=context, sasl_oauth_token_provider=own) as aio:
            return int((await aio.send_and_wait(TOPIC, b"x")).partition)

    assert asyncio.run(send()) == 0


def test_a_refused_token_is_reported_to_confluent_kafka_and_in_the_log(secured: Secured) -> None:
    for claims in ({"aud": "another"}, {"iat": 1, "exp": 2}, {"iss": "another"}):
        reported = produce(with_callback(secured, **claims))
        assert "_AUTHENTICATION" in reported
        assert 'SASL authentication error: {"status":"invalid_token"}' in reported
    eventually(lambda: WRONG_AUDIENCE in secured.log(), "the reason of the first one in the log")


def test_a_wrong_secret_is_reported_with_the_providers_error(secured: Secured) -> None:
    reported = produce(with_oidc(secured, "wrong"))
    assert "Failed to acquire SASL OAUTHBEARER token" in reported
    assert "invalid_client" in reported


def test_new_keys_of_the_provider_count_when_a_token_names_them(secured: Secured) -> None:
    assert produce(with_callback(secured)) == ""
    secured.provider.rotate_keys()
    errors: list[Any] = []
    producer = Producer({**with_callback(secured), "error_cb": errors.append})
    producer.produce(TOPIC, b"x")
    assert producer.flush(20) == 0  # its first login fails, which fetches the keys


@pytest.mark.slow
def test_a_session_is_renewed_with_a_new_token_on_the_same_connection(secured: Secured) -> None:
    provider = secured.provider
    provider.lifetime_s = BRIEF_S
    found: list[dict[str, Any]] = []
    errors: list[Any] = []
    further = {"stats_cb": lambda text: found.append(json.loads(text)), "statistics.interval.ms": 100}
    try:
        asked = provider.requests.count(TOKEN)
        producer = Producer({**with_oidc(secured, **further), "error_cb": errors.append})
        began_s = time.monotonic()
        while time.monotonic() < began_s + 1.3 * BRIEF_S:
            producer.produce(TOPIC, b"x")
            producer.poll(0.05)
        assert producer.flush(10) == 0
    finally:
        provider.lifetime_s = 3600
    assert not errors
    assert provider.requests.count(TOKEN) >= asked + 2
    brokers = found[-1]["brokers"].values()
    assert sum(broker["req"].get("SaslHandshake", 0) for broker in brokers) >= 2
    assert all(broker["disconnects"] == 0 for broker in brokers if broker["nodeid"] > 0)


def java(secured: Secured, directory: Path, secret: str = "the secret") -> tuple[int, str]:
    """List topics with Java's client, whose tokens come by client_credentials."""
    module = f'{OAUTHBEARER_MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="{secured.authority}";'
    file = directory / "client.properties"
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={module}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={secured.authority}\n"
        f"{token_login.HANDLER}={token_login.SECURED_HANDLER}\n"
        f"{token_login.TOKEN_URL}={secured.provider.token_url}\n"
        f"{token_login.CLIENT_ID}=client\n{token_login.CLIENT_SECRET}={secret}\n"
    )
    words = ["--bootstrap-server", secured.server, "--command-config", str(file), "--list"]
    done = oracle.java("org.apache.kafka.tools.TopicCommand", *words)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.java
def test_java_logs_in_by_client_credentials_or_names_the_mistake(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-D{ALLOWED}={secured.provider.token_url}")
    code, text = java(secured, tmp_path)
    assert (code, TOPIC in text) == (0, True), text
    code, text = java(secured, tmp_path, "wrong")
    assert (code, '"invalid_client" - "wrong client id or secret"' in text) == (1, True), text
    monkeypatch.setattr(secured.provider, "audience", "another")
    code, text = java(secured, tmp_path)
    assert (code, 'SaslAuthenticationException: {"status":"invalid_token"}' in text) == (1, True), text
