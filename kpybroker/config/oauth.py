"""The configs of OAUTHBEARER on a listener: how tokens of clients are checked, and by which tokens this node logs in.

As in Kafka each can begin with ``listener.name.LISTENER.`` and with ``listener.name.LISTENER.oauthbearer.``. The
classes are known by name; none is loaded. Nothing is fetched here.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.endpoints import Listener
from kpybroker.machines.sasl import unsecured_tokens
from kpybroker.machines.sasl.jaas import JaasEntry
from kpybroker.machines.sasl.oauthbearer import NAME
from kpybroker.machines.sasl.unsecured_tokens import UnsecuredRules
from kpybroker.security.oauth.claims import ClaimRules
from kpybroker.security.oauth.endpoints import ALLOWED_URLS, OAuthEndpoint, check_allowed, is_loopback, parse_endpoint
from kpybroker.security.oauth.token_login import TokenLogin, read_token_login

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues

HANDLER: Final = "sasl.server.callback.handler.class"
KEYS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
SECURED_HANDLER: Final = f"{_PACKAGE}OAuthBearerValidatorCallbackHandler"
UNSECURED_HANDLER: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
VALIDATORS: Final = (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator")


class KeySource(NamedTuple):
    """The place of the public keys that sign tokens."""

    endpoint: OAuthEndpoint
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int
    tls: tuple[tuple[str, str], ...]
    """The options ``ssl.*`` of the JAAS config. They may hold secrets."""

    def __repr__(self) -> str:
        return f"KeySource({self.endpoint.url!r})"


class TokenRules(NamedTuple):
    """The check of clients' tokens on a listener."""

    unsecured: UnsecuredRules | None
    """The rules of tokens without a signature; None if tokens must be signed."""
    keys: KeySource | None
    claims: ClaimRules = ClaimRules()


def token_rules(config: "BrokerValues", listener: str, entry: JaasEntry) -> TokenRules:
    """The check of tokens on a listener. Raises ConfigError."""
    prefix = f"listener.name.{listener.lower()}.{NAME.lower()}."
    handler = config.of_listener(listener, HANDLER, NAME)
    try:
        if handler == UNSECURED_HANDLER:
            return TokenRules(unsecured_tokens.rules_of(entry.options), None)
        if handler is None:
            raise ValueError(
                f"{prefix}{HANDLER} is missing: set it to {SECURED_HANDLER}, which checks signatures; without it "
                "Apache Kafka accepts tokens that anybody can make"
            )
        if handler != SECURED_HANDLER:
            raise ValueError(
                f"{prefix}{HANDLER}: {handler} is a Java class, which cannot be loaded; known are {SECURED_HANDLER} "
                f"and, for tests, {UNSECURED_HANDLER}"
            )
        validator = config.of_listener(listener, VALIDATOR, NAME)
        if validator not in VALIDATORS:
            raise ValueError(f"{VALIDATOR}: {validator} is not available; known are {' and '.join(VALIDATORS)}")
        return TokenRules(None, _key_source(config, listener, entry), _claim_rules(config, listener))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _key_source(config: "BrokerValues", listener: str, entry: JaasEntry) -> KeySource:
    url = config.of_listener(listener, KEYS_URL, NAME)
    if not url:
        raise ValueError(
            f"{KEYS_URL} is missing for the listener {listener}: signatures are checked with the keys there"
        )
    endpoint = parse_endpoint(KEYS_URL, url)
    check_allowed(KEYS_URL, endpoint, config[ALLOWED_URLS])
    refresh, *backoff = "refresh.ms", "retry.backoff.ms", "retry.backoff.max.ms"
    refresh_ms, backoff_ms, backoff_max_ms = (
        config.of_listener(listener, f"sasl.oauthbearer.jwks.endpoint.{key}", NAME) for key in (refresh, *backoff)
    )
    if refresh_ms <= 0:
        raise ValueError(f"sasl.oauthbearer.jwks.endpoint.refresh.ms must be positive, not {refresh_ms}")
    if not 0 <= backoff_ms <= backoff_max_ms:
        raise ValueError("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms must be between 0 and retry.backoff.max.ms")
    tls = tuple((name, value) for name, value in entry.options.items() if name.startswith("ssl."))
    return KeySource(endpoint, refresh_ms, backoff_ms, backoff_max_ms, tls)


_DEMANDED: Final = (
    'The OAuth validator for the broker requires "sasl.oauthbearer.expected.{0}" to be configured so that the token\'s '
    '{0} ("{1}") claim can be verified, but it was not set. Set "sasl.oauthbearer.expected.{0}" to {2}, or set '
    '"sasl.oauthbearer.allow.unverified.{0}" to true to accept tokens regardless of their {0}.'
)


def _claim_rules(config: "BrokerValues", listener: str) -> ClaimRules:
    def value(key: str) -> object:
        return config.of_listener(listener, f"sasl.oauthbearer.{key}", NAME)

    audiences, skew_s = value("expected.audience"), value("clock.skew.seconds")
    assert isinstance(audiences, tuple)
    assert isinstance(skew_s, int)
    names = [str(value(f"{claim}.claim.name") or "").strip() for claim in ("scope", "sub")]
    if not all(names):
        raise ValueError("sasl.oauthbearer.scope.claim.name and sasl.oauthbearer.sub.claim.name must not be empty")
    issuer = str(value("expected.issuer") or "").strip() or None
    if config.is_in_zookeeper_mode:  # Kafka 3.9 demands neither
        return ClaimRules(audiences, issuer, skew_s, names[0], names[1])
    if not audiences and not value("allow.unverified.audience"):
        raise ValueError(_DEMANDED.format("audience", "aud", "the audience(s) that identify this cluster"))
    if issuer is None and not value("allow.unverified.issuer"):
        url = "the issuer URL of the OAuth/OIDC provider that signs the tokens"
        raise ValueError(_DEMANDED.format("issuer", "iss", url))
    return ClaimRules(audiences, issuer, skew_s, names[0], names[1], not audiences)


def token_login(config: "BrokerValues", listener: str, entry: JaasEntry) -> TokenLogin:
    """The source of the tokens by which this node logs in to others on a listener. Raises ConfigError."""

    def value_of(name: str) -> object:
        return config.of_listener(listener, name, NAME) if config.knows(name) else None

    try:
        return read_token_login(value_of, entry.options, config[ALLOWED_URLS])
    except ValueError as error:
        raise ConfigError(f"listener {listener}: {error}") from None


def warnings(listener: Listener, advertised: Listener, rules: TokenRules) -> list[str]:
    """Sentences about a listener that accepts more tokens than its owner may think."""
    name = listener.name
    if rules.unsecured is not None:
        if is_loopback(listener.host) and is_loopback(advertised.host):
            return []
        danger = (
            f"DANGER: listener {name} accepts tokens without a signature: everyone who reaches {advertised} can log in "
            f"as any user; set listener.name.{name.lower()}.oauthbearer.{HANDLER} to {SECURED_HANDLER}"
        )
        return [danger]
    found = []
    if not rules.claims.audiences:
        found.append(
            f"listener {name}: sasl.oauthbearer.expected.audience is not set, so "
            + ("tokens of any audience are accepted" if rules.claims.any_audience else "tokens with one are refused")
        )
    if rules.claims.issuer is None:
        found.append(
            f"listener {name}: sasl.oauthbearer.expected.issuer is not set, so tokens of any issuer that signs with "
            "these keys are accepted"
        )
    return found
