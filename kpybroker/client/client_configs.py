"""The properties of ``-X`` and ``--command-config`` that this client honours, under the names of Kafka's clients. Pure.

`PROPERTIES` is the one source of validation, help and docs. librdkafka's names for the same properties are accepted
too.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from kpybroker.client.bad_property import BadProperty
from kpywire.compression import NAMES as CODECS

PRODUCE: Final = "produce"
CONSUME: Final = "consume"
ADMIN: Final = "admin"
"""All other commands that talk to a cluster. They have no ``-X``."""
SECURITY_PREFIXES: Final = ("sasl.", "security.", "ssl.")
WITH_OPTION: Final = (PRODUCE, CONSUME)
EVERY: Final = (*WITH_OPTION, ADMIN)
LARGEST: Final = 0x7FFF_FFFF

Value = int | str | bool


class Type(NamedTuple):
    """The type of a property's values: its name and its parser. ``read`` raises ValueError."""

    text: str
    read: Callable[[str], Value]


class ClientProperty(NamedTuple):
    """A property with its default. ``also``: librdkafka's names; ``option``: the option with the same meaning."""

    name: str
    type: Type
    default: Value | None
    about: str
    commands: tuple[str, ...]
    also: tuple[str, ...] = ()
    option: str = ""


def _number(least: int, most: int = LARGEST) -> Type:
    def read(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError
        return value

    bounds = f"from {least} to {most}" if most < LARGEST else f"from {least} on" if least else "0 or more"
    return Type(f"a whole number {bounds}", read)


def _word(*words: str) -> Type:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError
        return text.lower()

    return Type(f"{', '.join(words[:-1])} or {words[-1]}", read)


def _acks(text: str) -> int:
    return {"all": -1, "-1": -1, "0": 0, "1": 1}[text.lower()]


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


FLAG: Final = Type("true or false", lambda text: {"true": True, "false": False}[text.lower()])
TEXT: Final = Type("a text that is not empty", _text)
ANY_TEXT: Final = Type("a text", str)
ACKS: Final = Type("all, -1, 0 or 1", _acks)
COUNT: Final = _number(0)


def _secured(name: str, about: str, *also: str, value_type: Type = TEXT) -> ClientProperty:
    return ClientProperty(name, value_type, None, about, EVERY, also)


_SECURITY: Final = (
    _secured(
        "security.protocol",
        "How brokers are spoken to; PLAINTEXT if nothing says otherwise.",
        value_type=_word("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    ),
    _secured(
        "sasl.mechanism",
        "How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.",
        "sasl.mechanisms",
    ),
    _secured("sasl.jaas.config", "The login module of the mechanism with username and password."),
    _secured("sasl.username", "The user, in place of sasl.jaas.config; librdkafka's name."),
    _secured("sasl.password", "The password, in place of sasl.jaas.config; librdkafka's name."),
    _secured("sasl.kerberos.service.name", "The first part of the names of the brokers' principals, such as kafka."),
    _secured("sasl.kerberos.principal", "The principal, in place of sasl.jaas.config; librdkafka's name."),
    _secured("sasl.kerberos.keytab", "Its keytab, in place of tickets of kinit; librdkafka's name."),
    _secured(
        "sasl.login.callback.handler.class",
        "For OAUTHBEARER: Java's class that gets tokens, known by name. The URL of a token endpoint suffices.",
    ),
    _secured("sasl.oauthbearer.method", "oidc, as with librdkafka; the URL of a token endpoint suffices."),
    _secured(
        "sasl.oauthbearer.token.endpoint.url",
        "Where tokens come from by the grant client_credentials, or file:///path of a token.",
    ),
    _secured(
        "sasl.oauthbearer.client.credentials.client.id",
        "The id of this client at the identity provider.",
        "sasl.oauthbearer.client.id",
    ),
    _secured(
        "sasl.oauthbearer.client.credentials.client.secret",
        "Its secret.",
        "sasl.oauthbearer.client.secret",
    ),
    _secured("sasl.oauthbearer.scope", "The scope to ask for."),
    _secured("sasl.oauthbearer.header.urlencode", "Whether id and secret are URL-encoded.", value_type=FLAG),
    _secured(
        "sasl.oauthbearer.jwt.retriever.class",
        "Java's class that gets tokens, known by name; JwtBearerJwtRetriever takes an assertion for the grant.",
    ),
    _secured("sasl.oauthbearer.assertion.file", "A file with an assertion that others renew."),
    _secured("sasl.oauthbearer.assertion.private.key.file", "The key in PEM that signs assertions."),
    _secured("sasl.oauthbearer.assertion.private.key.passphrase", "Its passphrase."),
    _secured("sasl.oauthbearer.assertion.algorithm", "RS256 or ES256."),
    _secured(
        "sasl.oauthbearer.assertion.template.file",
        "A JSON file with further headers and claims of assertions.",
        "sasl.oauthbearer.assertion.jwt.template.file",
    ),
    _secured("sasl.oauthbearer.assertion.claim.aud", "The audience of assertions."),
    _secured(
        "sasl.oauthbearer.assertion.claim.iss", "Their issuer. With it, they take the place of a client's secret."
    ),
    _secured("sasl.oauthbearer.assertion.claim.sub", "Their subject."),
    _secured("sasl.oauthbearer.assertion.claim.exp.seconds", "How long they are valid; 300.", value_type=COUNT),
    _secured("sasl.oauthbearer.assertion.claim.nbf.seconds", "Since when they are valid; 60.", value_type=COUNT),
    _secured("sasl.oauthbearer.assertion.claim.jti.include", "Whether each has an id of its own.", value_type=FLAG),
    _secured("sasl.oauthbearer.sub.claim.name", "The claim of a token that names the principal; sub."),
    _secured(
        "sasl.login.connect.timeout.ms", "How long the token endpoint may take to be connected.", value_type=COUNT
    ),
    _secured("sasl.login.read.timeout.ms", "How long the token endpoint may take to answer.", value_type=COUNT),
    _secured(
        "sasl.login.retry.backoff.ms", "The pause before it is asked again; it doubles each time.", value_type=COUNT
    ),
    _secured("sasl.login.retry.backoff.max.ms", "How long it is asked again.", value_type=COUNT),
    _secured("ssl.truststore.location", "The file with the CAs that are trusted; without it, those of the system."),
    _secured("ssl.truststore.password", "The password of this file."),
    _secured("ssl.truststore.type", "JKS, PKCS12 or PEM. The content shows whether it is JKS or PKCS12."),
    _secured("ssl.truststore.certificates", "The CAs that are trusted, as PEM in the value itself."),
    _secured("ssl.ca.location", "The PEM file with the CAs that are trusted; librdkafka's name."),
    _secured("ssl.keystore.location", "The file with this client's key and certificate, if brokers demand one."),
    _secured("ssl.keystore.password", "The password of this file."),
    _secured("ssl.keystore.type", "JKS, PKCS12 or PEM."),
    _secured("ssl.keystore.key", "The key as PEM in the value itself."),
    _secured("ssl.keystore.certificate.chain", "The certificate with its chain as PEM in the value itself."),
    _secured("ssl.key.password", "The password of the key."),
    _secured("ssl.certificate.location", "The PEM file with this client's certificate; librdkafka's name."),
    _secured("ssl.key.location", "The PEM file with its key; librdkafka's name."),
    _secured("ssl.protocol", "The newest version of TLS."),
    _secured("ssl.enabled.protocols", "The versions of TLS: TLSv1.2, TLSv1.3."),
    _secured("ssl.cipher.suites", "The cipher suites, by their IANA names."),
    _secured(
        "ssl.endpoint.identification.algorithm",
        "https: the certificate must be for the host that was connected to. An empty value checks no names.",
        value_type=ANY_TEXT,
    ),
)
SECRETS: Final = frozenset(
    (
        "sasl.jaas.config",
        "sasl.password",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    )
) | {f"ssl.{name}" for name in ("truststore.password", "keystore.password", "keystore.key", "key.password")}
"""The properties whose values are in no message."""

PROPERTIES: Final = (
    ClientProperty("client.id", TEXT, "kpybroker", "The name of this client in the broker's logs and metrics.", EVERY),
    ClientProperty(
        "request.timeout.ms",
        _number(1),
        30_000,
        "How long a broker may take to answer before the connection is given up.",
        EVERY,
        ("socket.timeout.ms",),
    ),
    ClientProperty(
        "socket.connection.setup.timeout.ms", _number(1), 10_000, "How long a broker may take to be connected.", EVERY
    ),
    ClientProperty("retry.backoff.ms", COUNT, 100, "The pause before the first retry; it doubles with each.", EVERY),
    ClientProperty("retry.backoff.max.ms", COUNT, 1_000, "The longest pause between two retries.", EVERY),
    ClientProperty(
        "metadata.max.age.ms",
        COUNT,
        300_000,
        "How long to believe which broker leads what, and how many partitions a topic has.",
        EVERY,
        ("topic.metadata.refresh.interval.ms",),
    ),
    ClientProperty(
        "acks",
        ACKS,
        -1,
        "How many replicas have a record before it counts as delivered. 0: nobody is asked, and no offset is known.",
        (PRODUCE,),
        ("request.required.acks",),
    ),
    ClientProperty(
        "enable.idempotence",
        FLAG,
        None,
        "Whether a retry can never write a record twice; true unless acks is 0 or 1.",
        (PRODUCE,),
    ),
    ClientProperty(
        "delivery.timeout.ms",
        _number(1),
        120_000,
        "How long a record may take from its line to the broker's answer, retries and outages included.",
        (PRODUCE,),
        ("message.timeout.ms",),
    ),
    ClientProperty(
        "retries",
        _number(0),
        LARGEST,
        "How often a batch is sent again, within delivery.timeout.ms.",
        (PRODUCE,),
        ("message.send.max.retries",),
    ),
    ClientProperty(
        "linger.ms",
        COUNT,
        0,
        "How long a batch that is not full waits for more lines.",
        (PRODUCE,),
        ("queue.buffering.max.ms",),
    ),
    ClientProperty(
        "batch.size", _number(1), 512 * 1024, "The most bytes of a batch; a larger record is sent alone.", (PRODUCE,)
    ),
    ClientProperty(
        "buffer.memory",
        _number(1),
        32 * 1024 * 1024,
        "The bytes of lines that may wait; then the input is not read until some are delivered.",
        (PRODUCE,),
    ),
    ClientProperty(
        "compression.type",
        _word(*CODECS),
        "none",
        "The codec of batches.",
        (PRODUCE,),
        ("compression.codec",),
        "--compression",
    ),
    ClientProperty("group.id", TEXT, None, "The group to read as a member of.", (CONSUME,), (), "--group"),
    ClientProperty("group.instance.id", TEXT, None, "The name of a static member.", (CONSUME,), (), "--instance"),
    ClientProperty(
        "session.timeout.ms",
        _number(1),
        45_000,
        "The time without a heartbeat after which a member leaves the group.",
        (CONSUME,),
    ),
    ClientProperty("heartbeat.interval.ms", _number(1), 1_000, "The pause between two heartbeats.", (CONSUME,)),
    ClientProperty(
        "max.poll.interval.ms",
        _number(1),
        60_000,
        "How long a rebalance waits for this member, and this member for a rebalance.",
        (CONSUME,),
    ),
    ClientProperty("enable.auto.commit", FLAG, True, "Whether a member commits what it has printed.", (CONSUME,)),
    ClientProperty("auto.commit.interval.ms", COUNT, 5_000, "The pause between two commits.", (CONSUME,)),
    ClientProperty(
        "auto.offset.reset",
        _word("earliest", "latest", "none"),
        None,
        "Where to go on if an offset is gone, and where a group begins that has none. By default the first is an "
        "error, and --offset says the second.",
        (CONSUME,),
    ),
    ClientProperty(
        "isolation.level",
        _word("read_uncommitted", "read_committed"),
        "read_uncommitted",
        "Whether records of uncommitted transactions are read.",
        (CONSUME,),
        (),
        "--read-committed",
    ),
    ClientProperty("fetch.min.bytes", COUNT, 1, "The least bytes of a response that the broker waits for.", (CONSUME,)),
    ClientProperty(
        "fetch.max.wait.ms",
        COUNT,
        500,
        "The longest that a broker waits for fetch.min.bytes.",
        (CONSUME,),
        ("fetch.wait.max.ms",),
    ),
    ClientProperty("fetch.max.bytes", COUNT, 16 * 1024 * 1024, "The most bytes of a response.", (CONSUME,)),
    ClientProperty(
        "max.partition.fetch.bytes",
        COUNT,
        1024 * 1024,
        "The most bytes of a partition in an answer; a larger batch comes alone.",
        (CONSUME,),
        ("fetch.message.max.bytes",),
    ),
    ClientProperty(
        "client.rack", TEXT, None, "The rack of this client: brokers may name a closer replica.", (CONSUME,)
    ),
    ClientProperty("check.crcs", FLAG, True, "Whether the checksums of batches are compared.", (CONSUME,)),
    ClientProperty(
        "default.api.timeout.ms",
        _number(1),
        30_000,
        "How long to ask again for offsets, coordinators and commits; with --exit also for records.",
        (CONSUME, ADMIN),
    ),
    *_SECURITY,
)

ELSEWHERE: Final = {
    "bootstrap.servers": "use --bootstrap-server",
    "metadata.broker.list": "use --bootstrap-server",
    "enable.ssl.certificate.verification": "certificates are always verified; name their CA by ssl.ca.location",
    "sasl.kerberos.": "the library of MIT Kerberos renews tickets itself",
    "sasl.oauthbearer.": "this client gets tokens by client_credentials, by jwt-bearer, or from a file",
    "transactional.id": "this client writes no transactions",
    "transaction.timeout.ms": "this client writes no transactions",
    "key.serializer": "lines are bytes",
    "value.serializer": "lines are bytes",
    "key.deserializer": "records are printed as they are; see --format",
    "value.deserializer": "records are printed as they are; see --format",
    "max.poll.records": "see --count",
    "max.in.flight.requests.per.connection": "this client has one request in flight",
    "partition.assignment.strategy": "this client's is range",
    "group.protocol": "this client speaks the classic protocol",
}
"""Properties of Kafka's clients, or whole families of them, that have no meaning here, with the alternative."""


def of_command(command: str) -> dict[str, ClientProperty]:
    """The properties of ``produce`` or ``consume`` by name."""
    return {each.name: each for each in PROPERTIES if command in each.commands}


def parse(command: str, pairs: Iterable[str]) -> dict[str, Value]:
    """The properties that were given, by Kafka's names; the last value counts. Raises BadProperty."""
    known = {name: each for each in of_command(command).values() for name in (each.name, *each.also)}
    configured: dict[str, Value] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not key or not equals:
            raise BadProperty(f"{pair!r} is not KEY=VALUE, as in {'acks=1' if command == PRODUCE else 'client.id=me'}")
        found = known.get(key)
        if found is None:
            raise BadProperty(_unknown(command, key, known))
        configured[found.name] = _value(found, key, text)
    _check(configured)
    return configured


def _value(found: ClientProperty, key: str, text: str) -> Value:
    try:
        return found.type.read(text)
    except (ValueError, KeyError):
        shown = "what it is" if found.name in SECRETS else repr(text)
        raise BadProperty(f"{key} is {found.type.text}, not {shown}") from None


def of_file(command: str, properties: Mapping[str, str]) -> dict[str, Value]:
    """The properties in a file for Kafka's clients that have a meaning for a command. Others are ignored, as by Kafka.
    Raises BadProperty."""
    known = {name: each for each in of_command(command).values() for name in (each.name, *each.also)}
    return {known[key].name: _value(known[key], key, text) for key, text in properties.items() if key in known}


def _check(configured: Mapping[str, Value]) -> None:
    """Check that no properties contradict each other. Raises BadProperty."""
    if configured.get("enable.idempotence") is True and configured.get("acks", -1) != -1:
        raise BadProperty("enable.idempotence=true needs acks=all")


def _unknown(command: str, key: str, known: Iterable[str]) -> str:
    for name, why in ELSEWHERE.items():
        if key == name or (name.endswith(".") and key.startswith(name)):
            return f"{key} has no effect here: {why}"
    other = CONSUME if command == PRODUCE else PRODUCE
    if key in {name for each in of_command(other).values() for name in (each.name, *each.also)}:
        return f"{key} is a property of kpybroker {other}, not of {command}"
    close = get_close_matches(key.replace("_", ".").lower(), list(known), 3)
    hint = f"did you mean {' or '.join(close)}?" if close else "-X list shows what there is"
    return f"there is no property {key} here; {hint}"


def with_defaults(command: str, configured: Mapping[str, Value]) -> dict[str, Value | None]:
    """Every property of a command with its value."""
    values: dict[str, Value | None] = {name: each.default for name, each in of_command(command).items()}
    values |= configured
    if command == PRODUCE and values["enable.idempotence"] is None:
        values["enable.idempotence"] = values["acks"] == -1
    return values


def shown(found: ClientProperty) -> str:
    """A default in readable form."""
    if found.default is None:
        return "-"
    if found.name == "acks":
        return "all"
    return str(found.default).lower() if isinstance(found.default, bool) else str(found.default)


def meaning(found: ClientProperty) -> str:
    """The purpose of a property, with its other names."""
    also = [f"`{name}`" for name in found.also]
    same = f" The same as `{found.option}`." if found.option else ""
    return f"{found.about}{same}" + (f" Also called {', '.join(also)}." if also else "")
