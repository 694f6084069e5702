"""The answers of listeners with OAUTHBEARER, byte by byte: cases to be played against a broker, with all that is seen.

`properties` configures the listeners beside the plain one: with signed tokens, with the same and short sessions, and
with tokens that have no signature, with and without a scope that they must have.
"""

import json
import struct
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.config.oauth import HANDLER, SECURED_HANDLER, UNSECURED_HANDLER
from kpybroker.machines.sasl.jaas import OAUTHBEARER_MODULE
from kpybroker.machines.sasl.oauthbearer import NAME, BearerClientFirst
from kpybroker.testing.oidc import OidcProvider
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from support.sasl_wire import CLOSED, Wire
from support.waiting import eventually

SIGNED, SESSIONS, UNSIGNED, SCOPED = LISTENERS = ("SIGNED", "SESSIONS", "UNSIGNED", "SCOPED")
SESSION_MS: Final = 60_000
BRIEF_S: Final = 2
ACKNOWLEDGED: Final = b"\x01"
INVALID: Final = '{"status":"invalid_token"}'
NO_SCOPE: Final = '{"status":"insufficient_scope", "scope":"[produce, consume]"}'
GENERIC: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
)
ANOTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id (carol) that is different from the token's principal "
    "name (alice)"
)
ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWED_FILES: Final = "org.apache.kafka.sasl.oauthbearer.allowed.files"
"""Kafka's system property."""


def properties(provider: OidcProvider) -> dict[str, str]:
    """The configuration of the listeners, apart from their addresses."""
    found = {
        "sasl.enabled.mechanisms": NAME,
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": provider.issuer,
        "kpybroker.oauthbearer.allowed.urls": provider.jwks_url,
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in LISTENERS)]
        ),
        f"listener.name.{SESSIONS.lower()}.connections.max.reauth.ms": str(SESSION_MS),
    }
    # Kafka logs in itself where the module has any option.
    options = {SCOPED: ' unsecuredValidatorRequiredScope="produce consume" unsecuredLoginStringClaim_sub="node"'}
    for name in LISTENERS:
        prefix = f"listener.name.{name.lower()}.oauthbearer"
        found[f"{prefix}.sasl.jaas.config"] = f"{OAUTHBEARER_MODULE} required{options.get(name, '')};"
        found[f"{prefix}.{HANDLER}"] = SECURED_HANDLER if name in (SIGNED, SESSIONS) else UNSECURED_HANDLER
    return found


def unsigned(**claims: Any) -> str:
    """A token without a signature, valid for an hour."""
    return f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'exp': time.time() + 3600, **claims})}."


