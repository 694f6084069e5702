"""The protection of connections between nodes, as configured: what is dialled how, and what refuses the start."""

import pytest

from kpybroker.config import between_nodes
from kpybroker.config.between_nodes import Credentials, DialledNodes
from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.config_def import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OF_BROKERS = "listener.name.internal.plain.sasl.jaas.config"
OF_CONTROLLERS = "listener.name.controller.scram-sha-512.sasl.jaas.config"
NOT_ENABLED = (
    "requirement failed: sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is "
    "used for inter-broker communication"
)
BASE = {
    "node.id": "2",
    "process.roles": "broker",
    "listeners": "CLIENTS://127.0.0.1:1,INTERNAL://127.0.0.1:2",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:3",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_SSL",
    "inter.broker.listener.name": "INTERNAL",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
    OF_BROKERS: f'{PLAIN} username="node" password="hush" user_node="hush";',
    OF_CONTROLLERS: f'{SCRAM} username="broker" password="hush";',
}


def configured(**changes: str | None) -> BrokerConfig:
    settings = {**BASE, **changes}
    return BrokerConfig.load(None, {name: text for name, text in settings.items() if text is not None})


def test_brokers_and_controllers_are_dialled_as_their_listeners_demand() -> None:
    config = configured()
    brokers, controllers = between_nodes.brokers(config), between_nodes.controllers(config)
    assert brokers == DialledNodes("INTERNAL", "SASL_PLAINTEXT", Credentials("PLAIN", "node", "hush", by_token=False))
    credentials = Credentials("SCRAM-SHA-512", "broker", "hush", by_token=False)
    assert controllers == DialledNodes("CONTROLLER", "SASL_SSL", credentials)
    assert (brokers.has_tls, controllers.has_tls) == (False, True)
    assert "hush" not in repr(brokers)


def test_a_node_without_security_dials_plain() -> None:
    config = BrokerConfig.load(None, {"log.dirs": "/tmp/data"})
    assert between_nodes.brokers(config) == DialledNodes("PLAINTEXT", "PLAINTEXT", None)
    assert between_nodes.controllers(config).credentials is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            NOT_ENABLED,
        ),
        ({"sasl.mechanism.inter.broker.protocol": None}, "sasl.mechanism.inter.broker.protocol must be included"),
        (
            {"sasl.mechanism.controller.protocol": None},  # then it is GSSAPI
            "listener.name.controller.gssapi.sasl.jaas.config is missing",
        ),
        ({"sasl.mechanism.controller.protocol": "PLAIN"}, "listener.name.controller.plain.sasl.jaas.config is missing"),
        ({OF_CONTROLLERS: None}, f"{OF_CONTROLLERS} is missing"),
        ({OF_CONTROLLERS: f'{SCRAM} password="hush";'}, f"{OF_CONTROLLERS} has no username"),
        ({OF_BROKERS: f'{PLAIN} username="node" user_node="hush";'}, f"{OF_BROKERS} has no password"),
        ({OF_CONTROLLERS: f'{SCRAM} username="a" password="hush\\0";'}, "must not hold the character NUL"),
    ],
)
def test_a_node_that_could_log_in_nowhere_does_not_start(changes: dict[str, str | None], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        configured(**changes)
    assert words in refused.value.message
    assert "\n" not in refused.value.message
    assert "hush" not in refused.value.message


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["sasl.mechanism.controller.protocol=SCRAM-SHA-512"]),
        ({"controller.quorum.voters": "1@h:1"}, []),
        ({"authorizer.class.name": AUTHORIZER}, ["sasl.mechanism.controller.protocol=SCRAM-SHA-512"]),
        (
            {"authorizer.class.name": AUTHORIZER, "early.start.listeners": "INTERNAL"},
            ["sasl.mechanism.controller.protocol=SCRAM-SHA-512", "early.start.listeners lacks CONTROLLER"],
        ),
    ],
)
def test_a_quorum_that_cannot_begin_is_warned_of(changes: dict[str, str], words: list[str]) -> None:
    as_controller = {
        "process.roles": "broker,controller",
        "listeners": "INTERNAL://:1,CONTROLLER://:2",
        "controller.quorum.voters": "1@h:1,2@h:2,3@h:3",
        "listener.security.protocol.map": "INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    entries = {f"listener.name.{name}.plain.sasl.jaas.config": BASE[OF_BROKERS] for name in ("controller", "internal")}
    entries["listener.name.internal.scram-sha-512.sasl.jaas.config"] = BASE[OF_CONTROLLERS]
    warnings = configured(**{**as_controller, **entries, "node.id": "1", **changes}).warnings
    assert len(warnings) == len(words)
    assert all(line.startswith(word) for line, word in zip(warnings, words, strict=True))
