"""The registration of a broker, at a simulated ZooKeeper whose answers may be lost."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest
from asking import play, settings_of
from simulated import InMemory, SimulatedZooKeeper

from kpybroker.hosts.zookeeper.broker import layout
from kpybroker.hosts.zookeeper.broker.registration import RegistrationRefused, ZooKeeperRegistration
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient
from kpybroker.machines.zookeeper.client.operations import OPEN_ACL, Get
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.brokers import Registration, ZkEndpoint
from kpybroker.runtime.io.scheduler import LoopScheduler
from support.waiting import until


class Deaf(InMemory):
    """A way that loses the next answers of the server, and then the connection."""

    loses = 0

    def __call__(self, host, port, opened, taken, lost):  # type: ignore[no-untyped-def]
        def take(frame: bytes) -> None:
            if self.loses and self.greeted:
                self.loses -= 1
                link.close()
                lost("an answer was lost")
            else:
                self.greeted = True
                taken(frame)

        self.greeted = False
        link = super().__call__(host, port, opened, take, lost)
        return link


def registration_of(port: int = 9092) -> Registration:
    return Registration(7, (ZkEndpoint("PLAINTEXT", "h", port),), {"PLAINTEXT": "PLAINTEXT"})


async def client_of(way: InMemory) -> ZooKeeperClient:
    loop = asyncio.get_running_loop()
    client = ZooKeeperClient(LoopScheduler(loop), way, settings_of("a,a,a,a,a"), random.Random(1))
    client.open()
    await client.wait_until_connected(5_000)
    return client


async def ended(client: ZooKeeperClient) -> None:
    await until(lambda: client.session.is_ended)


def played(story: Callable[[SimulatedZooKeeper, Deaf, ZooKeeperClient], Awaitable[None]]) -> None:
    async def run() -> None:
        server = SimulatedZooKeeper(random.Random(1))
        way = Deaf(server, asyncio.get_running_loop().call_soon)
        client = await client_of(way)
        await layout.make_top_level(client, layout.DefaultAcls(is_secure=False))
        await story(server, way, client)

    play(run)


def registered(
    client: ZooKeeperClient, patience_ms: float = 500, port: int = 9092, failed: Sequence[str] = ()
) -> ZooKeeperRegistration:
    scheduler = LoopScheduler(asyncio.get_running_loop())
    return ZooKeeperRegistration(scheduler, client, registration_of(port), OPEN_ACL, patience_ms, lambda: failed)


def test_the_epoch_is_the_transaction_that_created_the_znode() -> None:
    async def story(server: SimulatedZooKeeper, _way: Deaf, client: ZooKeeperClient) -> None:
        registration = registered(client)
        await registration.register()
        node = server.nodes[paths.broker(7)]
        assert (registration.epoch(), node.version, node.owner) == (node.czxid, 1, client.session.session_id)
        assert Registration.decode(7, node.data) == registration_of()

    played(story)


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_a_registration_whose_answer_was_lost_recognises_itself(losses: int) -> None:
    async def story(server: SimulatedZooKeeper, way: Deaf, client: ZooKeeperClient) -> None:
        way.loses = losses
        registration = registered(client)
        await registration.register()
        assert registration.epoch() == server.nodes[paths.broker(7)].czxid
        writes = [entry for entry in server.journal if entry[2] == 1 and entry[0] == registration.epoch()]
        assert len(writes) == 1

    played(story)


def test_a_registration_recognises_itself_also_if_it_was_begun_before_its_session_had_a_connection() -> None:
    async def story(server: SimulatedZooKeeper, way: Deaf, client: ZooKeeperClient) -> None:
        registration = registered(client)
        await registration.register()
        server.expire(client.session.session_id)
        await ended(client)
        client.open()
        way.loses = 1
        await registration.register()
        assert registration.epoch() == server.nodes[paths.broker(7)].czxid

    played(story)


def test_a_registration_of_an_earlier_session_of_this_process_is_replaced() -> None:
    async def story(server: SimulatedZooKeeper, _way: Deaf, client: ZooKeeperClient) -> None:
        registration = registered(client)
        await registration.register()
        before, owner = registration.epoch(), client.session.session_id
        server.sessions[owner + 1] = server.sessions.pop(owner)  # the server forgets whose it is, and keeps the znode
        server.connections.copy().popitem()[0].end()
        await ended(client)
        client.open()
        await client.wait_until_connected(5_000)
        await registration.register()
        assert registration.epoch() > before
        assert server.nodes[paths.broker(7)].owner == client.session.session_id

    played(story)


def test_a_ghost_is_waited_for_and_a_living_broker_is_not_pushed_aside() -> None:
    async def story(server: SimulatedZooKeeper, way: Deaf, client: ZooKeeperClient) -> None:
        ghost = await client_of(InMemory(server, asyncio.get_running_loop().call_soon))
        await registered(ghost).register()
        with pytest.raises(RegistrationRefused, match="another broker has the id 7"):
            await registered(client, patience_ms=200).register()
        asyncio.get_running_loop().call_later(0.3, server.expire, ghost.session.session_id)
        registration = registered(client, patience_ms=20_000)
        await registration.register()
        assert server.nodes[paths.broker(7)].owner == client.session.session_id
        assert way.loses == 0

    played(story)


def test_each_failed_log_directory_is_reported_once() -> None:
    async def story(server: SimulatedZooKeeper, _way: Deaf, client: ZooKeeperClient) -> None:
        failed = list[str]()
        registration = registered(client, failed=failed)
        await registration.register()
        for path in (None, "/a", None, "/b"):
            failed += [path] if path else []
            registration.report()
            await client.ask(Get("/"))
        events = sorted(server.nodes[paths.LOG_DIR_EVENTS].children)
        assert events == ["log_dir_event_0000000000", "log_dir_event_0000000001"]

    played(story)


def test_a_report_whose_connection_was_lost_is_sent_again() -> None:
    async def story(server: SimulatedZooKeeper, way: Deaf, client: ZooKeeperClient) -> None:
        registration = registered(client, failed=["/a"])
        await registration.register()
        way.loses = 1
        registration.report()
        await client.ask_until_answered(Get("/"))
        await client.ask(Get("/"))
        assert len(server.nodes[paths.LOG_DIR_EVENTS].children) == 2, "the first one was done, too"

    played(story)


def test_an_address_that_another_broker_has_is_refused() -> None:
    async def story(server: SimulatedZooKeeper, _way: Deaf, client: ZooKeeperClient) -> None:
        other = await client_of(InMemory(server, asyncio.get_running_loop().call_soon))
        scheduler = LoopScheduler(asyncio.get_running_loop())
        content = Registration(8, (ZkEndpoint("PLAINTEXT", "h", 9092),), {"PLAINTEXT": "PLAINTEXT"})
        await ZooKeeperRegistration(scheduler, other, content, OPEN_ACL, 100).register()
        with pytest.raises(RegistrationRefused, match=r"PLAINTEXT://h:9092 .* already registered by broker 8"):
            await registered(client).check_addresses()
        await registered(client, port=9093).check_addresses()

    played(story)


def test_ids_are_given_above_the_reserved_ones_and_the_cluster_keeps_its_id() -> None:
    async def story(server: SimulatedZooKeeper, way: Deaf, client: ZooKeeperClient) -> None:
        acls = layout.DefaultAcls(is_secure=False)
        assert [await layout.generated_id(client, acls, 1_000) for _ in range(3)] == [1_001, 1_002, 1_003]
        first = await layout.cluster_id(client, acls, random.Random(1))
        assert await layout.cluster_id(client, acls, random.Random(2)) == first
        assert b'"version":"1"' in (await client.ask(Get("/cluster/id"))).data
        assert len(server.nodes) > len(paths.PERSISTENT)
        assert not way.is_away

    played(story)
