"""docs/configs.md: every config, and whether this broker acts on it.

The table comes from the declarations and from ``honoured``; a test holds the file against it.
"""

from collections.abc import Iterable, Mapping

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from kpybroker.config.honoured import HONOURED, HONOURED_GROUP, HONOURED_TOPIC, NEVER, REFUSED
from kpybroker.config.own_configs import OWN_CONFIGS, OWN_DOCUMENTATION
from kpybroker.config.quota_configs import QUOTA_CONFIGS
from kpybroker.config.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS
from kpybroker.config.zookeeper_configs import why_no_effect
from kpybroker.machines.config_def import ConfigKey, Definitions, to_text

_HEAD = """\
# Configs

Written by `make tables`; edit `kpybroker/config/honoured.py` instead.

kpybroker knows every config of Apache Kafka 4.4 by name, type, default and valid values: it checks them, shows them in
DescribeConfigs with their sources and synonyms, and stores what AlterConfigs sets. What they do here is in the last
column:

- **yes**: the broker acts on it. Three count only where somebody has set them: without, `socket.send.buffer.bytes` is
  204800, `socket.receive.buffer.bytes` the system's, and `socket.listen.backlog.size` 1024.
- **yes; no effect in ZooKeeper mode**, with the reason: the broker acts on it in KRaft mode. In ZooKeeper mode setting
  it changes nothing, and the start says so.
- **no effect**, with the reason: it belongs to something that does not exist here.
- **refused**, with the reason: a node does not start with it.
- **not yet**: the feature it belongs to is still missing. Setting it changes nothing, and the start says so.

A node does not start where it is asked for protection that it does not have: a mechanism, an authorizer, a login module
or a class that it does not know, a key of security that it does not know, or a key of a listener
(`listener.name.NAME.ssl.…`) that this listener does not read. [security.md](security.md) says what there is. `ssl.…`,
`sasl.…` and `connections.max.reauth.ms` for all listeners are a warning where every listener is PLAINTEXT: there they
lock nothing on Apache Kafka either. Any other key that is not known is ignored with a warning. What each config means
stands in Kafka's documentation, and in the answer of `kafka-configs --describe --all`.
"""
_BROKER_HEAD = """
## Brokers

`update` says how Kafka's AlterConfigs may change a config of a running broker: for one broker, for all, or not at all.

| config | type | default | valid values | update | honoured |
|---|---|---|---|---|---|
"""
_OWN_HEAD = """
### Only here

| config | type | default | what it does |
|---|---|---|---|
"""
_TOPIC_HEAD = """
## Topics

The default of a topic config is the value of its broker config, where it has one.

| config | type | default | broker config | valid values | honoured |
|---|---|---|---|---|---|
"""
_GROUP_HEAD = """
## Groups

| config | type | default | valid values | honoured |
|---|---|---|---|---|
"""
_CLIENT_METRICS_HEAD = """
## Client metrics subscriptions

| config | type | default | valid values | honoured |
|---|---|---|---|---|
"""


def document() -> str:
    """The content of docs/configs.md."""
    parts = [_HEAD, _counts(), _BROKER_HEAD]
    parts += (_broker_row(key) for key in _shown({**BROKER_CONFIGS, **QUOTA_CONFIGS}))
    parts.append(_OWN_HEAD)
    parts += (_row(key.name, key.type, _default(key), OWN_DOCUMENTATION[key.name]) for key in _shown(OWN_CONFIGS))
    parts.append(_TOPIC_HEAD)
    parts += (_topic_row(key) for key in _shown(TOPIC_CONFIGS))
    for head, table in ((_GROUP_HEAD, GROUP_CONFIGS), (_CLIENT_METRICS_HEAD, CLIENT_METRICS_CONFIGS)):
        parts.append(head)
        parts += (
            _row(key.name, key.type, _default(key), _valid(key), "yes" if key.name in HONOURED_GROUP else "not yet")
            for key in _shown(table)
        )
    return "".join(parts)


def _shown(definitions: Mapping[str, ConfigKey]) -> Iterable[ConfigKey]:
    return (definitions[name] for name in sorted(definitions) if not definitions[name].internal)


def _counts() -> str:
    def count(table: Definitions, honoured: frozenset[str]) -> str:
        names = [key.name for key in _shown(table)]
        return f"{sum(name in honoured for name in names)} of {len(names)}"

    return (
        f"\nHonoured: {count(BROKER_CONFIGS, HONOURED)} broker configs, {count(TOPIC_CONFIGS, HONOURED_TOPIC)} topic "
        "configs.\n"
    )


def _broker_row(key: ConfigKey) -> str:
    if key.name in HONOURED:
        why = why_no_effect(key.name)
        honoured = "yes" if why is None else f"yes; no effect in ZooKeeper mode: {why}"
    else:
        honoured = f"no effect: {NEVER[key.name]}" if key.name in NEVER else "not yet"
        if key.name in REFUSED:
            honoured = f"refused: {REFUSED[key.name]}"
    return _row(key.name, key.type, _default(key), _valid(key), key.update, honoured)


def _topic_row(key: ConfigKey) -> str:
    synonyms = "<br>".join(f"`{name}`" for name, _ in TOPIC_SYNONYMS.get(key.name, ()))
    honoured = "yes" if key.name in HONOURED_TOPIC else "not yet"
    return _row(key.name, key.type, _default(key), synonyms, _valid(key), honoured)


def _row(name: str, *cells: str) -> str:
    return f"| {' | '.join([f'`{name}`', *cells])} |\n"


def _default(key: ConfigKey) -> str:
    text = to_text(key.default)
    if key.required:
        return "required"
    return "" if text is None else (f"`{text}`" if text else "empty")


def _valid(key: ConfigKey) -> str:
    return "" if key.valid is None else str(key.valid).replace("*", "\\*")
