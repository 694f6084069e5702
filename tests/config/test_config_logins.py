"""The configs of listeners with SASL: what is read with which prefix, and which starts are refused."""

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.definition import ConfigError
from kpybroker.config.dynamic import validate
from kpybroker.config.logins import logins_of
from kpybroker.sasl.jaas import KRB5_MODULE, PLAIN_MODULE, SCRAM_MODULE

PLAIN = "listener.name.secured.plain.sasl.jaas.config"
SCRAM = "listener.name.secured.scram-sha-512.sasl.jaas.config"
MECHANISMS = "sasl.enabled.mechanisms"
JAAS = f'{PLAIN_MODULE} required user_alice="wonder";'
OAUTH = "listener.name.secured.oauthbearer"
GSSAPI = "listener.name.secured.gssapi.sasl.jaas.config"
WITH_KEYS = "useKeyTab=true storeKey=true"
KRB5 = f"{KRB5_MODULE} required serviceName=kafka"
KERBEROS = {
    MECHANISMS: "GSSAPI",
    GSSAPI: f'{KRB5} {WITH_KEYS} principal="kafka/localhost";',
}
BASE = {
    "listeners": "PLAINTEXT://localhost:9092,SECURED://localhost:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,OTHER:SASL_PLAINTEXT",
    MECHANISMS: "PLAIN",
    PLAIN: JAAS,
}


def configured(**changes: str | None) -> BrokerConfig:
    settings = {**BASE, **changes}
    return BrokerConfig.load(None, {name: text for name, text in settings.items() if text is not None})


def test_mechanisms_and_limits_are_read_with_the_prefix_of_their_listener() -> None:
    config = configured(
        **{
            f"listener.name.secured.{MECHANISMS}": "SCRAM-SHA-512,PLAIN",
            MECHANISMS: "GSSAPI",
            SCRAM: f"{SCRAM_MODULE} required;",
            "connections.max.reauth.ms": "1000",
            "listener.name.secured.connections.max.reauth.ms": "2000",
            "listener.name.secured.plain.connections.max.reauth.ms": "3000",
            "sasl.server.max.receive.size": "4000",
        }
    )
    logins = logins_of(config, "SECURED")
    assert [(each.name, each.reauth_ms) for each in logins.mechanisms] == [("SCRAM-SHA-512", 2000), ("PLAIN", 3000)]
    assert logins.mechanisms[1].entry.options == {"user_alice": "wonder"}
    assert logins.max_receive_bytes == 4000
    assert not config.warnings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({PLAIN: None}, f"{PLAIN} is missing; set it to a text such as: {PLAIN_MODULE} required;"),
        ({PLAIN: None, "sasl.jaas.config": JAAS}, f"{PLAIN} is missing"),
        (
            {PLAIN: "com.sun.security.auth.module.JndiLoginModule required;"},
            "JndiLoginModule' is not one that is known",
        ),
        ({PLAIN: f'{PLAIN_MODULE} required user_alice="wonder"'}, "does not end with a ';'"),
        ({PLAIN: f"{SCRAM_MODULE} required;"}, f"the login module of PLAIN is {PLAIN_MODULE}"),
        ({MECHANISMS: "OAUTHBEARER"}, f"{OAUTH}.sasl.jaas.config is missing"),
        ({MECHANISMS: "GSSAPI"}, f"{GSSAPI} is missing; set it to a text such as: {KRB5_MODULE} required;"),
        ({**KERBEROS, GSSAPI: f"{KRB5} useKeyTab=true;"}, "needs useKeyTab=true and storeKey=true"),
        ({**KERBEROS, GSSAPI: f"{KRB5} {WITH_KEYS};"}, "there is no principal"),
        ({**KERBEROS, GSSAPI: f"{KRB5} {WITH_KEYS} principal=kafka;"}, "has the form service/host"),
        ({**KERBEROS, GSSAPI: f'{KRB5} principal="k/h";'}, "needs useKeyTab=true"),
        ({**KERBEROS, GSSAPI: f'{KRB5} keyTab="/x";'}, "keyTab has no effect without useKeyTab=true"),
        (
            {**KERBEROS, GSSAPI: KERBEROS[GSSAPI].replace("serviceName=kafka", "")},
            "there is no serviceName, and no sasl.kerberos.service",
        ),
        ({**KERBEROS, "sasl.kerberos.service.name": "other"}, "serviceName=kafka differs from sasl.kerberos.service"),
        ({**KERBEROS, "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1"}, "Invalid rule: RULE:[1:$1"),
        (
            {**KERBEROS, "listener.name.secured.sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](a(?=b)"},
            "the pattern",
        ),
        ({MECHANISMS: "plain"}, "the mechanism 'plain' of the listener SECURED is not known"),
        ({MECHANISMS: ""}, "nobody could log in"),
        ({"listener.name.plaintext.plain.sasl.jaas.config": JAAS}, "no listener 'plaintext' that uses SASL"),
        ({"listener.name.nowhere.plain.sasl.jaas.config": JAAS}, "no listener 'nowhere' that uses SASL"),
        ({"listener.name.secured.plane.connections.max.reauth.ms": "1"}, "'plane' is no mechanism"),
        ({"sasl.server.callback.handler.class": "org.example.Handler"}, "cannot be loaded"),
        ({"sasl.client.callback.handler.class": "org.example.Handler"}, "cannot be loaded"),
        ({"sasl.login.class": "org.example.Login"}, "logins written in Java cannot be loaded"),
        ({"listener.name.secured.plain.sasl.server.callback.handler.class": "org.example.Handler"}, "cannot be loaded"),
        ({"listener.name.secured.sasl.nonsense": "1"}, "not understood"),
    ],
)
def test_a_node_without_the_logins_it_was_asked_for_does_not_start(changes: dict[str, str | None], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        configured(**changes)
    assert words in refused.value.message
    assert "\n" not in refused.value.message
    assert "wonder" not in refused.value.message


def test_a_bare_jaas_config_is_ignored_with_a_warning() -> None:
    assert any(
        "sasl.jaas.config without a listener" in each for each in configured(**{"sasl.jaas.config": JAAS}).warnings
    )


def test_alter_configs_refuses_the_same_texts() -> None:
    config = configured()
    validate({PLAIN: f'{PLAIN_MODULE} required user_bob="builder";'}, config, of_one_broker=True)
    with pytest.raises(ConfigError, match="is not one that is known"):
        validate({PLAIN: "com.sun.security.auth.module.LdapLoginModule required;"}, config, of_one_broker=True)