def part(value: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class Session:
    """A client on one connection, with the tokens of a provider."""

    def __init__(self, wire: Wire, provider: OidcProvider) -> None:
        self.wire = wire
        self.provider = provider

    def shake(self, version: int = 1) -> int:
        answer = self.wire.handshake(NAME, version)
        return -1 if answer == CLOSED else int(answer[0])

    def say(self, message: bytes) -> Any:
        """Error code, text, bytes, and whether the session ends."""
        answer = self.wire.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
        if answer == CLOSED:
            return CLOSED
        return answer.error_code, answer.error_message, answer.auth_bytes.decode(), answer.session_lifetime_ms > 0

    def show(self, token: str, authorization_id: str = "", **extensions: str) -> Any:
        return self.say(BearerClientFirst(token, authorization_id, tuple(extensions.items())).encode())

    def show_signed(self, sub: str = "alice", **claims: Any) -> Any:
        return self.show(self.provider.token(sub, **claims))

    def lifetime_ms(self, token: str) -> int:
        answer = self.wire.ask(SaslAuthenticateRequest(auth_bytes=BearerClientFirst(token).encode()), 2)
        return int(answer.session_lifetime_ms)


class Case(NamedTuple):
    """The steps of a client on a connection to a listener, and all that must be seen."""

    name: str
    listener: str
    play: Callable[[Session], list[Any]]
    expected: list[Any]


ENTERED: Final = (0, "", "", True)
REFUSED: Final = (0, "", INVALID, False)
ENDED: Final = (58, INVALID, "", False)
BAD_MESSAGE: Final = (58, GENERIC, "", False)


def shown(token: Callable[[Session], Any]) -> Callable[[Session], list[Any]]:
    """Show a token; a refusal is acknowledged."""

    def play(session: Session) -> list[Any]:
        found = [session.shake(), token(session)]
        if found[-1] == ENTERED:
            return [*found, session.wire.metadata()]
        return [*found, session.say(ACKNOWLEDGED), session.wire.ends()]

    return play


def exchange_of(message: bytes) -> Callable[[Session], list[Any]]:
    return lambda session: [session.shake(), session.say(message), session.wire.ends()]


def raw_login(session: Session) -> list[Any]:
    def frame(message: bytes) -> Any:
        return session.wire.exchange(struct.pack(">i", len(message)) + message)

    shaken = session.shake(0)
    refused = frame(BearerClientFirst("a.b.c").encode())
    return [shaken, refused, frame(BearerClientFirst(unsigned()).encode()), session.wire.metadata()]


def raw_refusal(session: Session) -> list[Any]:
    def frame(message: bytes) -> Any:
        return session.wire.exchange(struct.pack(">i", len(message)) + message)

    return [session.shake(0), frame(BearerClientFirst("a.b.c").encode()), frame(ACKNOWLEDGED)]


def until_expired(session: Session) -> list[Any]:
    session.shake()
    lifetime_ms = session.lifetime_ms(session.provider.token("alice", exp=int(time.time()) + BRIEF_S))
    began_s = time.monotonic()
    eventually(lambda: session.wire.metadata() != "served", "the end of the session")
    return [0 < lifetime_ms <= BRIEF_S * 1000, time.monotonic() - began_s > lifetime_ms / 1000 - 0.05]


def again(*steps: Callable[[Session], Any]) -> Callable[[Session], list[Any]]:
    """Log in, then do steps."""
    return lambda session: [session.shake(), session.show_signed(), *(step(session) for step in steps)]


def second_try(second: Callable[[Session], Any]) -> Callable[[Session], list[Any]]:
    return lambda session: [session.shake(), session.show("a.b.c"), second(session), session.wire.metadata()]


def pairs(*texts: str) -> bytes:
    return ("n,,\x01" + "".join(f"{text}\x01" for text in texts) + "\x01").encode()


CASES: Final = [
    Case("signed", SIGNED, shown(lambda session: session.show_signed()), [0, ENTERED, "served"]),
    *(
        Case(name, SIGNED, shown(token), [0, REFUSED, ENDED, CLOSED])
        for name, token in (
            ("another audience", lambda session: session.show_signed(aud="other")),
            ("no audience", lambda session: session.show_signed(aud=None)),
            ("another issuer", lambda session: session.show_signed(iss="other")),
            ("expired", lambda session: session.show_signed(exp=int(time.time()) - 60)),
            ("no exp", lambda session: session.show_signed(exp=None)),
            ("no iat", lambda session: session.show_signed(iat=None)),
            ("no sub", lambda session: session.show_signed("")),
            ("not a token", lambda session: session.show("abc")),
            ("no signature", lambda session: session.show(unsigned(aud="kafka", iat=1))),
            ("a kid that is unknown", lambda session: session.show(
                session.provider.token(header={"kid": "other"}))),
        )
    ),
    Case("one of several audiences", SIGNED, shown(lambda session: session.show_signed(aud=["x", "kafka"])),
         [0, ENTERED, "served"]),
    Case("expired, within the skew", SIGNED,
         lambda session: [session.shake(), session.show_signed(iat=1, exp=int(time.time()) - 10),
                          session.wire.metadata()],
         [0, (0, "", "", False), CLOSED]),
    Case("unsigned", UNSIGNED, shown(lambda session: session.show(unsigned())), [0, ENTERED, "served"]),
    Case("unsigned, expired", UNSIGNED, shown(lambda session: session.show(unsigned(exp=1))),
         [0, REFUSED, ENDED, CLOSED]),
    Case("unsigned, signed", UNSIGNED, shown(lambda session: session.show_signed()), [0, REFUSED, ENDED, CLOSED]),
    Case("a scope that is missing", SCOPED, shown(lambda session: session.show(unsigned(scope=["produce"]))),
         [0, (0, "", NO_SCOPE, False), (58, NO_SCOPE, "", False), CLOSED]),
    Case("a scope that is there", SCOPED, shown(lambda session: session.show(unsigned(scope=["consume", "produce"]))),
         [0, ENTERED, "served"]),
    Case("a valid token after another", UNSIGNED, second_try(lambda session: session.show(unsigned())),
         [0, REFUSED, ENTERED, "served"]),
    Case("two invalid tokens", UNSIGNED, second_try(lambda session: session.show("x.y.z")),
         [0, REFUSED, REFUSED, "empty"]),
    Case("garbage after a token", UNSIGNED, second_try(lambda session: session.say(b"?")),
         [0, REFUSED, BAD_MESSAGE, CLOSED]),
    *(
        Case(f"malformed: {name}", UNSIGNED, exchange_of(message), [0, BAD_MESSAGE, CLOSED])
        for name, message in (
            ("empty", b""),
            ("only the acknowledgement", ACKNOWLEDGED),
            ("no token", pairs("host=x")),
            ("no pairs", pairs()),
            ("an extension with a digit", pairs("auth=Bearer abc", "a1=b")),
            ("an extension without a value", pairs("auth=Bearer abc", "a=")),
            ("channel binding", b"y,,\x01auth=Bearer abc\x01\x01"),
            ("a token with a space", pairs("auth=Bearer a b")),
            ("not UTF-8", b"n,,\x01auth=Bearer \xff\x01\x01"),
        )
    ),
    Case("bearer in any case, twice, the last one counts", UNSIGNED,
         lambda session: [session.shake(), session.say(pairs("auth=Bearer abc", f"auth=BEARER  {unsigned()}"))],
         [0, ENTERED]),
    Case("extensions", UNSIGNED, shown(lambda session: session.show(unsigned(), traceId="1 2", x="y")),
         [0, ENTERED, "served"]),
    Case("its own authorization id", UNSIGNED, shown(lambda session: session.show(unsigned(), "alice")),
         [0, ENTERED, "served"]),
    Case("another authorization id", UNSIGNED,
         lambda session: [session.shake(), session.show(unsigned(), "carol"), session.wire.ends()],
         [0, (58, ANOTHER_ID, "", False), CLOSED]),
    Case("metadata after a refusal", UNSIGNED,
         lambda session: [session.shake(), session.show("a.b.c"), session.wire.metadata(), session.wire.ends()],
         [0, REFUSED, "empty", CLOSED]),
    Case("raw", UNSIGNED, raw_login, [0, INVALID.encode(), b"", "served"]),
    Case("raw and refused", UNSIGNED, raw_refusal, [0, INVALID.encode(), CLOSED]),
    Case("a session ends with its token", SIGNED, until_expired, [True, True]),
    Case("the shorter lifetime counts", SESSIONS,
         lambda session: [session.shake(), session.lifetime_ms(session.provider.token("alice"))], [0, SESSION_MS]),
    Case("reauthentication with another token", SIGNED,
         again(lambda session: session.shake(), lambda session: session.show_signed(),
               lambda session: session.wire.metadata()),
         [0, ENTERED, 0, ENTERED, "served"]),
    Case("reauthentication as another", SIGNED,
         again(lambda session: session.shake(), lambda session: session.show_signed("bob"),
               lambda session: session.wire.ends()),
         [0, ENTERED, 0, (58, "Cannot change principals during re-authentication from User.alice: User.bob", "", False),
          CLOSED]),
    Case("reauthentication with a token that is refused", SIGNED,
         again(lambda session: session.shake(), lambda session: session.show_signed(aud="x"),
               lambda session: session.say(ACKNOWLEDGED), lambda session: session.wire.ends()),
         [0, ENTERED, 0, REFUSED, ENDED, CLOSED]),
]  # fmt: skip


def seen(case: Case, ports: Mapping[str, int], provider: OidcProvider) -> list[Any]:
    """Play a case. Return all that was seen."""
    wire = Wire(ports[case.listener])
    try:
        return case.play(Session(wire, provider))
    finally:
        wire.close()
