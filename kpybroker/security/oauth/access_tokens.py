"""The access tokens by which this process logs in to others, from the source that a `TokenLogin` names.

That is a token endpoint with the grant ``client_credentials`` (RFC 6749, section 4.4) or ``jwt-bearer`` (RFC 7523), a
file that others renew, or this process, which makes tokens without a signature. `new_token` blocks: it is for threads
and commands.
"""

import json
import ssl
import threading
import time
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from functools import partial
from random import random
from typing import Any, Final, NamedTuple

from kpybroker.machines.sasl import unsecured_tokens
from kpybroker.security.oauth.fetching import DEFAULT_TIMEOUT_MS, AnswerTimeouts, FetchFailed, fetch, retrying
from kpybroker.security.oauth.grants import AssertionGrant, ClientCredentials
from kpybroker.security.oauth.token_login import TokenLogin

_PARTS: Final = 3
_LARGEST_S: Final = 1e15


class AccessToken(NamedTuple):
    """A token of this process. Only the side that it is shown to checks it."""

    text: str
    principal: str
    begins_ms: int | None
    expires_ms: int

    def __repr__(self) -> str:
        return f"AccessToken([hidden], {self.principal!r}, expires_ms={self.expires_ms})"


def new_token(login: TokenLogin) -> AccessToken:
    """A token from its source. Blocks. Raises FetchFailed."""
    endpoint = login.endpoint
    if endpoint is None:
        text = unsecured_tokens.make(dict(login.options), time.time_ns() // 1_000_000)
    elif login.client is None:
        text = fetch(endpoint, ssl.create_default_context).decode("ascii", "replace").strip()
    else:
        patience = login.patience
        limits = AnswerTimeouts(patience.connect_ms or DEFAULT_TIMEOUT_MS, patience.read_ms or DEFAULT_TIMEOUT_MS)
        ask = partial(
            fetch,
            endpoint,
            lambda: context_of(login.tls),
            body=_body(login.client),
            headers=login.client.headers(),
            limits=limits,
        )
        answer = retrying(ask, patience.backoff_ms, patience.backoff_max_ms)
        text = _token_in(answer, endpoint.url)
    return read_claims(text, login.principal_claim)


def _body(client: ClientCredentials | AssertionGrant) -> bytes:
    if isinstance(client, ClientCredentials):
        return client.body()
    from kpybroker.security.oauth.signed_assertions import new_assertion

    return client.body(new_assertion(client.assertion))


class KeptToken:
    """The token of a command: fetched when it is needed, and again when its refresh is due."""

    def __init__(self, login: TokenLogin) -> None:
        self._login = login
        self._lock = threading.Lock()
        self._token: AccessToken | None = None
        self._due_ms = 0

    def get(self) -> AccessToken:
        """Blocks. Raises FetchFailed."""
        with self._lock:
            now_ms = time.time_ns() // 1_000_000
            if self._token is None or now_ms >= self._due_ms:
                token = self._token = new_token(self._login)
                self._due_ms = self._login.window.due_ms(token.begins_ms, token.expires_ms, now_ms, random())
            return self._token


def context_of(tls: dict[str, str]) -> ssl.SSLContext:
    """The TLS of an endpoint, by options ``ssl.*``. Reads stores. Raises FetchFailed."""
    from kpybroker.security.tls.contexts import client_context
    from kpybroker.security.tls.settings import TlsError, read_settings

    try:
        return client_context(read_settings(tls.get))
    except TlsError as error:
        raise FetchFailed(f"the ssl options of the JAAS config: {error}", is_final=True) from None


def read_claims(text: str, principal_claim: str = "sub") -> AccessToken:
    """A token with what it says of itself (``ClientJwtValidator``). Raises FetchFailed."""
    parts = text.split(".")
    try:
        claims: Any = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError, Base64Error, RecursionError):
        claims = None
    if len(parts) != _PARTS or not isinstance(claims, dict):
        raise FetchFailed("the token that came is not a JWT of three parts", is_final=True)
    principal = claims.get(principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise FetchFailed(f"the token that came has no text in its claim {principal_claim}", is_final=True)
    expires_ms = _ms(claims.get("exp"))
    if expires_ms is None:
        raise FetchFailed("the token that came has no exp", is_final=True)
    return AccessToken(text, principal.strip(), _ms(claims.get("iat")), expires_ms)


def _ms(value: Any) -> int | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LARGEST_S
    return int(value * 1000) if is_number else None


def _token_in(answer: bytes, url: str) -> str:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    for name in ("access_token", "id_token"):
        value = found.get(name) if isinstance(found, dict) else None
        if isinstance(value, str) and value.strip():
            return value.strip()
    raise FetchFailed(f"{url} answers without an access_token", is_final=True)
