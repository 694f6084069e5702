"""Writes of the configs of one entity, with the notice for all brokers (Kafka's ``AdminZkClient``).

The last writer wins. Configs and notice are written together. A write is refused while there is no controller, and if
a KRaft controller has taken over.
"""

from contextlib import suppress
from typing import Final

from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls, make_path
from kpybroker.hosts.zookeeper.broker.notices import new_notice, write_together
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Check, Create, Delete, Get, GetChildren, Multi, Set, Sync
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.controller import ElectedController
from kpywire import error_codes as kafka_errors

_NOT_DELETED: Final = (error_codes.NO_NODE, error_codes.NOT_EMPTY)
"""Another broker has deleted the znode, or made a child of it."""


async def catch_up(client: ZooKeeperClient) -> None:
    """Wait until this broker's ZooKeeper server has all that was written. Without it, a change of configs would undo
    one that another broker has just acknowledged."""
    await client.ask_all_until_answered([Sync(paths.CONFIGS)])


async def read_configs(client: ZooKeeperClient, entity: ConfigEntity) -> dict[str, str]:
    """The configs of an entity; none if there is no znode. Raises InvalidZnode."""
    found = await client.ask_if_there(Get(entity.path))
    return {} if found is None else configs.decode_configs(entity.path, found.data)


async def children(client: ZooKeeperClient, path: str) -> list[str]:
    """The names of the children of a znode; none if there is no znode."""
    found = await client.ask_if_there(GetChildren(path))
    return [] if found is None else list(found.names)


async def write_configs(
    client: ZooKeeperClient, acls: DefaultAcls, entity: ConfigEntity, values: dict[str, str]
) -> None:
    """Replace the configs of an entity. A client, user or address without any leaves no znode behind. Raises
    STALE_CONTROLLER_EPOCH, ZooKeeperError and InvalidZnode."""
    is_cleaned = not values and entity.kind in (configs.CLIENTS, configs.USERS, configs.ADDRESSES)
    prefix = f"{paths.CONFIG_CHANGES}/{configs.CHANGE_PREFIX}"
    notice = new_notice(prefix, configs.encode_change(entity), acls.of(prefix))
    if not (is_cleaned and await _clean(client, entity, notice)):
        await _set_or_create(client, acls, entity, configs.encode_configs(values), notice)


async def _set_or_create(
    client: ZooKeeperClient, acls: DefaultAcls, entity: ConfigEntity, content: bytes, notice: Create
) -> None:
    found = await client.ask_if_there(Get(paths.CONTROLLER))
    if found is None:
        raise _moved(entity, "there is no controller")
    if ElectedController.decode(found.data).is_kraft:
        raise _moved(entity, "a KRaft controller has the cluster")
    check = Check(paths.CONTROLLER, found.stat.version)
    replaced = check, Set(entity.path, content), notice
    if await write_together(client, replaced, 1, [error_codes.NO_NODE]) is not None:
        return
    await make_path(client, acls, entity.path.rpartition("/")[0])
    created = check, Create(entity.path, content, acls.of(entity.path)), notice
    if await write_together(client, created, 1, [error_codes.NODE_EXISTS]) is None:
        # another broker was faster, or an attempt of this one whose answer was lost
        await client.ask_until_answered(Multi(replaced))


def _moved(entity: ConfigEntity, why: str) -> KafkaError:
    text = f"Cannot set entity configs for {entity.kind} {entity.name} when {why}."
    return KafkaError(kafka_errors.STALE_CONTROLLER_EPOCH, text)


async def _clean(client: ZooKeeperClient, entity: ConfigEntity, notice: Create) -> bool:
    """Delete the znode of an entity, and those above it that only led to it (``tryCleanQuotaNodes``). Returns whether
    it is gone: a user whose clients have quotas stays."""
    if await children(client, entity.path):
        return False
    doomed = []
    if entity.client_id is not None:
        user = ConfigEntity(entity.kind, entity.name)
        clients = f"{user.path}/{configs.CLIENTS}"
        if await children(client, clients) == [entity.client_id]:
            doomed.append(clients)
            if await children(client, user.path) == [configs.CLIENTS] and not await read_configs(client, user):
                doomed.append(user.path)
    if await write_together(client, (Delete(entity.path), notice), 0, _NOT_DELETED) is None:
        if await children(client, entity.path):
            return False
        await client.ask_until_answered(notice)
    for path in doomed:
        with suppress(ZooKeeperError):  # another broker has deleted it, or made another child
            await client.ask_until_answered(Delete(path))
    return True
