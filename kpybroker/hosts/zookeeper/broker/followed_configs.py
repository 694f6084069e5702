"""The configs of topics and brokers in ZooKeeper, which this broker follows.

All of them are read when a session begins. After that a notice names the entity that has changed, and its znode is read
again. Entities of other kinds belong to other parts.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from kpybroker.hosts.zookeeper.broker.notices import Notices
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Get, OperationFailed, Sync
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode

log = logging.getLogger("kpybroker.zookeeper")

Changed = Callable[[int, str, Mapping[str, str]], object]
"""(resource type, name, configs)."""


class FollowedConfigs:
    """The configs that this broker needs."""

    def __init__(
        self,
        client: ZooKeeperClient,
        node_id: int,
        now_ms: Callable[[], int],
        changed: Changed,
        others: Callable[[ConfigEntity], Awaitable[None]],
        decode: Callable[[ConfigEntity, dict[str, str]], dict[str, str]],
    ) -> None:
        """``others`` is called with an entity of another kind that has changed. ``decode`` makes the configs of a
        broker readable: passwords are encrypted."""
        self._client = client
        self._own = {configs.DEFAULT_NAME: "", str(node_id): str(node_id)}
        """The names of broker configs that count here, and their names as resources."""
        self._changed = changed
        self._notices = Notices(client, paths.CONFIG_CHANGES, now_ms, self._noticed)
        self._others = others
        self._decode = decode

    async def read_brokers(self) -> None:
        """Read the configs of all brokers and of this one."""
        for name in self._own:
            await self.read(ConfigEntity(configs.BROKERS, name))

    async def read_topics(self, names: Iterable[str]) -> None:
        """Read the configs of these topics.

        The controller may name a new topic before this broker's ZooKeeper server has it, and no notice follows. So the
        server catches up first.
        """
        entities = [ConfigEntity(configs.TOPICS, name) for name in names]
        if not entities:
            return
        found = await self._client.ask_all_until_answered([Sync(paths.CONFIGS), *(Get(each.path) for each in entities)])
        for entity, result in zip(entities, found[1:], strict=True):
            self._found(entity, result)

    async def look(self) -> None:
        """Handle the notices that are new. Called when a session begins and after each event."""
        await self._notices.look()

    async def _noticed(self, path: str, content: bytes | None) -> None:
        await self.read(configs.decode_change(path, content))

    async def read(self, entity: ConfigEntity) -> None:
        """Read the configs of one entity."""
        if self._resource(entity) is None:
            await self._others(entity)
            return
        (found,) = await self._client.ask_all_until_answered([Get(entity.path)])
        self._found(entity, found)

    def _found(self, entity: ConfigEntity, found: Any) -> None:
        """Take over configs as they were read."""
        resource = self._resource(entity)
        if resource is None:
            return
        content = None if isinstance(found, OperationFailed) else found.data
        if isinstance(found, OperationFailed) and found.code != error_codes.NO_NODE:
            log.warning("%s", ZooKeeperError(found, entity.path))
            return
        try:
            values = configs.decode_configs(entity.path, content)
        except InvalidZnode as error:
            log.error("%s; the configs that were known before stay", error)
            return
        self._changed(*resource, self._decode(entity, values))

    def _resource(self, entity: ConfigEntity) -> tuple[int, str] | None:
        if entity.kind == configs.TOPICS:
            return TOPIC_RESOURCE, entity.name
        if entity.kind == configs.BROKERS and entity.name in self._own:
            return BROKER_RESOURCE, self._own[entity.name]
        return None
