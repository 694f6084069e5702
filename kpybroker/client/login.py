"""The login of a client on a connection: SaslHandshake, then SaslAuthenticate until the mechanism is done.

`dialogue` yields the requests and is sent their answers, so both shells can play it (KIP-43, KIP-152). A login is
repeated on its connection before its session ends (KIP-368).
"""

import math
import secrets
from collections.abc import Generator, Sequence
from typing import Any, Final

from kpybroker.client.conversation import Conversation
from kpybroker.client.security import JAAS_KEY, MECHANISM_KEY, MECHANISMS, PROTOCOL_KEY, ClientLogin, protocol_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl.exchange import AuthenticationFailed
from kpywire import api, error_codes
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest

RENEWED_AT: Final = 0.85
"""The part of a session's lifetime after which the login is repeated, as Java's clients do at the earliest."""
NONCE_BYTES: Final = 24
HANDSHAKE_VERSION: Final = 1
"""The least version of SaslHandshake behind which SaslAuthenticate follows."""
LEAST_S: Final = 1.05
"""Brokers refuse to repeat a login within a second."""


class LoginRefused(KafkaError):
    """The broker refuses the login, or does not prove that it knows the password. The connection is of no use."""


def dialogue(login: ClientLogin, conversation: Conversation, protocol: str) -> Generator[Any, Any, int]:
    """The requests of a login; returns the lifetime of the session in ms, 0 without an end. Raises LoginRefused.

    ``protocol`` is the client's security protocol.
    """
    address = conversation.address
    if not conversation.serves(api.SASL_HANDSHAKE, HANDSHAKE_VERSION):
        raise wants_no_login(address, protocol)
    answer = yield SaslHandshakeRequest(mechanism=login.mechanism)
    if answer.error_code == error_codes.ILLEGAL_SASL_STATE:
        raise wants_no_login(address, protocol)
    if answer.error_code:
        raise LoginRefused(answer.error_code, _not_enabled(login, address, answer.mechanisms))
    exchange = login.exchange(secrets.token_urlsafe(NONCE_BYTES), address.rpartition(":")[0].strip("[]"))
    try:
        message: bytes | None = exchange.first()
    except AuthenticationFailed as why:
        error_text = f"cannot log in to {address} as {login.identity} by {login.mechanism}: {why.text}"
        raise LoginRefused(error_codes.SASL_AUTHENTICATION_FAILED, error_text) from None
    while message is not None:
        answer = yield SaslAuthenticateRequest(auth_bytes=message)
        if answer.error_code:
            raise _refused(login, address, answer.error_code, answer.error_message)
        try:
            message = exchange.respond(answer.auth_bytes)
        except AuthenticationFailed as why:
            raise _refused(login, address, error_codes.SASL_AUTHENTICATION_FAILED, why.text) from None
    lifetime_ms: int = answer.session_lifetime_ms
    return lifetime_ms


def advance(dialogue: Generator[Any, Any, int], answer: Any) -> tuple[Any, int]:
    """Play a dialogue on: the next request, or None and the lifetime of the session. Blocks if the login may."""
    try:
        return dialogue.send(answer), 0
    except StopIteration as done:
        return None, done.value


def due_s(lifetime_ms: int) -> float:
    """The time from a login until it has to be repeated."""
    return max(lifetime_ms * RENEWED_AT / 1000, LEAST_S) if lifetime_ms > 0 else math.inf


def wants_no_login(address: str, protocol: str) -> LoginRefused:
    """The error of a login where the broker expects none."""
    bare = protocol.replace("SASL_SSL", "SSL").replace("SASL_", "")
    return LoginRefused(
        error_codes.ILLEGAL_SASL_STATE, f"{address} is a listener without a login: set {PROTOCOL_KEY}={bare}"
    )


def wants_login(address: str, enabled: Sequence[str], *, has_tls: bool) -> str:
    """The line for a connection without a login, where the broker demands one by these mechanisms."""
    protocol = protocol_of(has_tls=has_tls, has_login=True)
    by = ", ".join(sorted(enabled))
    return f"{address} demands a login by {by}: set {PROTOCOL_KEY}={protocol}, {MECHANISM_KEY} and {JAAS_KEY}"


def _not_enabled(login: ClientLogin, address: str, enabled: Sequence[str]) -> str:
    error_text = f"{address} does not enable {login.mechanism}"
    if not enabled:
        return error_text
    known = sorted(set(enabled) & set(MECHANISMS))
    remedy = f"set {MECHANISM_KEY}={known[0]}" if known else f"this client logs in by {', '.join(MECHANISMS)}"
    return f"{error_text}, but {', '.join(sorted(enabled))}: {remedy}"


def _refused(login: ClientLogin, address: str, code: int, text: str | None) -> LoginRefused:
    why = (text or error_codes.message(code)).rstrip(".")
    identity = f"{login.identity} by {login.mechanism}"
    hint = f": check {login.to_check}" if code == error_codes.SASL_AUTHENTICATION_FAILED else ""
    return LoginRefused(code, f"{address} refuses the login of {identity}: {why}{hint}")
