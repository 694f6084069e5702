"""The quotas and SCRAM credentials in ZooKeeper, which this broker follows.

All of them are read when a session begins. After that the notices of `followed_configs` name what has changed.
"""

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from kpybroker.hosts.zookeeper.broker.entity_writes import children, read_configs
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.broker import protection_records
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode

log = logging.getLogger("kpybroker.zookeeper")

_KINDS = (configs.USERS, configs.CLIENTS, configs.ADDRESSES)


class FollowedClients:
    """The configs of users, clients and addresses."""

    def __init__(self, client: ZooKeeperClient, image: MetadataImage, apply: Callable[[list[Any]], object]) -> None:
        """``apply`` applies records to the image."""
        self._client = client
        self._image = image
        self._apply = apply

    async def read_all(self) -> None:
        """Read all of them, in a new session. Those that have gone since the last one are forgotten."""
        found = [entity async for entity in self._entities()]
        for entity in [*found, *protection_records.gone_entities(self._image, found)]:
            await self.read(entity)

    async def read(self, entity: ConfigEntity) -> None:
        """Read the configs of one entity. Other kinds of entities are none of these."""
        if entity.kind not in _KINDS:
            return
        try:
            values = await read_configs(self._client, entity)
        except (ZooKeeperError, InvalidZnode) as error:
            log.error("%s; what was known before stays", error)
            return
        for records in (protection_records.quotas, protection_records.credentials):
            try:
                self._apply(records(self._image, entity, values))
            except InvalidZnode as error:
                log.error("%s; what was known before stays", error)

    async def _entities(self) -> AsyncIterator[ConfigEntity]:
        for kind in _KINDS:
            for name in await children(self._client, f"{paths.CONFIGS}/{kind}"):
                entity = ConfigEntity(kind, name)
                yield entity
                if kind == configs.USERS:
                    for client_id in await children(self._client, f"{entity.path}/{configs.CLIENTS}"):
                        yield ConfigEntity(kind, name, client_id)
