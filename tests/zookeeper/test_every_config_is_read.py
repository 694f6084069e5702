"""Every config that docs/configs.md says is in force is read, in each mode, by something else than its own check.

Nodes of both modes are started in several setups and used by requests of every API, while every read of a config is
recorded. A config that needs a rare moment is declared with the function that reads it then. Planted: a reader that is
gone is found, and so is one that is gone in one mode alone, and a config that is read and not promised.
"""

import asyncio
import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from config_readers import Readers, recording
from nodes_in_use import MODES, ZOOKEEPER, node_of, running, use

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.broker_values import KNOWN
from kpybroker.config.honoured import HONOURED, HONOURED_TOPIC, REFUSED
from kpybroker.config.oauth import HANDLER, SECURED_HANDLER
from kpybroker.config.own_configs import OWN_CONFIGS
from kpybroker.config.zookeeper_configs import REFUSED_IN_ZOOKEEPER_MODE, ZOOKEEPER_CONFIGS, why_no_effect
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.controller.topic_bounds import TopicBounds
from kpybroker.node.assembly import zookeeper_controller
from kpybroker.security.oauth import assertions, token_login
from kpystorage.errors import StorageError
from kpystorage.memory_disk import MemoryDisk
from support.certificates import Authority

pytestmark = pytest.mark.slow

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
START_S = 4.0
LEAST_READERS = 50
BALANCER = "kpybroker.hosts.balancer.balancing:settings_of"
DEAD_LETTERS = "kpybroker.requests.serving.share.dead_letter_writer:DeadLetterWriter"
AT_RARE_MOMENTS = {
    "add.partitions.to.txn.retry.backoff.max.ms": "kpybroker.requests.serving.transaction_verification:Verifying",
    "add.partitions.to.txn.retry.backoff.ms": "kpybroker.requests.serving.transaction_verification:Verifying",
    "controlled.shutdown.max.retries": "kpybroker.node.assembly.zookeeper_source:ZooKeeperSource",
    "controlled.shutdown.retry.backoff.ms": "kpybroker.node.assembly.zookeeper_source:ZooKeeperSource",
    "errors.deadletterqueue.auto.create.topics.enable": DEAD_LETTERS,
    "errors.deadletterqueue.group.enable": DEAD_LETTERS,
    "errors.deadletterqueue.topic.name.prefix": DEAD_LETTERS,
    "follower.fetch.last.tiered.offset.enable": "kpybroker.hosts.remote_log.auxiliary_states:AuxiliaryStates",
    "kpybroker.balancer.disk.limit.percent": BALANCER,
    "kpybroker.balancer.idle.disk.percent": BALANCER,
    "kpybroker.balancer.interval.ms": BALANCER,
    "kpybroker.balancer.max.bytes.per.second": BALANCER,
    "kpybroker.balancer.tolerance.percent": BALANCER,
    "kpybroker.log.dirs.group.readable": "kpybroker.node.node:_run",
    "kpybroker.log.format": "kpybroker.node.node:_run",
    "kpybroker.mirror.carried": "kpybroker.hosts.mirror.carrying:SettingsCarrier",
    "kpybroker.mirror.directory": "kpybroker.hosts.mirror.parts:MirrorParts",
    "kpybroker.mirror.max.bytes.per.second": "kpybroker.hosts.mirror.running_mirror:RunningMirror",
    "local.retention.bytes": "kpybroker.config.topic:_tier",
    "local.retention.ms": "kpybroker.config.topic:_tier",
    "remote.copy.lag.bytes": "kpybroker.config.topic:_tier",
    "remote.copy.lag.ms": "kpybroker.config.topic:_tier",
    "remote.fetch.max.wait.ms": "kpybroker.hosts.remote_log.remote_log:RemoteLog",
    "remote.list.offsets.request.timeout.ms": "kpybroker.node.assembly.remote_log:_readers",
    "remote.log.reader.max.pending.tasks": "kpybroker.node.assembly.remote_log:_readers",
    "remote.log.copy.disable": "kpybroker.config.topic:_tier",
    "remote.log.delete.on.disable": "kpybroker.config.tiering:check_topic",
    "replica.selector.class": "kpybroker.requests.serving.preferred_replica:chooser_of",
    "sasl.kerberos.principal.to.local.rules": "kpybroker.node.assembly.logins:gssapi",
    "ssl.allow.dn.changes": "kpybroker.config.listener_tls:check_entries",
    "ssl.allow.san.changes": "kpybroker.config.listener_tls:check_entries",
    "share.coordinator.load.buffer.size": "kpybroker.hosts.coordinators.share_coordinator:_kind",
    "share.coordinator.state.topic.compression.codec": "kpybroker.hosts.coordinators.share_coordinator:_kind",
    "unclean.leader.election.enable": "kpybroker.machines.controller.state:ControllerState",
}
"""Configs that no request here leads to, with the function or class that names them. Both modes share it, or one has
the config alone."""
REFUSED_OTHERWISE = {
    "broker.id": {"node.id": "1", "broker.id": "2"},
    "group.streams.topology.description.plugin.class": {"group.streams.topology.description.plugin.class": "x.Y"},
    "inter.broker.protocol.version": {"zookeeper.connect": "zk", "inter.broker.protocol.version": "3.8"},
    "remote.log.metadata.manager.class.name": {
        "remote.log.storage.system.enable": "true",
        "remote.log.metadata.manager.class.name": "x.Y",
    },
    "password.encoder.cipher.algorithm": {
        "zookeeper.connect": "zk",
        "password.encoder.cipher.algorithm": "AES/GCM/NoPadding",
    },
}
"""Configs with one value that can be used, each with a configuration that is refused for another."""
TIERED = {
    "remote.log.storage.system.enable": "true",
    "kpybroker.remote.store": "memory:",
    "remote.log.manager.task.interval.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
}
CHOOSES_THE_MODE = frozenset({"process.roles", "zookeeper.metadata.migration.enable"})
NOT_ASKED = {
    "zookeeper.clientCnxnSocket": "a Java class; TLS needs none here",
    "zookeeper.ssl.protocol": "zookeeper.ssl.enabled.protocols names the versions",
}
"""Configs of ZooKeeper mode that change nothing."""
LOGINS = "org.apache.kafka.common.security"
TOKENS = f"{LOGINS}.oauthbearer.OAuthBearerLoginModule required;"


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def readers(mode: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Readers, Readers]:
    """The readers of brokers' configs and of topics' in a mode."""
    with recording() as recorded:
        asyncio.run(_live(mode))
        for setup in _setups(mode, tmp_path_factory.mktemp("stores")):
            for alone in (True, False):
                asyncio.run(_begin(mode, setup, alone=alone))
    return recorded.brokers, recorded.topics


