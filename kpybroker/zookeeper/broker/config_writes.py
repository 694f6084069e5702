"""Changes of configs by clients: in ZooKeeper mode the broker that gets the request writes them (Kafka's
``ZkAdminManager``, ``AdminZkClient``).

The decision is the one of KRaft controllers, on the configs that ZooKeeper has at that moment. The last writer wins.
The write is refused if a KRaft controller has taken over the cluster.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kpybroker.calls.steps import at_once
from kpybroker.controller.config_rules import ConfigRules
from kpybroker.controller.state import ControllerRequest
from kpybroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from kpybroker.zookeeper.broker.followed_configs import FollowedConfigs
from kpybroker.zookeeper.broker.layout import Acls, make_path
from kpybroker.zookeeper.client import error_codes as zookeeper_errors
from kpybroker.zookeeper.client.client import Client, NoAnswer, ZooKeeperError
from kpybroker.zookeeper.client.operations import Check, Create, Get, Multi, Set, Write
from kpybroker.zookeeper.tree import configs, paths
from kpybroker.zookeeper.tree.configs import ConfigEntity
from kpybroker.zookeeper.tree.contents import InvalidZnode
from kpybroker.zookeeper.tree.controller import ElectedController
from kpywire import api, error_codes
from kpywire.metadata_records.config_record import ConfigRecord

ALTERED: Final = frozenset({api.ALTER_CONFIGS, api.INCREMENTAL_ALTER_CONFIGS})


class _Node(NamedTuple):
    node_id: int


class _State(NamedTuple):
    """The facts on which the decision depends."""

    image: MetadataImage
    rules: ConfigRules
    settings: _Node


class ConfigWrites:
    """The writer of configs of topics and brokers."""

    def __init__(
        self,
        client: Client,
        acls: Acls,
        followed: FollowedConfigs,
        image: MetadataImage,
        node_id: int,
        rules: Callable[[], ConfigRules],
    ) -> None:
        self._client = client
        self._acls = acls
        self._followed = followed
        self._image = image
        self._node_id = node_id
        self._rules = rules

    async def alter(self, request: Any, api_version: int) -> Any:
        """Answer AlterConfigs or IncrementalAlterConfigs."""
        entities = {
            (each.resource_type, each.resource_name): _entity(each.resource_type, each.resource_name)
            for each in request.resources
        }
        for entity in entities.values():
            if entity is not None:
                await self._followed.read(entity)
        records, response = self._decide(request, api_version)
        changed = dict.fromkeys((each.resource_type, each.resource_name) for each in records)
        for answer in response.responses:
            key = answer.resource_type, answer.resource_name
            entity = entities.get(key)
            if entity is None and answer.error_code == error_codes.NONE:
                answer.error_code = error_codes.INVALID_REQUEST
                answer.error_message = f"Unknown resource type {answer.resource_type}"
            if entity is None or key not in changed:
                continue
            present = dict(self._image.configs_of(*key))
            try:
                await self._write(entity, _changed(present, key, records))
            except (ZooKeeperError, NoAnswer, InvalidZnode) as error:
                answer.error_code, answer.error_message = error_codes.UNKNOWN_SERVER_ERROR, str(error)
            await self._followed.read(entity)
        return response

    def _decide(self, request: Any, api_version: int) -> tuple[list[ConfigRecord], Any]:
        from kpybroker.controller.configs import alter_configs, incremental_alter_configs

        decide = alter_configs if type(request).KEY == api.ALTER_CONFIGS else incremental_alter_configs
        state: Any = _State(self._image, self._rules(), _Node(self._node_id))
        records, response = at_once(decide(state, ControllerRequest(None, request, api_version), 0))
        return [each for each in records if isinstance(each, ConfigRecord)], response

    async def _write(self, entity: ConfigEntity, values: dict[str, str]) -> None:
        content = configs.encode_configs(values)
        found = await self._client.ask_until_answered(Get(paths.CONTROLLER))
        if ElectedController.decode(found.data).is_kraft:
            raise InvalidZnode(paths.CONTROLLER, "a KRaft controller has the cluster; change configs there")
        check = Check(paths.CONTROLLER, found.stat.version)
        acls = self._acls.of(entity.path)
        if not await self._done(zookeeper_errors.NO_NODE, check, Set(entity.path, content)):
            await make_path(self._client, self._acls, entity.path.rpartition("/")[0])
            if not await self._done(zookeeper_errors.NODE_EXISTS, check, Create(entity.path, content, acls)):
                # another broker was faster, or an attempt of this one whose answer was lost
                await self._client.ask_until_answered(Multi((check, Set(entity.path, content))))
        notice = f"{paths.CONFIG_CHANGES}/{configs.CHANGE_PREFIX}"
        acls = self._acls.of(notice)
        await self._client.ask_until_answered(Create(notice, configs.encode_change(entity), acls, is_sequential=True))

    async def _done(self, expected_code: int, *writes: Write) -> bool:
        """Whether writes were done together; not if ZooKeeper refuses one with the expected error."""
        try:
            await self._client.ask_until_answered(Multi(writes))
        except ZooKeeperError as error:
            if error.code != expected_code:
                raise
            return False
        return True


def _entity(resource_type: int, name: str) -> ConfigEntity | None:
    if resource_type == TOPIC_RESOURCE:
        return ConfigEntity(configs.TOPICS, name)
    if resource_type == BROKER_RESOURCE:
        return ConfigEntity(configs.BROKERS, name or configs.DEFAULT_NAME)
    return None


def _changed(present: dict[str, str], key: tuple[int, str], records: list[ConfigRecord]) -> dict[str, str]:
    for record in records:
        if (record.resource_type, record.resource_name) == key:
            if record.value is None:
                present.pop(record.name, None)
            else:
                present[record.name] = record.value
    return present
