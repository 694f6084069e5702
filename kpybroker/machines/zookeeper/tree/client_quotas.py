"""Quotas of users, client ids and addresses, as configs of their znodes (Kafka's ``ZkAdminManager``). Pure."""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Final

from kpybroker.machines.config_def import java_double
from kpybroker.machines.controller.client_quotas import ADDRESS_KEYS, CLIENT_KEYS, DOUBLE, INT, LONG, SMALLEST_FRACTION
from kpybroker.machines.metadata.image import QuotaEntity
from kpybroker.machines.quotas.client_quotas import CLIENT_ID, IP, USER
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode

_MOST: Final = {INT: 2**31 - 1, LONG: 2**63 - 1}
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_FRACTION: Final = re.compile(
    r"\s*([+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,5})?)[dDfF]?\s*", re.ASCII
)


def config_entity(names: Mapping[str, str | None]) -> ConfigEntity | None:
    """The owner of the quotas of an entity, given the name of each of its types; None if they do not fit together."""
    parts = {kind: _sanitized(name) for kind, name in names.items()}
    match sorted(parts):
        case ["client-id"]:
            return ConfigEntity(configs.CLIENTS, parts[CLIENT_ID])
        case ["ip"]:
            return ConfigEntity(configs.ADDRESSES, parts[IP])
        case ["user"]:
            return ConfigEntity(configs.USERS, parts[USER])
        case ["client-id", "user"]:
            return ConfigEntity(configs.USERS, parts[USER], parts[CLIENT_ID])
    return None


def quota_entity(entity: ConfigEntity) -> QuotaEntity:
    """The entity whose quotas an owner of configs has, with its types sorted."""
    name = _desanitized(entity.name)
    if entity.kind == configs.CLIENTS:
        return ((CLIENT_ID, name),)
    if entity.kind == configs.ADDRESSES:
        return ((IP, name),)
    if entity.client_id is None:
        return ((USER, name),)
    return (CLIENT_ID, _desanitized(entity.client_id)), (USER, name)


def keys_of(entity: ConfigEntity) -> Mapping[str, str]:
    """The quotas that an entity may have, and the types of their values."""
    return ADDRESS_KEYS if entity.kind == configs.ADDRESSES else CLIENT_KEYS


def quota_text(kind: str, value: float) -> str | None:
    """A quota as the text of a config. None if it is no value of this type."""
    if kind == DOUBLE:
        return java_double(value)
    if not isfinite(value):
        return None
    number = int(value + SMALLEST_FRACTION)
    number = max(-_MOST[kind] - 1, min(_MOST[kind], number))
    return str(number) if abs(float(number) - value) <= SMALLEST_FRACTION else None


def decode_quotas(entity: ConfigEntity, values: Mapping[str, str]) -> dict[str, float]:
    """The quotas among the configs of an entity, each read by its type, as Kafka's brokers do. Raises InvalidZnode."""
    return {key: decode_quota(entity, key, values[key], kind) for key, kind in keys_of(entity).items() if key in values}


def decode_quota(entity: ConfigEntity, key: str, text: str, kind: str) -> float:
    """A quota as Java reads a number of this type. Raises InvalidZnode, also for NaN and infinities."""
    number = _fraction(text) if kind == DOUBLE else _whole(text, _MOST[kind])
    if number is None:
        raise InvalidZnode(entity.path, f"its {key} {text[:40]!r} is not a number of type {kind}")
    return number


def _whole(text: str, most: int) -> float | None:
    number = int(text) if _WHOLE.fullmatch(text) else most + 1
    return float(number) if -most - 1 <= number <= most else None


def _fraction(text: str) -> float | None:
    form = _FRACTION.fullmatch(text)
    return None if form is None or not isfinite(number := float(form[1])) else number


def _sanitized(name: str | None) -> str:
    return configs.DEFAULT_NAME if name is None else paths.sanitize(name)


def _desanitized(name: str) -> str | None:
    return None if name == configs.DEFAULT_NAME else paths.desanitize(name)