async def _live(mode: str) -> None:
    """Two nodes that are used, stopped, and started again with what they have written."""
    async with running(mode, {"replica.selector.class": RACK_AWARE, **TIERED}) as pair:
        for node in pair.nodes:
            assert await use(node) == []
        await pair.stop()
        await pair.start()
        assert await use(pair.nodes[0]) == []


async def _begin(mode: str, setup: Mapping[str, str], *, alone: bool) -> None:
    """Start a node. It may wait for others, or be refused for what is not there, such as the server of tokens."""
    node = node_of(mode, setup, alone=alone)
    with suppress(StartRefused, StorageError, OSError):
        await asyncio.wait_for(node.start(MemoryDisk()), START_S)
    await node.stop(controlled=False)


def _setups(mode: str, directory: Path) -> list[dict[str, str]]:
    """Configurations of one node with everything that a plain one has not."""
    tokens = _by_tokens(secret=True), _by_tokens(secret=False)
    secured = _secured(directory)
    found = [{"log.dir": "/data"}, secured, secured | _with_tokens_of_clients(), _by_kerberos(), *tokens]
    if mode == ZOOKEEPER:
        store = secured["ssl.keystore.location"]
        found.append(
            {
                "broker.id": "-1",
                "password.encoder.secret": "secret",
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.keystore.type": "PEM",
                "zookeeper.ssl.keystore.location": store,
                "zookeeper.ssl.truststore.type": "PEM",
                "zookeeper.ssl.truststore.location": store,
            }
        )
    return found


