"""The configs by which a broker or a client gets its tokens, as values: ``sasl.oauthbearer.*`` and ``sasl.login.*``.

Pure: nothing is fetched or read. Brokers and the commands read the same names, and the same options of the JAAS config.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.sasl import unsecured_tokens
from kpybroker.machines.sasl.oauthbearer import check_extensions
from kpybroker.security.oauth.assertions import FILE, ISSUER, read_assertion
from kpybroker.security.oauth.endpoints import OAuthEndpoint, check_allowed, parse_endpoint
from kpybroker.security.oauth.grants import AssertionGrant, ClientCredentials

HANDLER: Final = "sasl.login.callback.handler.class"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
URLENCODE: Final = "sasl.oauthbearer.header.urlencode"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
SECURED_HANDLER: Final = f"{_PACKAGE}OAuthBearerLoginCallbackHandler"
UNSECURED_HANDLER: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
RETRIEVERS: Final = tuple(
    f"{_PACKAGE}{name}" for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
)
BEARER_RETRIEVER: Final = f"{_PACKAGE}JwtBearerJwtRetriever"
"""Kafka's class for the grant ``jwt-bearer``."""
_EXTENSION: Final = "extension_"

ValueOf = Callable[[str], Any]
"""The value of a config by Kafka's name; None if it has none. Secrets have their text in an attribute ``value``."""


class LoginRetries(NamedTuple):
    """``sasl.login.retry.backoff.ms`` and others about time. None: the default of
    `kpybroker.security.oauth.fetching`."""

    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    connect_ms: int | None = None
    read_ms: int | None = None


class RefreshWindow(NamedTuple):
    """``sasl.login.refresh.*``: when to replace a token."""

    factor: float = 0.8
    jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300

    def due_ms(self, begins_ms: int | None, expires_ms: int, now_ms: int, random: float) -> int:
        """The time at which to get the next token; ``random`` is between 0 and 1 (Kafka's
        ``ExpiringCredentialRefreshingLogin``)."""
        part = self.factor + self.jitter * random
        if now_ms + 1000 * (self.min_period_s + self.buffer_s) > expires_ms:
            return now_ms + int((expires_ms - now_ms) * part)
        start_ms = now_ms if begins_ms is None else begins_ms
        proposed_ms = start_ms + int((expires_ms - start_ms) * part)
        return min(expires_ms - 1000 * self.buffer_s, max(proposed_ms, now_ms + 1000 * self.min_period_s))


class TokenLogin(NamedTuple):
    """The source of tokens of a broker or client. With an endpoint and a client it is asked, with an endpoint alone it
    is a file, and without either tokens are made of ``options``, without a signature."""

    endpoint: OAuthEndpoint | None
    client: ClientCredentials | AssertionGrant | None
    options: tuple[tuple[str, str], ...]
    """The options of the JAAS config. They hold secrets."""
    principal_claim: str = "sub"
    extensions: tuple[tuple[str, str], ...] = ()
    """SASL extensions (KIP-342)."""
    patience: LoginRetries = LoginRetries()
    window: RefreshWindow = RefreshWindow()

    def __repr__(self) -> str:
        where = "made without a signature" if self.endpoint is None else self.endpoint.url
        return f"TokenLogin({where!r}, {self.client!r})"

    @property
    def tls(self) -> dict[str, str]:
        """The options ``ssl.*`` of the JAAS config: whom to trust at the endpoint, as in Kafka."""
        return {name: value for name, value in self.options if name.startswith("ssl.")}


