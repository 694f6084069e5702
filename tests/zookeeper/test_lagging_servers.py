"""A broker whose ZooKeeper server lags: it has what others wrote once it is asked to catch up."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any, cast

from asking import play, settings_of
from simulated import SYNC, Connection, InMemory, JuteReader, SimulatedZooKeeper

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.hosts.zookeeper.broker.client_writes import ClientWrites
from kpybroker.hosts.zookeeper.broker.config_writes import ConfigWrites
from kpybroker.hosts.zookeeper.broker.followed_clients import FollowedClients
from kpybroker.hosts.zookeeper.broker.followed_configs import FollowedConfigs
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls, make_top_level
from kpybroker.hosts.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient
from kpybroker.hosts.zookeeper.view.reading import read_tree
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.zookeeper.broker.translation import configs as records_of
from kpybroker.machines.zookeeper.broker.translation import topic as topic_records
from kpybroker.machines.zookeeper.client.operations import Create
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.controller import ElectedController
from kpybroker.runtime.io.scheduler import LoopScheduler
from kpywire import error_codes
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

ORDERS = ConfigEntity(configs.TOPICS, "orders")
USER = ConfigEntity(configs.USERS, "alice")
NO_ACLS = DefaultAcls(is_secure=False)


class Lagging(SimulatedZooKeeper):
    """A server that has what its leader has only after a sync."""

    def __init__(self, leader: SimulatedZooKeeper) -> None:
        super().__init__(random.Random(2))
        self._leader = leader
        self.catch_up()

    def catch_up(self) -> None:
        self.nodes, self.zxid = deepcopy(self._leader.nodes), self._leader.zxid

    def asked(self, connection: Connection, xid: int, code: int, source: JuteReader) -> None:
        if code == SYNC:
            self.catch_up()
        super().asked(connection, xid, code, source)


class Broker:
    """The parts of a broker that follow and change configs, at a server that lags behind another client's."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self.metadata = ZooKeeperMetadata("c")
        others = FollowedClients(client, self.metadata.image, self.metadata.apply)
        self.followed = FollowedConfigs(client, 5, lambda: 0, self._changed, others.read, lambda _, values: values)
        rules = BrokerConfigRules(
            BrokerConfig({"zookeeper.connect": "a", "broker.id": "5", "listeners": "PLAINTEXT://h:9092"})
        )
        image = self.metadata.image
        self.writes = ConfigWrites(client, NO_ACLS, self.followed, image, 5, lambda: rules, lambda _, values: values)
        self.quotas = ClientWrites(client, NO_ACLS, self.followed.read)

    def _changed(self, resource_type: int, name: str, values: Any) -> None:
        self.metadata.apply(records_of(self.metadata.image, resource_type, name, values))


Story = Callable[[ZooKeeperClient, Broker, SimulatedZooKeeper], Awaitable[None]]


def played(story: Story) -> None:
    """Play a story, given a client of the leader, and a broker at a server that lags."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        leader = SimulatedZooKeeper(random.Random(1))
        other = _client(loop, leader)
        await other.wait_until_connected(20_000)
        await make_top_level(other, NO_ACLS)
        await other.ask(Create(paths.CONTROLLER, ElectedController(1, 0).encode()))
        behind = Lagging(leader)
        client = _client(loop, behind)
        await client.wait_until_connected(20_000)
        await story(other, Broker(client), behind)
        await client.close()
        await other.close()

    play(run)


def _client(loop: asyncio.AbstractEventLoop, server: SimulatedZooKeeper) -> ZooKeeperClient:
    client = ZooKeeperClient(LoopScheduler(loop), InMemory(server, loop.call_soon), settings_of("a"), random.Random(1))
    client.open()
    return client


def _written(server: SimulatedZooKeeper, entity: ConfigEntity) -> dict[str, str]:
    return configs.decode_configs(entity.path, server.nodes[entity.path].data)


def test_the_tree_is_shown_as_the_leader_has_it_although_the_server_that_answers_lags() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        leader = SimulatedZooKeeper(random.Random(1))
        behind = Lagging(leader)
        other, client = _client(loop, leader), _client(loop, behind)
        await other.wait_until_connected(20_000)
        await client.wait_until_connected(20_000)
        await other.ask(Create("/new", b"content"))
        assert "/new" not in behind.nodes
        written = [*behind.journal]
        assert (await read_tree(client))["/new"].data == b"content"
        assert behind.journal == written, "a look writes nothing"
        assert client.server == "a:2181"
        await client.close()
        await other.close()

    play(run)


def test_a_broker_knows_the_configs_of_a_new_topic_although_its_server_lags() -> None:
    async def story(other: ZooKeeperClient, broker: Broker, _behind: SimulatedZooKeeper) -> None:
        await other.ask(Create(ORDERS.path, configs.encode_configs({"cleanup.policy": "compact"})))
        await broker.followed.read_topics(["orders"])
        assert broker.metadata.image.configs_of(TOPIC_RESOURCE, "orders") == {"cleanup.policy": "compact"}

    played(story)


def test_a_change_of_configs_keeps_another_one_that_its_server_has_not_yet() -> None:
    async def story(other: ZooKeeperClient, broker: Broker, behind: SimulatedZooKeeper) -> None:
        broker.metadata.apply(topic_records(broker.metadata.image, "orders", b"t" * 16))
        await other.ask(Create(ORDERS.path, configs.encode_configs({"retention.ms": "5"})))
        wanted = AlterableConfig(name="segment.bytes", config_operation=0, value="2000000")
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="orders", configs=[wanted])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        response = await broker.writes.alter(request, 1)
        assert response.responses[0].error_code == error_codes.NONE
        assert _written(behind, ORDERS) == {"retention.ms": "5", "segment.bytes": "2000000"}

    played(story)


def test_a_change_of_quotas_keeps_another_one_that_its_server_has_not_yet() -> None:
    async def story(other: ZooKeeperClient, broker: Broker, behind: SimulatedZooKeeper) -> None:
        await other.ask(Create(USER.path, configs.encode_configs({"producer_byte_rate": "5"})))
        entity = AlterClientQuotasRequestEntityData(entity_type="user", entity_name="alice")
        quota = OpData(key="consumer_byte_rate", value=7.0, remove=False)
        entry = AlterClientQuotasRequestEntryData(entity=[entity], ops=[quota])
        request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
        response = await broker.quotas.alter_quotas(request, cast(Any, None))
        assert response.entries[0].error_code == error_codes.NONE
        assert _written(behind, USER) == {"producer_byte_rate": "5", "consumer_byte_rate": "7"}

    played(story)
