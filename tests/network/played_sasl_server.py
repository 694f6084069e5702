"""A server's side of logins, without sockets: it answers frames as a broker does, or as a test wants."""

from collections.abc import Callable
from typing import Any

from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.exchange import AuthenticationFailed, ServerExchange
from kpybroker.machines.sasl.plain import PlainServer
from kpybroker.machines.sasl.scram_server import ScramLogin, ScramServer
from kpywire import api, codec, error_codes
from kpywire.header import RequestHeader, decode_request_header, encode_response_header
from kpywire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kpywire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

USER, PASSWORD = "broker", "bröker's, secret="
SERVED = {api.API_VERSIONS: (0, 4), api.SASL_HANDSHAKE: (0, 1), api.SASL_AUTHENTICATE: (0, 2), api.VOTE: (0, 2)}


def server_half(mechanism: str, password: str = PASSWORD, user: str = USER) -> ServerExchange:
    """The server's half of one exchange; it knows one user."""
    if mechanism == "PLAIN":
        return PlainServer(lambda: {user: password})
    kind = scram.MECHANISMS[mechanism]
    credential = kind.credential(kind.salted_password(password, b"salt" * 4, 4096), b"salt" * 4, 4096)
    known = {user: ScramLogin(credential, user)}
    return ScramServer(kind, lambda name, _by_token: known.get(name), "theservers", lambda _name, _by_token: credential)


def answered(frame: bytes, response: Any) -> bytes:
    """The frame that answers a request."""
    asked = decode_request_header(frame)
    header = encode_response_header(asked.api_key, asked.api_version, asked.correlation_id)
    return header + bytes(codec.encode(response, asked.api_version))


class SaslServer:
    """One connection of a listener with SASL."""

    def __init__(
        self,
        enabled: tuple[str, ...] = ("PLAIN",),
        lifetime_ms: int = 0,
        password: str = PASSWORD,
        user: str = USER,
    ) -> None:
        self.asked: list[RequestHeader] = []
        self.served = dict(SERVED)
        self.lifetime_ms = lifetime_ms
        self._enabled = enabled
        self._password = password
        self._user = user
        self._exchange: ServerExchange | None = None
        self._takes: dict[int, Callable[[bytes, RequestHeader], Any]] = {
            api.API_VERSIONS: self._versions,
            api.SASL_HANDSHAKE: self._handshake,
            api.SASL_AUTHENTICATE: self._authenticate,
        }

    @property
    def keys(self) -> list[int]:
        """The API keys of the requests that came."""
        return [each.api_key for each in self.asked]

    def take(self, frame: bytes) -> bytes:
        """The answer to a request of a login."""
        header = decode_request_header(frame)
        self.asked.append(header)
        return answered(frame, self._takes[header.api_key](frame, header))

    def _versions(self, _frame: bytes, _header: RequestHeader) -> ApiVersionsResponse:
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.served.items()]
        return ApiVersionsResponse(error_code=0, api_keys=keys)

    def _handshake(self, frame: bytes, header: RequestHeader) -> SaslHandshakeResponse:
        asked = codec.decode(SaslHandshakeRequest, header.api_version, frame, header.end)
        if asked.mechanism not in self._enabled:
            code = error_codes.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=code, mechanisms=list(self._enabled))
        self._exchange = server_half(asked.mechanism, self._password, self._user)
        return SaslHandshakeResponse(error_code=0, mechanisms=list(self._enabled))

    def _authenticate(self, frame: bytes, header: RequestHeader) -> SaslAuthenticateResponse:
        asked = codec.decode(SaslAuthenticateRequest, header.api_version, frame, header.end)
        assert self._exchange is not None
        try:
            message = self._exchange.respond(asked.auth_bytes)
        except AuthenticationFailed as error:
            code = error_codes.SASL_AUTHENTICATION_FAILED
            return SaslAuthenticateResponse(error_code=code, error_message=error.text, auth_bytes=b"")
        lifetime_ms = self.lifetime_ms if self._exchange.is_complete else 0
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=message, session_lifetime_ms=lifetime_ms
        )
