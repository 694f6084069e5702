"""The answers of a listener with SASL, byte by byte: cases to be played against a broker, with all that must be seen.

The rows are those of ``SaslServerAuthenticator`` and of sessions (KIP-368). `properties` configures three listeners
beside the plain one: one without sessions, one with long and one with brief ones.
"""

import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.sasl.exchange import AuthenticationFailed
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from kpybroker.machines.sasl.plain import PlainClient
from kpybroker.machines.sasl.scram import SCRAM_SHA_256
from kpybroker.machines.sasl.scram_client import ScramClient
from kpywire import api
from kpywire.header import encode_request_header
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from support.raw_client import RawClient
from support.waiting import eventually

USER, PASSWORD = "alice", "wonder"
SECURED, SESSIONS, BRIEF = LISTENERS = ("SECURED", "SESSIONS", "BRIEF")
MECHANISMS: Final = ["PLAIN", "SCRAM-SHA-256"]
MOST_BYTES: Final = 10_000
LONG_MS, BRIEF_MS = 3_600_000, 300
RENEWED_MS: Final = 1_300
"""With SCRAM, so that a client may begin a reauthentication after 90 % of it: a second has passed then."""
CLOSED: Final = "closed"
INVALID: Final = "Authentication failed: Invalid username or password"
GENERIC: Final = (
    "Authentication failed during {} due to invalid credentials with SASL mechanism SCRAM-SHA-256"  # formatted below
)
OTHER_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"
NOT_NOW: Final = "SaslAuthenticate request received after successful authentication"
Ports = Mapping[str, int]
"""The port of each listener."""


def properties() -> dict[str, str]:
    """The configuration of the listeners, apart from their addresses."""
    found = {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in LISTENERS)]
        ),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.server.max.receive.size": str(MOST_BYTES),
        f"listener.name.{SESSIONS.lower()}.connections.max.reauth.ms": str(LONG_MS),
        f"listener.name.{BRIEF.lower()}.connections.max.reauth.ms": str(BRIEF_MS),
    }
    found[f"listener.name.{BRIEF.lower()}.scram-sha-256.connections.max.reauth.ms"] = str(RENEWED_MS)
    for name in LISTENERS:
        prefix = f"listener.name.{name.lower()}"
        users = f'user_{USER}="{PASSWORD}" user_admin="secret"'
        found[f"{prefix}.plain.sasl.jaas.config"] = f"{PLAIN_MODULE} required {users};"
        found[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    return found


class Wire:
    """One connection, and what is seen on it, in short."""

    def __init__(self, port: int) -> None:
        self._raw = RawClient(port)

    def close(self) -> None:
        self._raw.__exit__()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def ask(self, request: Any, version: int) -> Any:
        """The response, or CLOSED."""
        try:
            return self._raw.call(request, version)
        except ConnectionError:
            return CLOSED

    def exchange(self, data: bytes) -> Any:
        """The frame that answers these bytes, or CLOSED."""
        try:
            self._raw.sock.sendall(data)
            head = self._raw.sock.recv(4, socket.MSG_WAITALL)
            (size,) = struct.unpack(">i", head) if len(head) == 4 else (None,)
            return CLOSED if size is None else self._raw.sock.recv(size, socket.MSG_WAITALL) if size else b""
        except ConnectionError:
            return CLOSED

    def code(self, request: Any, version: int) -> Any:
        """The error code of the response."""
        answer = self.ask(request, version)
        return answer if answer == CLOSED else answer.error_code

    def metadata(self) -> str:
        """Whether the broker serves this connection."""
        answer = self.ask(MetadataRequest(topics=[]), 12)
        return CLOSED if answer == CLOSED else "served" if answer.brokers else "empty"

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        answer = self.ask(SaslHandshakeRequest(mechanism=mechanism), version)
        return answer if answer == CLOSED else (answer.error_code, sorted(answer.mechanisms))

    def token(self, token: bytes, version: int = 2) -> Any:
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=token), version)
        return answer if answer == CLOSED else (answer.error_code, answer.error_message, answer.session_lifetime_ms)

    def plain(self, user: str = USER, password: str = PASSWORD, version: int = 2) -> Any:
        return self.token(PlainClient(user, password).first(), version)

    def scram(self, user: str = USER, password: str = PASSWORD) -> Any:
        """The answer that ends the exchange."""
        client = ScramClient(SCRAM_SHA_256, user, password, secrets.token_hex(12))
        message: bytes | None = client.first()
        while True:
            assert message is not None
            answer = self.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
            if answer == CLOSED or answer.error_code:
                return answer if answer == CLOSED else (answer.error_code, answer.error_message, 0)
            try:
                message = client.respond(answer.auth_bytes)
            except AuthenticationFailed as failed:
                return failed.text
            if client.is_complete:
                return (0, "", answer.session_lifetime_ms)

    def ends(self) -> str:
        """Whether the broker has closed the connection, when it has answered everything."""
        return CLOSED if self._raw.is_closed() else "open"


