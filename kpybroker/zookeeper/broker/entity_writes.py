"""Writes of the configs of one entity, with the notice for all brokers (Kafka's ``AdminZkClient``).

The last writer wins. A write is refused if a KRaft controller has taken over the cluster.
"""

from contextlib import suppress

from kpybroker.zookeeper.broker.layout import Acls, make_path
from kpybroker.zookeeper.broker.notices import give_notice
from kpybroker.zookeeper.client import error_codes
from kpybroker.zookeeper.client.client import Client, ZooKeeperError
from kpybroker.zookeeper.client.operations import Check, Create, Delete, Get, GetChildren, Multi, Set
from kpybroker.zookeeper.tree import configs, paths
from kpybroker.zookeeper.tree.configs import ConfigEntity
from kpybroker.zookeeper.tree.contents import InvalidZnode
from kpybroker.zookeeper.tree.controller import ElectedController


async def read_configs(client: Client, entity: ConfigEntity) -> dict[str, str]:
    """The configs of an entity; none if there is no znode. Raises InvalidZnode."""
    try:
        return configs.decode_configs(entity.path, (await client.ask_until_answered(Get(entity.path))).data)
    except ZooKeeperError as error:
        if error.code != error_codes.NO_NODE:
            raise
        return {}


async def write_configs(client: Client, acls: Acls, entity: ConfigEntity, values: dict[str, str]) -> None:
    """Replace the configs of an entity. A client, user or address without any leaves no znode behind."""
    is_cleaned = not values and entity.kind in (configs.CLIENTS, configs.USERS, configs.ADDRESSES)
    if not (is_cleaned and await _clean(client, entity)):
        await _set_or_create(client, acls, entity, configs.encode_configs(values))
    prefix = f"{paths.CONFIG_CHANGES}/{configs.CHANGE_PREFIX}"
    await give_notice(client, prefix, configs.encode_change(entity), acls.of(prefix))


async def _set_or_create(client: Client, acls: Acls, entity: ConfigEntity, content: bytes) -> None:
    found = await client.ask_until_answered(Get(paths.CONTROLLER))
    if ElectedController.decode(found.data).is_kraft:
        raise InvalidZnode(paths.CONTROLLER, "a KRaft controller has the cluster; change configs there")
    check = Check(paths.CONTROLLER, found.stat.version)
    try:
        await client.ask_until_answered(Multi((check, Set(entity.path, content))))
    except ZooKeeperError as error:
        if error.code != error_codes.NO_NODE:
            raise
        await make_path(client, acls, entity.path.rpartition("/")[0])
        create = Create(entity.path, content, acls.of(entity.path))
        await client.ask_until_answered(Multi((check, create)))


async def _clean(client: Client, entity: ConfigEntity) -> bool:
    """Delete the znode of an entity, and those above it that only led to it (``tryCleanQuotaNodes``). Returns whether
    it is gone: a user whose clients have quotas stays."""
    if await _children(client, entity.path):
        return False
    doomed = [entity.path]
    if entity.client_id is not None:
        user = ConfigEntity(entity.kind, entity.name)
        clients = f"{user.path}/{configs.CLIENTS}"
        if await _children(client, clients) == [entity.client_id]:
            doomed.append(clients)
            if await _children(client, user.path) == [configs.CLIENTS] and not await read_configs(client, user):
                doomed.append(user.path)
    for path in doomed:
        with suppress(ZooKeeperError):  # another broker has deleted it, or made another child
            await client.ask_until_answered(Delete(path))
    return True


async def _children(client: Client, path: str) -> list[str]:
    try:
        names: list[str] = (await client.ask_until_answered(GetChildren(path))).names
    except ZooKeeperError as error:
        if error.code != error_codes.NO_NODE:
            raise
        return []
    return names