def _secured(directory: Path) -> dict[str, str]:
    """TLS and passwords, also on the second port."""
    store = str(Authority().issue("broker").save_pem(directory / "broker.pem"))
    return {
        **_with_login(
            "SASL_SSL", "PLAIN", f'{LOGINS}.plain.PlainLoginModule required username="n" password="p" user_n="p";'
        ),
        "listeners": "CLIENTS://127.0.0.1:0,CERTIFIED://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL,CERTIFIED:SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": store,
        "kpybroker.http.listener": "127.0.0.1:0",
        "kpybroker.http.ssl.keystore.location": store,
    }


def _with_tokens_of_clients() -> dict[str, str]:
    return {
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"listener.name.clients.oauthbearer.{HANDLER}": SECURED_HANDLER,
        "listener.name.clients.oauthbearer.sasl.jaas.config": TOKENS,
        **_keys_and_tokens(),
    }


def _by_kerberos() -> dict[str, str]:
    module = "com.sun.security.auth.module.Krb5LoginModule"
    entry = f'{module} required useKeyTab=true storeKey=true keyTab="/nowhere" principal="kafka/a@B";'
    return _with_login("SASL_PLAINTEXT", "GSSAPI", entry) | {"sasl.kerberos.service.name": "kafka"}


def _by_tokens(*, secret: bool) -> dict[str, str]:
    """Tokens of an identity provider that is not there, for a secret or for an assertion."""
    found = _with_login("SASL_PLAINTEXT", "OAUTHBEARER", TOKENS) | _keys_and_tokens()
    for name in ("clients", "controller"):
        found[f"listener.name.{name}.oauthbearer.{HANDLER}"] = SECURED_HANDLER
        found[f"listener.name.{name}.oauthbearer.{token_login.HANDLER}"] = token_login.SECURED_HANDLER
    if secret:
        return found | {token_login.CLIENT_ID: "node", token_login.CLIENT_SECRET: "secret"}
    return found | {token_login.RETRIEVER: token_login.BEARER_RETRIEVER, assertions.KEY_FILE: "/nowhere"}


def _keys_and_tokens() -> dict[str, str]:
    keys, tokens = "http://127.0.0.1:1/keys", "http://127.0.0.1:1/tokens"
    return {
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
        token_login.TOKEN_URL: tokens,
        "sasl.login.retry.backoff.max.ms": "200",
        "kpybroker.oauthbearer.allowed.urls": f"{keys},{tokens}",
    }


