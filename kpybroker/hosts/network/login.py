"""The login of a node at another one, message by message (Kafka's ``SaslClientAuthenticator``, KIP-152, KIP-368).

ApiVersions, then SaslHandshake with the mechanism, then SaslAuthenticate with the mechanism's own messages. A login
again, over a connection that is in use, begins with SaslHandshake. Not here: sending, time, threads. Pure.

Invariant: any answers end in `OutgoingLogin.is_complete` or in one `LoginFailed`, after a bounded number of messages.
Its text holds no secret.
"""

from collections.abc import Callable
from typing import Any, Final

from kpybroker import __version__
from kpybroker.machines.sasl.exchange import AuthenticationFailed, ClientExchange
from kpywire import api, codec, error_codes
from kpywire.errors import Malformed
from kpywire.header import decode_response_header, encode_request_header
from kpywire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kpywire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

CLIENT_ID: Final = "kpybroker-login"
MOST_MESSAGES: Final = 16
"""The largest number of messages of a mechanism. The mechanisms here need at most three."""
_API_VERSIONS_VERSION: Final = 3
_HANDSHAKE_VERSION: Final = 1
_SHOWN_CHARS: Final = 200


class LoginFailed(Exception):
    """A login that failed, with the reason for the log of this node."""


class OutgoingLogin:
    """One login. Each frame that it returns is to be sent; the frame that answers goes to `answer`."""

    def __init__(self, mechanism: str, exchange: ClientExchange) -> None:
        """``exchange`` is a fresh one of this mechanism."""
        self.is_complete = False
        self.session_lifetime_ms = 0
        """The time after which the other side accepts nothing but another login; 0 if there is no limit."""
        self._mechanism = mechanism
        self._exchange = exchange
        self._versions: dict[int, tuple[int, int]] = {}
        self._asked = 0, 0
        self._correlation_id = 0
        self._messages = 0
        self._next: Callable[[Any], bytes | None] = self._greeted

    @property
    def is_answered(self) -> bool:
        """Whether the other side has answered at all."""
        return bool(self._versions)

    def begin(self) -> bytes:
        """The first request of a connection."""
        hello = ApiVersionsRequest(client_software_name="kpybroker", client_software_version=__version__)
        return self._ask(hello, _API_VERSIONS_VERSION, self._greeted)

    def begin_again(self, before: "OutgoingLogin") -> bytes:
        """The first request of a login over a connection where ``before`` succeeded (KIP-368)."""
        self._versions = before._versions
        return self._shake_hands()

    def answer(self, frame: bytes | memoryview) -> bytes | None:
        """The next request; None if the login succeeded. Raises LoginFailed. May compute for milliseconds."""
        key, version = self._asked
        try:
            correlation_id, start = decode_response_header(key, version, frame)
            if correlation_id != self._correlation_id:
                raise Malformed(f"answer {correlation_id} to request {self._correlation_id}")
            if key == api.API_VERSIONS and frame[start : start + 2] == b"\0\x23":
                version = 0  # UNSUPPORTED_VERSION comes in version 0
            response = codec.decode(api.response_class(key), version, frame, start)
        except Malformed as error:
            raise LoginFailed(f"it does not speak Kafka's protocol: {error}") from None
        try:
            return self._next(response)
        except AuthenticationFailed as error:
            raise LoginFailed(error.reason) from None

    def _ask(self, request: Any, version: int, then: Callable[[Any], bytes | None]) -> bytes:
        self._next = then
        self._correlation_id += 1
        self._asked = key, _ = type(request).KEY, version
        header = encode_request_header(key, version, self._correlation_id, CLIENT_ID)
        return header + bytes(codec.encode(request, version))

    def _greeted(self, response: ApiVersionsResponse) -> bytes:
        if response.error_code != error_codes.NONE:
            raise LoginFailed(f"it answers {error_codes.name(response.error_code)} to ApiVersions")
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        return self._shake_hands()

    def _shake_hands(self) -> bytes:
        first, last = self._versions.get(api.SASL_HANDSHAKE, (0, -1))
        if not first <= _HANDSHAKE_VERSION <= last:
            raise LoginFailed("it does not serve SaslHandshake version 1; is its listener one with SASL?")
        return self._ask(SaslHandshakeRequest(mechanism=self._mechanism), _HANDSHAKE_VERSION, self._shaken)

    def _shaken(self, response: SaslHandshakeResponse) -> bytes:
        if response.error_code == error_codes.UNSUPPORTED_SASL_MECHANISM:
            enabled = _shown(", ".join(map(str, response.mechanisms))) if response.mechanisms else "none"
            raise LoginFailed(
                f"{self._mechanism} is not enabled there (sasl.enabled.mechanisms); enabled are: {enabled}"
            )
        if response.error_code == error_codes.ILLEGAL_SASL_STATE:
            raise LoginFailed("it expects no login now (ILLEGAL_SASL_STATE); is its listener one with SASL?")
        if response.error_code != error_codes.NONE:
            raise LoginFailed(f"it answers {error_codes.name(response.error_code)} to SaslHandshake")
        return self._authenticate(self._exchange.first())

    def _authenticate(self, message: bytes) -> bytes:
        first, last = self._versions.get(api.SASL_AUTHENTICATE, (0, -1))
        known = api.API_KEYS[api.SASL_AUTHENTICATE]
        version = min(last, known.max_version)
        if version < max(first, known.min_version):
            raise LoginFailed("it does not serve SaslAuthenticate in a version that is known here")
        self._messages += 1
        if self._messages > MOST_MESSAGES:
            raise LoginFailed(f"the login is not complete after {MOST_MESSAGES} messages")
        return self._ask(SaslAuthenticateRequest(auth_bytes=message), version, self._authenticated)

    def _authenticated(self, response: SaslAuthenticateResponse) -> bytes | None:
        if response.error_code != error_codes.NONE:
            reported = f": {_shown(response.error_message)}" if response.error_message else ""
            raise LoginFailed(f"it answers {error_codes.name(response.error_code)}{reported}")
        message = self._exchange.respond(bytes(response.auth_bytes))
        if message is not None:
            return self._authenticate(message)
        if not self._exchange.is_complete:
            raise LoginFailed(f"the other side ended {self._mechanism} too early")
        self.is_complete = True
        self.session_lifetime_ms = max(response.session_lifetime_ms, 0)
        return None


def _shown(text: str) -> str:
    """A text of the other side for a line of the log: it may hold anything."""
    return ascii(text[:_SHOWN_CHARS])