class Case(NamedTuple):
    """The steps of a client on a connection to a listener, and all that must be seen."""

    name: str
    listener: str
    play: Callable[[Wire], list[Any]]
    expected: list[Any]


def unknown_versions(wire: Wire) -> list[Any]:
    body = encode_request_header(api.API_VERSIONS, 127, 1, "x")
    answer = wire.exchange(struct.pack(">i", len(body)) + body)
    odd = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    return [struct.unpack_from(">ih", answer)[1], wire.code(odd, 3), wire.code(versions(), 3), wire.handshake()]


def versions() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="raw", client_software_version="1")


def raw(user: str, password: str) -> Callable[[Wire], list[Any]]:
    def play(wire: Wire) -> list[Any]:
        token = PlainClient(user, password).first()
        return [wire.handshake(version=0), wire.exchange(struct.pack(">i", len(token)) + token), wire.metadata()]

    return play


def between(request: Any, version: int) -> Callable[[Wire], list[Any]]:
    return lambda wire: [wire.handshake()[0], wire.code(request, version), wire.ends()]


def unserved_version(wire: Wire) -> list[Any]:
    body = encode_request_header(api.SASL_AUTHENTICATE, 99, 1, "x") + b"\0\0\0\0"
    return [wire.handshake()[0], wire.exchange(struct.pack(">i", len(body)) + body)]


def until_expired(wire: Wire) -> list[Any]:
    lifetime_ms = login(wire)[2]
    began = time.monotonic()
    eventually(lambda: wire.metadata() != "served", "the end of the session")
    return [lifetime_ms, time.monotonic() - began > BRIEF_MS / 1000 - 0.05]


def after_the_end(wire: Wire) -> list[Any]:
    login(wire)
    time.sleep(BRIEF_MS / 1000 + 0.05)
    return [wire.handshake()[0], wire.plain()[:2], wire.metadata()]


def login(wire: Wire) -> Any:
    assert wire.handshake() == (0, MECHANISMS)
    answer = wire.plain()
    assert answer[:2] == (0, "")
    return answer


def again(*steps: Callable[[Wire], Any]) -> Callable[[Wire], list[Any]]:
    """Log in, then do steps."""
    return lambda wire: [login(wire)[2], *(step(wire) for step in steps)]


def other_id(wire: Wire) -> list[Any]:
    return [wire.handshake("SCRAM-SHA-256")[0], wire.token(b"n,a=admin,n=alice,r=abc"), wire.ends()]


def of_version(version: int) -> Callable[[Wire], list[Any]]:
    return lambda wire: [wire.handshake()[0], wire.plain(version=version), wire.metadata()]


