"""The configs of OAUTHBEARER: what is read with which prefix, which starts are refused, and what is warned of."""

import pytest

from kpybroker.config import between_nodes
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.dynamic import validate
from kpybroker.config.logins import logins_of
from kpybroker.config.oauth import HANDLER, KEYS_URL, SECURED_HANDLER, UNSECURED_HANDLER, VALIDATOR, TokenRules
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.sasl.jaas import OAUTHBEARER_MODULE
from kpybroker.machines.sasl.unsecured_tokens import UnsecuredRules
from kpybroker.security.oauth import token_login
from kpybroker.security.oauth.assertions import ALGORITHM, KEY_FILE, PASSPHRASE, Assertion
from kpybroker.security.oauth.claims import ClaimRules
from kpybroker.security.oauth.grants import AssertionGrant, ClientCredentials

PREFIX = "listener.name.secured.oauthbearer."
URL = "https://keys.example/jwks"
TOKENS = "https://keys.example/token"
JAAS = f"{OAUTHBEARER_MODULE} required;"
BASE = {
    "listeners": "PLAINTEXT://localhost:9092,SECURED://localhost:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{PREFIX}sasl.jaas.config": JAAS,
    f"{PREFIX}{HANDLER}": SECURED_HANDLER,
    KEYS_URL: URL,
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "everybody",
    "kpybroker.oauthbearer.allowed.urls": f"{URL},{TOKENS}",
}
NODES = {
    "inter.broker.listener.name": "SECURED",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    f"{PREFIX}{token_login.HANDLER}": token_login.SECURED_HANDLER,
    token_login.TOKEN_URL: TOKENS,
    token_login.CLIENT_ID: "node",
    token_login.CLIENT_SECRET: "hidden-secret",
}

BY_ASSERTION = {
    token_login.RETRIEVER: token_login.BEARER_RETRIEVER,
    KEY_FILE: "/key.pem",
    PASSPHRASE: "hidden-secret",
}


def configured(**changes: str | None) -> BrokerConfig:
    settings = {**BASE, **changes}
    return BrokerConfig.load(None, {name: text for name, text in settings.items() if text is not None})


def rules(config: BrokerConfig) -> TokenRules:
    (mechanism,) = logins_of(config, "SECURED").mechanisms
    assert mechanism.tokens is not None
    return mechanism.tokens


def test_configs_are_read_with_the_prefixes_of_the_listener_and_of_the_mechanism() -> None:
    config = configured(
        **{
            "listener.name.secured.sasl.oauthbearer.expected.issuer": "listener",
            f"{PREFIX}sasl.oauthbearer.expected.issuer": "mechanism",
            "listener.name.secured.sasl.oauthbearer.expected.audience": "a,b",
            "sasl.oauthbearer.clock.skew.seconds": "5",
            "sasl.oauthbearer.sub.claim.name": "client_id",
            f"{PREFIX}sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000",
        }
    )
    found = rules(config)
    assert found.claims == ClaimRules(("a", "b"), "mechanism", 5, "scope", "client_id")
    assert found.keys is not None
    assert (found.keys.endpoint.url, found.keys.refresh_ms) == (URL, 1000)
    assert not config.warnings


def test_tokens_without_a_signature_are_accepted_only_where_that_is_asked_for() -> None:
    options = 'unsecuredValidatorPrincipalClaimName="name" unsecuredValidatorRequiredScope="a b"'
    jaas = f"{OAUTHBEARER_MODULE} required {options};"
    changes = {f"{PREFIX}{HANDLER}": UNSECURED_HANDLER, f"{PREFIX}sasl.jaas.config": jaas}
    config = configured(**changes)
    assert rules(config) == TokenRules(UnsecuredRules("name", "scope", ("a", "b")), None)
    assert not config.warnings  # the listener is on loopback
    everywhere = configured(**changes, listeners="PLAINTEXT://localhost:9092,SECURED://:9093")
    assert any("DANGER: listener SECURED accepts tokens without a signature" in each for each in everywhere.warnings)


NO_CHECKS = {f"sasl.oauthbearer.expected.{claim}": None for claim in ("audience", "issuer")}
"""Neither an audience nor an issuer is expected."""
UNVERIFIED = {f"sasl.oauthbearer.allow.unverified.{claim}": "true" for claim in ("audience", "issuer")}


