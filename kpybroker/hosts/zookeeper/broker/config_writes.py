"""Changes of configs by clients: in ZooKeeper mode the broker that gets the request writes them (Kafka's
``ZkAdminManager``, ``AdminZkClient``).

The decision is the one of KRaft controllers, on the configs that ZooKeeper has at that moment. The last writer wins.
The write is refused if a KRaft controller has taken over the cluster.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kpybroker.hosts.zookeeper.broker.entity_writes import catch_up, write_configs
from kpybroker.hosts.zookeeper.broker.followed_configs import FollowedConfigs
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls
from kpybroker.hosts.zookeeper.broker.writers import Way
from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient, ZooKeeperError
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.controller.config_rules import ConfigRules
from kpybroker.machines.controller.state import ControllerRequest
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.zookeeper.tree import configs
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import at_once
from kpywire import api, error_codes
from kpywire.metadata_records.config_record import ConfigRecord

_ALTERED: Final = frozenset({api.ALTER_CONFIGS, api.INCREMENTAL_ALTER_CONFIGS})


class _Node(NamedTuple):
    node_id: int


class _State(NamedTuple):
    """The facts on which the decision depends."""

    image: MetadataImage
    rules: ConfigRules
    settings: _Node


class ConfigWrites:
    """The `Writer` of configs of topics and brokers."""

    def __init__(
        self,
        client: ZooKeeperClient,
        acls: DefaultAcls,
        followed: FollowedConfigs,
        image: MetadataImage,
        node_id: int,
        rules: Callable[[], ConfigRules],
        encoded: Callable[[ConfigEntity, dict[str, str]], dict[str, str]],
    ) -> None:
        """``encoded`` encrypts the passwords of brokers."""
        self._client = client
        self._acls = acls
        self._followed = followed
        self._image = image
        self._node_id = node_id
        self._rules = rules
        self._encoded = encoded

    def way(self, api_key: int) -> Way | None:
        """The way of changes of configs; None for other APIs."""
        return self._answer if api_key in _ALTERED else None

    async def _answer(self, request: Any, call: Call) -> Any:
        return await self.alter(request, call.api_version)

    async def alter(self, request: Any, api_version: int) -> Any:
        """Answer AlterConfigs or IncrementalAlterConfigs."""
        entities = {
            (each.resource_type, each.resource_name): _entity(each.resource_type, each.resource_name)
            for each in request.resources
        }
        await catch_up(self._client)
        for entity in entities.values():
            if entity is not None:
                await self._followed.read(entity)
        records, response = self._decide(request, api_version)
        for answer in response.responses:
            key = answer.resource_type, answer.resource_name
            entity = entities.get(key)
            if entity is None:
                answer.error_code, answer.error_message = error_codes.INVALID_REQUEST, _unwritten(answer.resource_type)
                continue
            if answer.error_code == error_codes.INVALID_CONFIG and answer.resource_type == TOPIC_RESOURCE:
                answer.error_message = _in_words_of_zookeeper_mode(answer)
            if answer.error_code != error_codes.NONE or request.validate_only:
                continue
            present = dict(self._image.configs_of(*key))
            try:
                values = self._encoded(entity, _changed(present, key, records))
                await write_configs(self._client, self._acls, entity, values)
            except ConfigError as error:
                answer.error_code, answer.error_message = error_codes.INVALID_REQUEST, error.message
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
            except (ZooKeeperError, NoAnswer, InvalidZnode) as error:
                answer.error_code, answer.error_message = error_codes.UNKNOWN_SERVER_ERROR, str(error)
            await self._followed.read(entity)
        return response

    def _decide(self, request: Any, api_version: int) -> tuple[list[ConfigRecord], Any]:
        from kpybroker.machines.controller.configs import alter_configs, incremental_alter_configs

        decide = alter_configs if type(request).KEY == api.ALTER_CONFIGS else incremental_alter_configs
        state: Any = _State(self._image, self._rules(), _Node(self._node_id))
        records, response = at_once(decide(state, ControllerRequest(None, request, api_version), 0))
        return [each for each in records if isinstance(each, ConfigRecord)], response


def _unwritten(resource_type: int) -> str:
    kind = "CLIENT_METRICS" if resource_type == CLIENT_METRICS_RESOURCE else "UNKNOWN"
    return f"AlterConfigs is only supported for topics and brokers, but resource type is {kind}"


def _in_words_of_zookeeper_mode(answer: Any) -> str | None:
    """The message for a topic. Kafka names the resource where a value is none of the type or range of its config, a
    ``ConfigException``, and not where it fails for another reason."""
    message: str | None = answer.error_message
    if message is None or not message.startswith("Invalid value "):
        return message
    return f"Invalid config value for resource ConfigResource(type=TOPIC, name='{answer.resource_name}'): {message}"


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
