"""An OpenID Connect provider for tests: signs tokens, serves its keys and a token endpoint, and fails when told to.

``with OidcProvider() as provider:`` listens on loopback in threads of its own. It needs the extra
``kpybroker[security]``. It is no provider for anything but tests: it keeps secrets in memory and answers everybody.
"""

import json
import ssl
import threading
import time
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs, unquote_plus, urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeyParameters, RSAKey
from joserfc.jws import deserialize_compact, serialize_compact

JWKS: Final = "/jwks"
TOKEN: Final = "/token"
CONFIGURATION: Final = "/.well-known/openid-configuration"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFETIME_S: Final = 3_600
AUDIENCE: Final = "kafka"
LISTENER: Final = "OIDC"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."


class OidcProvider:
    """A provider. Its attributes may be changed while it runs."""

    def __init__(
        self,
        *,
        clients: Mapping[str, str] | None = None,
        algorithm: str = "RS256",
        certificate: str | PathLike[str] | None = None,
        audience: str | None = AUDIENCE,
    ) -> None:
        """``clients``: secrets by client id; by default ``client`` has ``secret``. ``algorithm``: RS256 or ES256.
        ``certificate``: a PEM file with key and certificate; with it the provider speaks https.
        """
        self.clients = dict(clients or {"client": "secret"})
        """The clients that get tokens, whose ``sub`` is their id."""
        self.issuers: dict[str, bytes] = {}
        """The public keys in PEM whose assertions get tokens (RFC 7523), by the ``iss`` of the assertion."""
        self.forms: list[dict[str, str]] = []
        """The forms that were sent to the token endpoint."""
        self.audience = audience
        self.lifetime_s: float = LIFETIME_S
        """The time after which tokens expire that are signed from now on."""
        self.delay_s = 0.0
        """How long each answer waits."""
        self.requests: list[str] = []
        """The paths that were asked for."""
        self.redirects: dict[str, str] = {}
        """The places to which it redirects, by path."""
        self._algorithm = algorithm
        self._failures: list[int] = []
        self._keys: list[RSAKey | ECKey] = []
        self._certificate = certificate
        self._server: ThreadingHTTPServer | None = None
        self._woken = threading.Event()
        self.rotate_keys()

    # Life

    def start(self) -> "OidcProvider":
        """Serve when this returns."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider._answer(self, b"")

            def do_POST(self) -> None:
                provider._answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
                """Nothing is logged."""

        server = self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(fspath(self._certificate))
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.02,), name="oidc-provider", daemon=True).start()
        return self

    def stop(self) -> None:
        """Serve no more. Answers that wait are sent at once."""
        self._woken.set()
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> "OidcProvider":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Addresses

    @property
    def issuer(self) -> str:
        """Its URL, which is in ``iss`` of its tokens."""
        assert self._server is not None, "it is not running"
        scheme, host = ("http", "127.0.0.1") if self._certificate is None else ("https", "localhost")
        return f"{scheme}://{host}:{self._server.server_address[1]}"

    @property
    def jwks_url(self) -> str:
        """The URL of its keys."""
        return f"{self.issuer}{JWKS}"

    @property
    def token_url(self) -> str:
        """The URL where clients get tokens."""
        return f"{self.issuer}{TOKEN}"

    def listener_config(self, listener: str = LISTENER, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
        """The configs of a broker with which a listener accepts the tokens of this provider. Further listeners, and the
        addresses, are added by the test."""
        prefix = f"listener.name.{listener.lower()}"
        handler = f"{_PACKAGE}OAuthBearerValidatorCallbackHandler"
        return {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{listener}:{protocol}",
            f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{_PACKAGE}OAuthBearerLoginModule required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": handler,
            f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": self.jwks_url,
            f"{prefix}.sasl.oauthbearer.expected.audience": self.audience or "",
            f"{prefix}.sasl.oauthbearer.allow.unverified.audience": "false" if self.audience else "true",
            f"{prefix}.sasl.oauthbearer.expected.issuer": self.issuer,
            "kpybroker.oauthbearer.allowed.urls": f"{self.jwks_url},{self.token_url}",
        }

    def broker_config(self, listener: str = LISTENER) -> dict[str, str]:
        """The configs of a `Broker` with one more listener, on a free port, that accepts the tokens of this provider.
        Its address is ``broker.servers_of(listener)``."""
        return {
            **self.listener_config(listener),
            "listeners": f"PLAINTEXT://127.0.0.1:0,{listener}://127.0.0.1:0",
            "inter.broker.listener.name": "PLAINTEXT",
        }

    # Tokens and keys

    def token(self, sub: str = "client", *, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A signed token. ``claims`` replace those that it would have; None leaves one out."""
        now_s = time.time()
        found = {
            "iss": self.issuer,
            "sub": sub,
            "aud": self.audience,
            "iat": int(now_s),
            "exp": int(now_s + self.lifetime_s),
            **claims,
        }
        payload = json.dumps({name: value for name, value in found.items() if value is not None})
        key = self._keys[-1]
        protected = {"alg": self._algorithm, "typ": "JWT", "kid": key.kid, **(header or {})}
        return serialize_compact(protected, payload, key, algorithms=[self._algorithm])

    def rotate_keys(self, *, keep: bool = False) -> str:
        """Sign with a new key from now on. Return its id. ``keep``: the keys before are still published."""
        kid = f"key-{time.time_ns()}"
        parameters: KeyParameters = {"kid": kid, "use": "sig", "alg": self._algorithm}
        new: RSAKey | ECKey
        if self._algorithm.startswith("ES"):
            new = ECKey.generate_key("P-256", parameters)
        else:
            new = RSAKey.generate_key(2048, parameters)
        self._keys = [*(self._keys if keep else []), new]
        return kid

    def key_set(self) -> str:
        """Its public keys as a JSON Web Key Set, such as for a file."""
        return json.dumps({"keys": [key.as_dict(private=False) for key in self._keys]})

    def fail(self, status: int = 503, times: int = 1) -> None:
        """Answer the next requests with this status."""
        self._failures += [status] * times

    # Serving

    def _answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        path = urlsplit(request.path).path
        self.requests.append(path)
        if self.delay_s:
            self._woken.wait(self.delay_s)
        if self._failures:
            _send(request, self._failures.pop(0), {"error": "temporarily_unavailable"})
        elif path in self.redirects:
            _send(request, 302, {}, self.redirects[path])
        elif path == JWKS:
            _send(request, 200, json.loads(self.key_set()))
        elif path == CONFIGURATION:
            found = {"issuer": self.issuer, "jwks_uri": self.jwks_url, "token_endpoint": self.token_url}
            _send(request, 200, found)
        elif path == TOKEN and request.command == "POST":
            self._grant(request, parse_qs(body.decode()))
        else:
            _send(request, 404, {"error": "not_found"})

    def _grant(self, request: BaseHTTPRequestHandler, asked: Mapping[str, list[str]]) -> None:
        form = {name: values[0] for name, values in asked.items()}
        self.forms.append(form)
        client_id, secret = _credentials(request.headers.get("Authorization", ""), asked)
        user: str | None = None
        if form.get("grant_type") == JWT_BEARER:
            user, refused = self._asserted(form.get("assertion", "")), (400, "invalid_grant", "wrong assertion")
        elif form.get("grant_type") != "client_credentials":
            refused = (400, "unsupported_grant_type", "not a grant of this provider")
        elif form.get("client_assertion_type") == ASSERTION_TYPE:
            user, refused = self._asserted(form.get("client_assertion", "")), (401, "invalid_client", "wrong assertion")
        else:
            user = client_id if client_id in self.clients and self.clients[client_id] == secret else None
            refused = (401, "invalid_client", "wrong client id or secret")
        if user is None:
            _send(request, refused[0], {"error": refused[1], "error_description": refused[2]})
        else:
            token = self.token(user, scope=form.get("scope"))
            _send(request, 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_s)})

    def _asserted(self, assertion: str) -> str | None:
        """The ``sub`` of an assertion that one of the issuers has signed for this provider, and that is valid now."""
        try:
            header, claims = (json.loads(urlsafe_b64decode(part + "==")) for part in assertion.split(".")[:2])
            kind = ECKey if header["alg"] == "ES256" else RSAKey
            deserialize_compact(assertion, kind.import_key(self.issuers[claims["iss"]]), algorithms=["RS256", "ES256"])
            is_now = claims.get("nbf", 0) <= time.time() < claims["exp"]
            user: str = claims["sub"]
            return user if is_now and claims["aud"] in (self.token_url, self.issuer) else None
        except (JoseError, ValueError, LookupError, TypeError):
            return None


def _credentials(authorization: str, asked: Mapping[str, list[str]]) -> tuple[str, str]:
    kind, _, basic = authorization.partition(" ")
    if kind.lower() == "basic":
        client_id, _, secret = b64decode(basic).decode().partition(":")
        return unquote_plus(client_id), unquote_plus(secret)
    return asked.get("client_id", [""])[0], asked.get("client_secret", [""])[0]


def _send(request: BaseHTTPRequestHandler, status: int, content: Any, location: str = "") -> None:
    body = json.dumps(content).encode()
    try:
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        if location:
            request.send_header("Location", location)
        request.end_headers()
        request.wfile.write(body)
    except OSError:
        request.close_connection = True