def read_token_login(value_of: ValueOf, options: Mapping[str, str], allowed: tuple[str, ...] | None) -> TokenLogin:
    """The source of tokens that is configured. Raises ValueError with one line.

    ``allowed`` are the URLs in `kpybroker.security.oauth.endpoints.ALLOWED_URLS`; None allows all.
    """
    url, handler = _text(value_of, TOKEN_URL), _text(value_of, HANDLER)
    if handler not in ("", SECURED_HANDLER, UNSECURED_HANDLER):
        raise ValueError(f"{HANDLER}: {handler} is a Java class; known are {SECURED_HANDLER} and {UNSECURED_HANDLER}")
    retriever = _text(value_of, RETRIEVER)
    if retriever not in ("", *RETRIEVERS, BEARER_RETRIEVER):
        known = ", ".join((*RETRIEVERS, BEARER_RETRIEVER))
        raise ValueError(f"{RETRIEVER}: {retriever} is not available; known are {known}")
    login = TokenLogin(
        None,
        None,
        tuple(options.items()),
        _text(value_of, "sasl.oauthbearer.sub.claim.name") or "sub",
        patience=_patience(value_of),
        window=_window(value_of),
    )
    if handler == UNSECURED_HANDLER or not (url or handler):
        unsecured_tokens.make(options, 0)
        extensions = unsecured_tokens.extensions_of(options)
        check_extensions(extensions)
        return login._replace(extensions=tuple(extensions.items()))
    if not url:
        raise ValueError(f"{TOKEN_URL} is missing: tokens come from there")
    endpoint = parse_endpoint(TOKEN_URL, url)
    if allowed is not None:
        check_allowed(TOKEN_URL, endpoint, allowed)
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    check_extensions(extensions)
    if endpoint.is_file and retriever == BEARER_RETRIEVER:
        raise ValueError(
            f"{TOKEN_URL}={url}: {BEARER_RETRIEVER} needs an https URL, which gives a token for an assertion"
        )
    client = None if endpoint.is_file else _grant(value_of, options, is_bearer=retriever == BEARER_RETRIEVER)
    return login._replace(endpoint=endpoint, client=client, extensions=tuple(extensions.items()))


def _grant(value_of: ValueOf, options: Mapping[str, str], *, is_bearer: bool) -> ClientCredentials | AssertionGrant:
    """The proof that is shown at the endpoint. As in Kafka, older names in the JAAS options count where a config is not
    set, but not for the grant ``jwt-bearer``; and an assertion takes the place of a secret where its file or issuer is
    set."""
    scope = _text(value_of, SCOPE)
    if is_bearer:
        return AssertionGrant(read_assertion(value_of), scope)
    scope = scope or options.get("scope", "").strip()
    client_id = _text(value_of, CLIENT_ID) or options.get("clientId", "").strip()
    if _text(value_of, FILE) or _text(value_of, ISSUER):
        return AssertionGrant(read_assertion(value_of), scope, is_bearer=False, client_id=client_id)
    secret = _text(value_of, CLIENT_SECRET) or options.get("clientSecret", "").strip()
    if not client_id or not secret:
        raise ValueError(f"{CLIENT_SECRET if client_id else CLIENT_ID} is missing: tokens are asked for with it")
    return ClientCredentials(client_id, secret, scope, _text(value_of, URLENCODE).lower() == "true")


def _patience(value_of: ValueOf) -> LoginRetries:
    defaults = LoginRetries()
    backoff_ms = _number(value_of, "sasl.login.retry.backoff.ms")
    backoff_max_ms = _number(value_of, "sasl.login.retry.backoff.max.ms")
    return LoginRetries(
        defaults.backoff_ms if backoff_ms is None else backoff_ms,
        defaults.backoff_max_ms if backoff_max_ms is None else backoff_max_ms,
        _number(value_of, "sasl.login.connect.timeout.ms"),
        _number(value_of, "sasl.login.read.timeout.ms"),
    )


def _window(value_of: ValueOf) -> RefreshWindow:
    keys = ("window.factor", "window.jitter", "min.period.seconds", "buffer.seconds")
    values = [value_of(f"sasl.login.refresh.{key}") for key in keys]
    fields = zip(RefreshWindow._fields, values, strict=True)
    return RefreshWindow()._replace(**{name: value for name, value in fields if value is not None})


def _number(value_of: ValueOf, name: str) -> int | None:
    value = value_of(name)
    return None if value is None else int(value)


def _text(value_of: ValueOf, name: str) -> str:
    value = value_of(name)
    value = getattr(value, "value", value)
    return "" if value is None else str(value).strip()
