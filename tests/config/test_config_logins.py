"""The configs of listeners with SASL: what is read with which prefix, and which starts are refused."""

from pathlib import Path

import pytest

from kpybroker.config import between_nodes
from kpybroker.config.between_nodes import Credentials
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.dynamic import validate
from kpybroker.config.login_file import login_file_of
from kpybroker.config.logins import logins_of
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.sasl.jaas import KRB5_MODULE, PLAIN_MODULE, SCRAM_MODULE
from kpybroker.machines.sasl.jaas_file import LoginFile, parse_file

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


IN_FILE = f"""
KafkaServer {{ {PLAIN_MODULE} required username=node password=p user_alice="of all"; {SCRAM_MODULE} required; }};
other.KafkaServer {{ {PLAIN_MODULE} required user_alice="of other"; }};
"""


def test_a_login_file_counts_where_no_config_says_the_login_module() -> None:
    file = LoginFile("/jaas.conf", parse_file(IN_FILE))
    listeners = "PLAINTEXT://localhost:9092,SECURED://localhost:9093,OTHER://localhost:9094"
    settings = {**BASE, "listeners": listeners, f"listener.name.secured.{MECHANISMS}": "PLAIN,SCRAM-SHA-512"}
    by_config = BrokerConfig(settings, login_file=file)
    del settings[PLAIN]
    by_file = BrokerConfig(settings, login_file=file)
    assert logins_of(by_config, "SECURED").mechanisms[0].entry.options == {"user_alice": "wonder"}
    assert logins_of(by_file, "SECURED").mechanisms[0].entry.options["user_alice"] == "of all"
    assert [each.name for each in logins_of(by_file, "SECURED").mechanisms] == ["PLAIN", "SCRAM-SHA-512"]
    assert logins_of(by_file, "OTHER").mechanisms[0].entry.options == {"user_alice": "of other"}
    dynamic = by_file.updated({}, {PLAIN: JAAS})
    assert logins_of(dynamic, "SECURED").mechanisms[0].entry.options == {"user_alice": "wonder"}
    assert logins_of(dynamic.updated({}, {}), "SECURED").mechanisms[0].entry.options["user_alice"] == "of all"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("KafkaClient { M required; };", "/jaas.conf does not replace it: it has no section KafkaServer"),
        (f"KafkaServer {{ {SCRAM_MODULE} required; }};", f"its section KafkaServer has no {PLAIN_MODULE}"),
        (f"secured.KafkaServer {{ M required; }}; {IN_FILE}", f"its section secured.KafkaServer has no {PLAIN_MODULE}"),
    ],
)
def test_a_login_file_without_the_login_module_is_refused(text: str, words: str) -> None:
    settings = {name: value for name, value in BASE.items() if name != PLAIN}
    with pytest.raises(ConfigError, match=f"^{PLAIN} is missing, and .*{words}"):
        BrokerConfig(settings, login_file=LoginFile("/jaas.conf", parse_file(text)))


def test_a_node_logs_in_to_others_by_the_login_file() -> None:
    settings = {
        **BASE,
        "inter.broker.listener.name": "SECURED",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    by_config = {**settings, PLAIN: f'{PLAIN_MODULE} required username="other" password="secret";'}
    file = LoginFile("/jaas.conf", parse_file(IN_FILE))
    del settings[PLAIN]
    assert between_nodes.brokers(BrokerConfig(settings, login_file=file)).credentials == Credentials(
        "PLAIN", "node", "p", by_token=False
    )
    assert between_nodes.brokers(BrokerConfig(by_config, login_file=file)).credentials == Credentials(
        "PLAIN", "other", "secret", by_token=False
    )


def test_a_mechanism_without_a_login_module_in_the_file_is_refused() -> None:
    settings = {**BASE, MECHANISMS: "PLAIN,SCRAM-SHA-256"}
    del settings[PLAIN]
    text = f"KafkaServer {{ {PLAIN_MODULE} required; }};"
    config = BrokerConfig(settings, login_file=LoginFile("/jaas.conf", parse_file(text)))
    assert [each.name for each in logins_of(config, "SECURED").mechanisms] == ["PLAIN"]
    (warning,) = config.warnings
    assert warning == (
        "nobody can log in to the listener SECURED by SCRAM-SHA-256: the section KafkaServer of /jaas.conf has no "
        f"{SCRAM_MODULE}"
    )


def test_a_login_file_that_cannot_be_read_is_refused_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "jaas.conf"
    option = f"-Xmx1g -Djava.security.auth.login.config={path}"
    for content, words in (
        (None, "No such file or directory"),
        (b"\xff", "it is not UTF-8"),
        (b"KafkaServer { M required p='secret' }", "expected an option, at character 37"),
    ):
        if content is not None:
            path.write_bytes(content)
        file = login_file_of(option)
        assert file.why_unusable == f"-Djava.security.auth.login.config={path} in KAFKA_OPTS cannot be used: {words}"
        settings = {name: value for name, value in BASE.items() if name != PLAIN}
        with pytest.raises(ConfigError, match=f"^{PLAIN} is missing, and -Djava.security.auth.login.config=.*{words}$"):
            BrokerConfig(settings, login_file=file)
        assert BrokerConfig(BASE, login_file=file).warnings == [file.why_unusable]
    path.write_text(IN_FILE)
    assert set(login_file_of(option).sections) == {"KafkaServer", "other.KafkaServer"}
    assert not login_file_of(option).why_unusable
    for prefix in ("=", "file:", "file://"):
        assert login_file_of(option.replace("config=", f"config={prefix}")).sections.keys() == {
            "KafkaServer",
            "other.KafkaServer",
        }
    assert login_file_of("-Xmx1g").path == ""
