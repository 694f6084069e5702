"""Sessions and watches of a broker when connections end at a bad moment, at a simulated ZooKeeper."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from asking import play, settings_of
from simulated import InMemory, Line, SimulatedZooKeeper

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.hosts.zookeeper.broker.config_writes import ConfigWrites
from kpybroker.hosts.zookeeper.broker.followed_clients import FollowedClients
from kpybroker.hosts.zookeeper.broker.followed_configs import FollowedConfigs
from kpybroker.hosts.zookeeper.broker.known_controller import KnownController
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls, make_top_level
from kpybroker.hosts.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient
from kpybroker.machines.metadata.image import BROKER_RESOURCE, MetadataImage
from kpybroker.machines.zookeeper.broker.translation import configs
from kpybroker.machines.zookeeper.client.frames import WatchedEvent
from kpybroker.machines.zookeeper.client.operations import Create, Delete, Multi
from kpybroker.machines.zookeeper.client.session import SessionState
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.controller import NO_CONTROLLER, ElectedController
from kpybroker.runtime.io.scheduler import LoopScheduler
from kpywire import error_codes
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.waiting import until


class Counting(InMemory):
    """A way that counts the attempts to connect."""

    dials = 0

    def __call__(self, *arguments: Any) -> Line:
        self.dials += 1
        return super().__call__(*arguments)


Story = Callable[[SimulatedZooKeeper, ZooKeeperClient], Awaitable[None]]


def played(story: Story) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = SimulatedZooKeeper(random.Random(1))
        client = ZooKeeperClient(
            LoopScheduler(loop), Counting(server, loop.call_soon), settings_of("a,a,a"), random.Random(1)
        )
        client.open()
        await client.wait_until_connected(20_000)
        await story(server, client)
        await client.close()

    play(run)


def test_the_end_of_an_expired_sessions_connection_is_not_one_of_the_next_session() -> None:
    async def story(server: SimulatedZooKeeper, client: ZooKeeperClient) -> None:
        states: list[SessionState] = []

        def changed(state: SessionState) -> None:
            states.append(state)
            if state is SessionState.EXPIRED:
                client.open()

        client.on_state = changed
        server.expire(client.session.session_id)
        await until(lambda: SessionState.EXPIRED in states and client.state is SessionState.CONNECTED)
        await client.ask(Create("/a", b""))
        assert states == [SessionState.CONNECTING, SessionState.EXPIRED, SessionState.CONNECTED]
        way: Any = client._connect
        assert way.dials == 3, "one for each session, and the one that told of the expiry"

    played(story)


def test_a_broker_learns_of_the_controller_although_the_answer_was_lost() -> None:
    async def story(server: SimulatedZooKeeper, client: ZooKeeperClient) -> None:
        known = KnownController(client, MetadataImage("c"), "PLAINTEXT")

        def happened(event: WatchedEvent) -> None:
            if event.path == paths.CONTROLLER:
                known.look()
                break_connection()

        def break_connection() -> None:
            for connection in [*server.connections]:
                connection.end()

        client.on_event = happened
        await client.ask(Create(paths.CONTROLLER, ElectedController(1, 0).encode()))
        known.look()
        break_connection()
        await until(lambda: known.controller_id == 1)
        await client.ask_until_answered(Delete(paths.CONTROLLER))
        await until(lambda: known.controller_id == NO_CONTROLLER)
        await client.ask_until_answered(Create(paths.CONTROLLER, ElectedController(2, 0).encode()))
        await until(lambda: known.controller_id == 2)

    played(story)


class Twice:
    """A client whose multis that create something are done twice, as after a lost answer."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client

    async def ask_until_answered(self, operation: Any) -> Any:
        if isinstance(operation, Multi) and any(isinstance(each, Create) for each in operation.operations):
            await self._client.ask(operation)
        return await self._client.ask(operation)

    async def ask_all_until_answered(self, operations: Sequence[Any]) -> list[Any]:
        return await self._client.ask_all_until_answered(operations)

    ask_if_there = ZooKeeperClient.ask_if_there


def test_configs_that_were_written_although_the_answer_was_lost_are_announced() -> None:
    async def story(server: SimulatedZooKeeper, client: ZooKeeperClient) -> None:
        acls, metadata, twice = DefaultAcls(is_secure=False), ZooKeeperMetadata("c"), Twice(client)

        def changed(resource_type: int, name: str, values: Mapping[str, str]) -> None:
            metadata.apply(configs(metadata.image, resource_type, name, values))

        config = BrokerConfig({"zookeeper.connect": "a", "broker.id": "5", "listeners": "PLAINTEXT://h:9092"})
        others = FollowedClients(client, metadata.image, metadata.apply)
        rules, as_they_are = BrokerConfigRules(config), lambda _, values: values
        followed = FollowedConfigs(twice, 5, lambda: 0, changed, others.read, as_they_are)  # type: ignore[arg-type]
        writes = ConfigWrites(twice, acls, followed, metadata.image, 5, lambda: rules, as_they_are)  # type: ignore[arg-type]
        await make_top_level(client, acls)
        await client.ask(Create(paths.CONTROLLER, ElectedController(5, 0).encode()))
        wanted = AlterableConfig(name="log.cleaner.backoff.ms", config_operation=0, value="200")
        resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="5", configs=[wanted])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        response = await writes.alter(request, 1)
        assert response.responses[0].error_code == error_codes.NONE
        assert b'"200"' in (server.nodes["/config/brokers/5"].data or b"")
        assert _announced(server) == {b'{"version":2,"entity_path":"brokers/5"}'}

    played(story)


def _announced(server: SimulatedZooKeeper) -> set[bytes | None]:
    names = server.nodes[paths.CONFIG_CHANGES].children
    return {server.nodes[f"{paths.CONFIG_CHANGES}/{name}"].data for name in names}
