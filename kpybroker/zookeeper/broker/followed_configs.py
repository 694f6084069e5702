"""The configs of topics and brokers in ZooKeeper, which this broker follows.

All of them are read when a session begins. After that a notice names the entity that has changed, and its znode is read
again (Kafka's ``ZkNodeChangeNotificationListener``). Notices of other kinds of entities belong to other parts.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kpybroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.zookeeper.client import error_codes
from kpybroker.zookeeper.client.client import Client, ZooKeeperError
from kpybroker.zookeeper.client.operations import Delete, Get, GetChildren, Stat
from kpybroker.zookeeper.tree import configs, paths
from kpybroker.zookeeper.tree.configs import ConfigEntity
from kpybroker.zookeeper.tree.contents import InvalidZnode

log = logging.getLogger("kpybroker.zookeeper")

NOTICES_LAST_MS: Final = 15 * 60 * 1_000
"""The age at which a notice is deleted (``ZkNodeChangeNotificationListener``)."""
Changed = Callable[[int, str, Mapping[str, str]], object]
"""(resource type, name, configs)."""


class FollowedConfigs:
    """The configs that this broker needs."""

    def __init__(self, client: Client, node_id: int, now_ms: Callable[[], int], changed: Changed) -> None:
        self._client = client
        self._own = {configs.DEFAULT_NAME: "", str(node_id): str(node_id)}
        """The names of broker configs that count here, and their names as resources."""
        self._now_ms = now_ms
        self._changed = changed
        self._last_notice = -1

    async def read_brokers(self) -> None:
        """Read the configs of all brokers and of this one."""
        for name in self._own:
            await self.read(ConfigEntity(configs.BROKERS, name))

    async def read_topics(self, names: Iterable[str]) -> None:
        """Read the configs of these topics."""
        for name in names:
            await self.read(ConfigEntity(configs.TOPICS, name))

    async def look(self) -> None:
        """Watch the notices, and handle those that are new. Called when a session begins and after each event."""
        names = (await self._client.ask_until_answered(GetChildren(paths.CONFIG_CHANGES, is_watched=True))).names
        numbered = sorted((number, name) for name in names if (number := paths.sequence(name)) is not None)
        for number, name in numbered:
            path = paths.child(paths.CONFIG_CHANGES, name)
            try:
                found = await self._client.ask_until_answered(Get(path))
                if number > self._last_notice:
                    self._last_notice = number
                    await self.read(configs.decode_change(path, found.data))
                await self._purge(path, found.stat)
            except ZooKeeperError as error:
                if error.code != error_codes.NO_NODE:  # another broker has deleted it
                    log.warning("%s", error)
            except InvalidZnode as error:
                log.warning("%s", error)

    async def _purge(self, path: str, stat: Stat) -> None:
        if self._now_ms() - stat.ctime > NOTICES_LAST_MS:
            await self._client.ask_until_answered(Delete(path))

    async def read(self, entity: ConfigEntity) -> None:
        """Read the configs of one entity."""
        resource = self._resource(entity)
        if resource is None:
            return
        try:
            found = await self._client.ask_until_answered(Get(entity.path))
            values = configs.decode_configs(entity.path, found.data)
        except ZooKeeperError as error:
            if error.code != error_codes.NO_NODE:
                log.warning("%s", error)
                return
            values = {}
        except InvalidZnode as error:
            log.error("%s; the configs that were known before stay", error)
            return
        self._changed(*resource, values)

    def _resource(self, entity: ConfigEntity) -> tuple[int, str] | None:
        if entity.kind == configs.TOPICS:
            return TOPIC_RESOURCE, entity.name
        if entity.kind == configs.BROKERS and entity.name in self._own:
            return BROKER_RESOURCE, self._own[entity.name]
        return None