def _with_login(protocol: str, mechanism: str, entry: str) -> dict[str, str]:
    """Listeners of clients and of controllers with one mechanism, by which nodes log in to each other too."""
    found = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:{protocol}",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
    }
    keys = (f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config" for name in ("clients", "controller"))
    return found | dict.fromkeys(keys, entry)


def configs_in_force(mode: str) -> set[str]:
    """The configs that docs/configs.md promises to act on in a mode, and in ZooKeeper mode its own."""
    names = {*HONOURED, *OWN_CONFIGS}
    if mode == ZOOKEEPER:
        names = {name for name in names if why_no_effect(name) is None} | set(ZOOKEEPER_CONFIGS)
        names -= {*REFUSED_IN_ZOOKEEPER_MODE, *NOT_ASKED}
    return names - CHOOSES_THE_MODE - set(REFUSED_OTHERWISE)


def unread(mode: str, readers: Readers) -> set[str]:
    """The configs in force that nobody reads."""
    names = configs_in_force(mode)
    rare = {name for name in names if name in AT_RARE_MOMENTS}
    return {name for name in names - rare if not readers.get(name)} | {name for name in rare if not read_rarely(name)}


def unread_of_topics(readers: Readers) -> set[str]:
    """The configs of topics in force that nobody reads."""
    names = {name for name in HONOURED_TOPIC if not readers.get(name)}
    return {name for name in names if name not in AT_RARE_MOMENTS or not read_rarely(name)}


def read_rarely(name: str) -> bool:
    """Whether the function that is declared for a config names it."""
    module_name, _, path = AT_RARE_MOMENTS[name].partition(":")
    module = importlib.import_module(module_name)
    constants = dict(vars(module))
    for each in vars(module).values():
        if isinstance(each, ModuleType):
            constants |= vars(each)
    return any(_names(code, name, constants) for code in _codes_of(getattr(module, path)))


def _codes_of(found: Any) -> Iterator[CodeType]:
    if inspect.isclass(found):
        for each in vars(found).values():
            if isinstance(each, FunctionType):
                yield each.__code__
    else:
        yield found.__code__


def _names(code: CodeType, config: str, constants: Mapping[str, Any]) -> bool:
    named = config in code.co_consts or any(constants.get(name) == config for name in code.co_names)
    return named or any(_names(each, config, constants) for each in code.co_consts if isinstance(each, CodeType))


def test_every_config_in_force_is_read(mode: str, readers: tuple[Readers, Readers]) -> None:
    assert unread(mode, readers[0]) == set()


def test_every_topic_config_in_force_is_read(readers: tuple[Readers, Readers]) -> None:
    assert unread_of_topics(readers[1]) == set()


def test_every_config_that_is_read_is_promised(readers: tuple[Readers, Readers]) -> None:
    """docs/configs.md says "not yet" of no config that a mode acts on. Internal ones are not in it."""
    promised = {*HONOURED, *OWN_CONFIGS, *ZOOKEEPER_CONFIGS, *REFUSED}
    read = {name for name, found in readers[0].items() if found and name in KNOWN and not KNOWN[name].internal}
    assert read - promised == set()


# Planted mistakes


def without(readers: Readers, *functions: str) -> Readers:
    """The record as it would be if these functions read nothing."""
    return {name: {each for each in found if each not in functions} for name, found in readers.items()}


def test_a_reader_that_is_gone_is_found(mode: str, readers: tuple[Readers, Readers]) -> None:
    """Planted: each function in turn reads nothing. The configs that it alone reads are reported, and no others."""
    functions = {each for found in readers[0].values() for each in found}
    assert len(functions) > LEAST_READERS
    for function in functions:
        alone = {name for name in configs_in_force(mode) if readers[0].get(name) == {function}}
        assert unread(mode, without(readers[0], function)) == alone - set(AT_RARE_MOMENTS)


def test_a_reader_of_topic_configs_that_is_gone_is_found(readers: tuple[Readers, Readers]) -> None:
    for function in {each for found in readers[1].values() for each in found}:
        alone = {name for name in HONOURED_TOPIC if readers[1].get(name) == {function}}
        assert unread_of_topics(without(readers[1], function)) == alone - set(AT_RARE_MOMENTS)


def test_a_config_that_only_its_check_and_descriptions_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in the product: the parts that would act on three configs are given constants."""
    monkeypatch.setattr(zookeeper_controller, "topic_bounds", lambda _config: TopicBounds())
    monkeypatch.setattr(zookeeper_controller, "mutation_windows", lambda _config: (11, 1_000))
    with recording() as recorded:
        asyncio.run(_begin(ZOOKEEPER, {}, alone=True))
    planted = {"kpybroker.max.topics.per.principal", "controller.quota.window.num"}
    assert planted <= unread(ZOOKEEPER, recorded.brokers)


def test_a_reader_of_rare_moments_that_is_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the functions that are declared for configs are empty."""
    for name, place in AT_RARE_MOMENTS.items():
        assert read_rarely(name), name
        module, _, function = place.partition(":")
        with monkeypatch.context() as patch:
            patch.setattr(importlib.import_module(module), function, lambda: None)
            assert not read_rarely(name)


@pytest.mark.parametrize("name", REFUSED_OTHERWISE)
def test_a_config_with_one_possible_value_refuses_others(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data", **REFUSED_OTHERWISE[name]})


def test_a_config_without_effect_in_zookeeper_mode_is_a_warning_there_and_nowhere_else() -> None:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data", "group.share.session.timeout.ms": "46000"}
    line = "without effect in ZooKeeper mode, where groups are those of the classic protocol"
    assert any(line in each for each in BrokerConfig({**given, "zookeeper.connect": "zk"}).warnings)
    assert BrokerConfig.load(None, given).warnings == []