def test_checks_that_are_not_wanted_are_warned_of() -> None:
    config = configured(**NO_CHECKS, **UNVERIFIED)
    assert rules(config).claims == ClaimRules(any_audience=True)
    warnings = config.warnings
    assert [each.partition(" is not set")[0] for each in warnings] == [
        "listener SECURED: sasl.oauthbearer.expected.audience",
        "listener SECURED: sasl.oauthbearer.expected.issuer",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (NO_CHECKS, 'requires "sasl.oauthbearer.expected.audience" to be configured'),
        ({"sasl.oauthbearer.expected.issuer": None}, 'set "sasl.oauthbearer.allow.unverified.issuer" to true'),
        ({f"{PREFIX}{HANDLER}": None}, f"{PREFIX}{HANDLER} is missing: set it to {SECURED_HANDLER}"),
        ({f"{PREFIX}{HANDLER}": "org.example.Mine"}, "is a Java class, which cannot be loaded"),
        ({HANDLER: SECURED_HANDLER}, "for OAUTHBEARER set listener.name.LISTENER.oauthbearer."),
        ({f"listener.name.secured.{HANDLER}": SECURED_HANDLER}, "cannot be loaded"),
        ({KEYS_URL: None}, f"{KEYS_URL} is missing for the listener SECURED"),
        ({KEYS_URL: "https://keys.example/other"}, "add this URL to kpybroker.oauthbearer.allowed.urls"),
        ({KEYS_URL: "http://keys.example/jwks"}, "use https"),
        ({"kpybroker.oauthbearer.allowed.urls": None}, "add this URL to kpybroker.oauthbearer.allowed.urls"),
        ({VALIDATOR: "org.apache.kafka.common.security.oauthbearer.ClientJwtValidator"}, "is not available; known are"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "must be positive"),
        ({"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "-1"}, "must be between 0"),
        ({"sasl.oauthbearer.sub.claim.name": ""}, "must not be empty"),
        ({f"{PREFIX}sasl.oauthbearer.nonsense": "1"}, "not understood"),
        ({"sasl.oauthbearer.nonsense": "1"}, "not understood"),
        ({"listener.name.plaintext.sasl.oauthbearer.expected.issuer": "me"}, "no listener 'plaintext' that uses SASL"),
        ({f"{PREFIX}sasl.jaas.config": f'{OAUTHBEARER_MODULE} required unsecuredValidatorAllowableClockSkewMs="x";',
          f"{PREFIX}{HANDLER}": UNSECURED_HANDLER}, "is a number of milliseconds"),
        ({**NODES, token_login.TOKEN_URL: None}, f"{token_login.TOKEN_URL} is missing"),
        ({**NODES, token_login.CLIENT_ID: None}, f"{token_login.CLIENT_ID} is missing"),
        ({**NODES, "kpybroker.oauthbearer.allowed.urls": URL}, f"{token_login.TOKEN_URL}={TOKENS} is not allowed yet"),
        ({**NODES, f"{PREFIX}{token_login.HANDLER}": "org.example.Mine"}, "is a Java class"),
        ({**NODES, f"{PREFIX}{token_login.HANDLER}": None, token_login.TOKEN_URL: None},
         "unsecuredLoginStringClaim_sub is missing"),
        ({**NODES, **BY_ASSERTION, KEY_FILE: None}, f"{KEY_FILE} is missing"),
        ({**NODES, **BY_ASSERTION, ALGORITHM: "HS256"}, "ES256, RS256"),
        ({**NODES, **BY_ASSERTION, f"{PREFIX}{ALGORITHM}": "none"}, "ES256, RS256"),
    ],
)  # fmt: skip
def test_a_node_without_the_checks_it_was_asked_for_does_not_start(changes: dict[str, str | None], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        configured(**changes)
    assert words in refused.value.message
    assert "\n" not in refused.value.message
    assert "hidden-secret" not in refused.value.message


def test_nodes_log_in_with_the_tokens_that_are_configured() -> None:
    credentials = between_nodes.brokers(configured(**NODES)).credentials
    assert isinstance(credentials, between_nodes.TokenCredentials)
    found = credentials.source
    assert found.endpoint is not None
    assert found.endpoint.url == TOKENS
    assert found.client == ClientCredentials("node", "hidden-secret")
    assert "hidden-secret" not in repr(found)
    assert found.window.buffer_s == 300


def test_nodes_log_in_by_the_assertions_that_are_configured() -> None:
    changes = {**NODES, **BY_ASSERTION, token_login.CLIENT_ID: None, token_login.CLIENT_SECRET: None}
    config = configured(**changes, **{f"{PREFIX}{ALGORITHM}": "es256", "sasl.oauthbearer.assertion.claim.sub": "node"})
    credentials = between_nodes.brokers(config).credentials
    assert isinstance(credentials, between_nodes.TokenCredentials)
    wanted = Assertion(algorithm="ES256", key_file="/key.pem", passphrase="hidden-secret", claims=(("sub", "node"),))
    assert credentials.source.client == AssertionGrant(wanted)
    assert "hidden-secret" not in repr(credentials)


@pytest.mark.parametrize(
    "name",
    [
        f"listener.name.secured.{KEYS_URL}",
        f"{PREFIX}{KEYS_URL}",
        f"{PREFIX}{HANDLER}",
        f"{PREFIX}{token_login.TOKEN_URL}",
    ],
)
def test_alter_configs_does_not_change_the_trusted_token_issuers(name: str) -> None:
    config = configured()
    with pytest.raises(ConfigError, match="a running broker does not change it; restart it"):
        validate({name: UNSECURED_HANDLER if name.endswith(HANDLER) else TOKENS}, config, of_one_broker=True)
