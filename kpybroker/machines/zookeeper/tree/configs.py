"""Configs of topics, brokers, users, clients and addresses: ``/config/<kind>/<name>``, and notices of their changes.

Quotas and SCRAM credentials are configs of users, clients and addresses.
"""

from typing import Final, NamedTuple

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import ZnodeFields, encode
from kpybroker.machines.zookeeper.tree.java_order import in_java_order

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
USERS: Final = "users"
CLIENTS: Final = "clients"
ADDRESSES: Final = "ips"
DEFAULT_NAME: Final = "<default>"
"""The name of the entity that stands for all that have no configs of their own."""
CHANGE_PREFIX: Final = "config_change_"
_KINDS: Final = frozenset((TOPICS, BROKERS, USERS, CLIENTS, ADDRESSES))


class ConfigEntity(NamedTuple):
    """The owner of configs. ``client_id`` is set for a client of one user. Names are sanitized, as in paths."""

    kind: str
    name: str
    client_id: str | None = None

    @property
    def entity_path(self) -> str:
        """The path below ``/config``, by which notices name the entity."""
        below_user = "" if self.client_id is None else f"/{CLIENTS}/{self.client_id}"
        return f"{self.kind}/{self.name}{below_user}"

    @property
    def path(self) -> str:
        """The path of the znode."""
        return f"{paths.CONFIGS}/{self.entity_path}"


def encode_configs(configs: dict[str, str]) -> bytes:
    """The content of an entity's znode."""
    return encode({"version": 1, "config": {name: configs[name] for name in in_java_order(configs)}})


def decode_configs(path: str, content: bytes | None) -> dict[str, str]:
    """The configs in the znode ``path``. An empty znode has none (``ConfigEntityZNode.decode``)."""
    if not content:
        return {}
    fields = ZnodeFields.decode(path, content)
    return fields.text_map("config") if "config" in fields else {}


def encode_change(entity: ConfigEntity) -> bytes:
    """The content of a notice that the configs of an entity have changed."""
    return encode({"version": 2, "entity_path": entity.entity_path})


def decode_change(path: str, content: bytes | None) -> ConfigEntity:
    """The entity that a notice names. Version 1, which Kafka 0.9 wrote, names kind and name apart."""
    fields = ZnodeFields.decode(path, content)
    version = fields.integer("version")
    if version == 1:
        return _entity(fields, [fields.text("entity_type"), fields.text("entity_name")])
    if version != 2:
        raise fields.fault(f"its version is {version}")
    return _entity(fields, fields.text("entity_path").split("/"))


def _entity(fields: ZnodeFields, parts: list[str]) -> ConfigEntity:
    match parts:
        case [kind, name] if kind in _KINDS and name:
            return ConfigEntity(kind, name)
        case ["users", user, "clients", client_id] if user and client_id:
            return ConfigEntity(USERS, user, client_id)
    raise fields.fault(f"{'/'.join(parts)[:200]!r} names no entity")