CHOSEN = (0, MECHANISMS)
ENTERED = (0, "", 0)
CASES: Final = [
    Case("metadata first", SECURED, lambda wire: [wire.metadata()], [CLOSED]),
    Case("versions, then metadata", SECURED, lambda wire: [wire.code(versions(), 3), wire.metadata()], [0, CLOSED]),
    Case("versions of all kinds", SECURED, unknown_versions, [35, 42, 0, CHOSEN]),
    Case("no handshake", SECURED, lambda wire: [wire.plain()], [CLOSED]),
    Case("HTTP", SECURED, lambda wire: [wire.exchange(b"GET / HTTP/1.1\r\n\r\n")], [CLOSED]),
    Case("too large", SECURED, lambda wire: [wire.exchange(struct.pack(">i", MOST_BYTES + 1))], [CLOSED]),
    *(
        Case(f"mechanism that is off, v{version}", SECURED,
             lambda wire, version=version: [wire.handshake("GSSAPI", version), wire.ends()],  # type: ignore[misc]
             [(33, MECHANISMS), CLOSED])
        for version in (0, 1)
    ),
    *(Case(f"PLAIN, v{version}", SECURED, of_version(version), [0, ENTERED, "served"]) for version in (0, 1, 2)),
    Case("PLAIN, wrong password", SECURED, lambda wire: [wire.handshake()[0], wire.plain(password="x"), wire.ends()],
         [0, (58, INVALID, 0), CLOSED]),
    Case("PLAIN, unknown user", SECURED, lambda wire: [wire.handshake()[0], wire.plain("bob"), wire.ends()],
         [0, (58, INVALID, 0), CLOSED]),
    Case("PLAIN, one token", SECURED, lambda wire: [wire.handshake()[0], wire.token(b"x"), wire.ends()],
         [0, (58, "Invalid SASL/PLAIN response: expected 3 tokens, got 1", 0), CLOSED]),
    Case("PLAIN, raw", SECURED, raw(USER, PASSWORD), [CHOSEN, b"", "served"]),
    Case("PLAIN, raw and short", SECURED, raw("a", "b"), [CHOSEN, CLOSED, CLOSED]),
    Case("PLAIN, raw and wrong", SECURED, raw(USER, "x"), [CHOSEN, CLOSED, CLOSED]),
    Case("SCRAM", SECURED, lambda wire: [wire.handshake("SCRAM-SHA-256"), wire.scram(), wire.metadata()],
         [CHOSEN, ENTERED, "served"]),
    Case("SCRAM, wrong password", SECURED,
         lambda wire: [wire.handshake("SCRAM-SHA-256")[0], wire.scram(password="x"), wire.ends()],
         [0, (58, GENERIC.format("authentication"), 0), CLOSED]),
    Case("SCRAM, unknown user", SECURED,
         lambda wire: [wire.handshake("SCRAM-SHA-256")[0], wire.scram("bob"), wire.ends()],
         [0, (58, GENERIC.format("authentication"), 0), CLOSED]),
    Case("SCRAM, another id", SECURED, other_id, [0, (58, OTHER_ID, 0), CLOSED]),
    Case("SCRAM, garbage", SECURED,
         lambda wire: [wire.handshake("SCRAM-SHA-256")[0], wire.token(b"?"), wire.ends()],
         [0, (58, GENERIC.format("authentication"), 0), CLOSED]),
    Case("metadata in between", SECURED, lambda wire: [wire.handshake()[0], wire.metadata(), wire.ends()],
         [0, "empty", CLOSED]),
    Case("versions in between", SECURED, between(versions(), 3), [0, 34, CLOSED]),
    Case("a handshake in between", SECURED, lambda wire: [wire.handshake()[0], wire.handshake(), wire.ends()],
         [0, (34, []), CLOSED]),
    Case("groups in between", SECURED, between(ListGroupsRequest(), 4), [0, 34, CLOSED]),
    Case("a coordinator in between", SECURED, between(FindCoordinatorRequest(key="g"), 3), [0, 34, CLOSED]),
    Case("the cluster in between", SECURED, between(DescribeClusterRequest(), 0), [0, 34, CLOSED]),
    Case("unserved version", SECURED, unserved_version, [0, CLOSED]),
    Case("once more, without sessions", SECURED,
         again(lambda wire: wire.handshake(), lambda wire: wire.plain(), lambda wire: wire.metadata()),
         [0, (34, []), (34, NOT_NOW, 0), "served"]),
    Case("reauthentication, twice in a second", SESSIONS,
         again(lambda wire: wire.handshake(), lambda wire: wire.plain(), lambda wire: wire.metadata(),
               lambda wire: wire.handshake(), lambda wire: wire.metadata()),
         [LONG_MS, CHOSEN, (0, "", LONG_MS), "served", (34, []), "served"]),
    Case("reauthentication, raw", SESSIONS, again(lambda wire: raw(USER, PASSWORD)(wire)),
         [LONG_MS, [CHOSEN, b"", "served"]]),
    Case("reauthentication by another mechanism", SESSIONS,
         again(lambda wire: wire.handshake("SCRAM-SHA-256"), lambda wire: wire.token(b"n,,n=alice,r=abc")),
         [LONG_MS, CHOSEN, CLOSED]),
    Case("reauthentication as another", SESSIONS,
         again(lambda wire: wire.handshake(), lambda wire: wire.plain("admin", "secret"), lambda wire: wire.ends()),
         [LONG_MS, CHOSEN,
          (58, "Cannot change principals during re-authentication from User.alice: User.admin", 0), CLOSED]),
    Case("reauthentication, wrong password", SESSIONS,
         lambda wire: [wire.handshake("SCRAM-SHA-256"), wire.scram(), wire.handshake("SCRAM-SHA-256"),
                       wire.scram(password="x"), wire.ends()],
         [CHOSEN, (0, "", LONG_MS), CHOSEN, (58, GENERIC.format("re-authentication"), 0), CLOSED]),
    Case("reauthentication by a mechanism that is off", SESSIONS,
         again(lambda wire: wire.handshake("GSSAPI")), [LONG_MS, CLOSED]),
    Case("metadata in a reauthentication", SESSIONS,
         again(lambda wire: wire.handshake(), lambda wire: wire.metadata(), lambda wire: wire.ends()),
         [LONG_MS, CHOSEN, "empty", CLOSED]),
    Case("a session ends", BRIEF, until_expired, [BRIEF_MS, True]),
    Case("reauthentication after the end", BRIEF, after_the_end, [0, (0, ""), "served"]),
]  # fmt: skip


def seen(case: Case, ports: Ports) -> list[Any]:
    """Play a case. Return all that was seen."""
    wire = Wire(ports[case.listener])
    try:
        return case.play(wire)
    finally:
        wire.close()
