"""Our client and Apache ZooKeeper, with kazoo as the second opinion."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import Breakable, Recording, play, settings_of
from kazoo.client import KazooClient

from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperError, ZooKeeperNotConnected
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.digest_md5 import DigestMd5
from kpybroker.machines.zookeeper.client.frames import EventType, WatchedEvent
from kpybroker.machines.zookeeper.client.operations import (
    CREATOR_ALL_ACL,
    READ_ACL,
    Check,
    Create,
    Delete,
    Exists,
    Get,
    GetAcl,
    GetChildren,
    Multi,
    Set,
    SetAcl,
    Sync,
    ZnodeAcl,
)
from kpybroker.machines.zookeeper.client.session import SessionState
from oracle import free_port
from oracle.zookeeper import ZooKeeper

pytestmark = pytest.mark.java

JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="sec\\"ret";
};
"""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    jaas = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    jaas.write_text(JAAS)
    properties = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    with ZooKeeper(properties, jvm=[f"-Djava.security.auth.login.config={jaas}"]) as server:
        yield server


@pytest.fixture
def kazoo(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.bootstrap_servers)
    client.start()
    yield client
    client.stop()
    client.close()


def test_kazoo_reads_our_znodes_and_the_reverse(zookeeper: ZooKeeper, kazoo: KazooClient) -> None:
    async def story() -> None:
        async with Recording(settings_of(zookeeper.bootstrap_servers)) as ours:
            ask = ours.client.ask
            assert await ask(Create("/a", b"1")) == "/a"
            assert await ask(Create("/a/null", None)) == "/a/null"
            assert await ask(Create("/a/n_", b"x", is_sequential=True)) == "/a/n_0000000001"
            assert await ask(Create("/a/e", b"", is_ephemeral=True)) == "/a/e"
            data, stat = await asyncio.to_thread(kazoo.get, "/a")
            assert data == b"1"
            assert await ask(Get("/a")) == (b"1", tuple(stat))
            assert await asyncio.to_thread(kazoo.set, "/a", "ü".encode())
            assert (await ask(Get("/a"))).data == "ü".encode()
            assert (await ask(Get("/a/null"))).data is None
            children = await ask(GetChildren("/a"))
            assert sorted(children.names) == ["e", "n_0000000001", "null"]
            assert (await ask(Exists("/a/e"))).ephemeral_owner == kazoo.exists("/a/e").ephemeralOwner
            assert (await ask(Set("/a", None, 1))).version == 2
            assert await ask(Sync("/a")) == "/a"
            assert await ask(Delete("/a/null", 0)) is None
            for operation, code in (
                (Create("/a", b""), error_codes.NODE_EXISTS),
                (Create("/b/c", b""), error_codes.NO_NODE),
                (Create("/a/e/f", b""), error_codes.NO_CHILDREN_FOR_EPHEMERALS),
                (Delete("/a"), error_codes.NOT_EMPTY),
                (Set("/a", b"", 7), error_codes.BAD_VERSION),
                (Get("/b"), error_codes.NO_NODE),
                (Create("/d", b"", ()), error_codes.INVALID_ACL),
            ):
                with pytest.raises(ZooKeeperError) as refused:
                    await ask(operation)
                assert refused.value.code == code, operation
        assert not kazoo.exists("/a/e"), "closing the session removes its ephemeral znodes"
        kazoo.delete("/a", recursive=True)

    play(story)


def test_a_multi_is_done_as_a_whole_or_says_which_operation_failed(zookeeper: ZooKeeper, kazoo: KazooClient) -> None:
    async def story() -> None:
        async with Recording(settings_of(f"{zookeeper.bootstrap_servers}/m")) as ours:
            ask = ours.client.ask
            await ask(Create("/", None))
            writes = Create("/x", None, is_ephemeral=True), Set("/x", b"data", 0), Check("/x", 1)
            path, stat, checked = await ask(Multi(writes))
            assert path == "/x"
            assert checked is None
            assert stat.czxid == (await asyncio.to_thread(kazoo.exists, "/m/x")).czxid
            with pytest.raises(ZooKeeperError) as refused:
                await ask(Multi((Create("/y", b""), Check("/x", 5), Delete("/x"))))
            assert refused.value.code == error_codes.BAD_VERSION
            assert refused.value.failed.failed_at == 1
            assert (await ask(GetChildren("/"))).names == ["x"]
            assert await ask(Multi((Delete("/x"),))) == [None]

    play(story)


def test_watches_report_each_kind_of_change_once_and_before_the_answer_that_shows_it(
    zookeeper: ZooKeeper, kazoo: KazooClient
) -> None:
    async def story() -> None:
        async with Recording(settings_of(f"{zookeeper.bootstrap_servers}/w")) as ours:
            ask, events = ours.client.ask, ours.events
            await ask(Create("/", None))
            with pytest.raises(ZooKeeperError):
                await ask(Exists("/new", is_watched=True))
            await ask(GetChildren("/", is_watched=True))
            await asyncio.to_thread(kazoo.create, "/w/new", b"")
            await ask(Get("/new", is_watched=True))
            assert events == [(EventType.CREATED, "/new"), (EventType.CHILDREN_CHANGED, "/")]
            events.clear()
            await ask(Set("/new", b"1"))
            assert events == [WatchedEvent(EventType.DATA_CHANGED, "/new")]
            await ask(Set("/new", b"2"))
            assert len(events) == 1
            await ask(Exists("/new", is_watched=True))
            await ask(Delete("/new"))
            assert events[1:] == [(EventType.DELETED, "/new")]

    play(story)


def test_watches_are_kept_over_a_connection_that_breaks_and_fire_for_what_happened_meanwhile(tmp_path: Path) -> None:
    async def story(server: ZooKeeper) -> None:
        async with Recording(settings_of(server.bootstrap_servers, 40_000)) as ours:
            ask = ours.client.ask
            for path in ("/changed", "/quiet"):
                await ask(Create(path, b""))
                await ask(Get(path, is_watched=True))
            await ask(GetChildren("/", is_watched=True))
            owner = ours.client.session.session_id
            await asyncio.to_thread(server.restart, kill=True)
            kazoo = KazooClient(server.bootstrap_servers)
            await asyncio.to_thread(kazoo.start)
            await ours.until(lambda: ours.states[-1] is SessionState.CONNECTED and len(ours.states) == 3)
            assert ours.states == [SessionState.CONNECTED, SessionState.CONNECTING, SessionState.CONNECTED]
            assert ours.client.session.session_id == owner
            await asyncio.to_thread(kazoo.set, "/changed", b"1")
            await asyncio.to_thread(kazoo.create, "/born", b"")
            await ask(Sync("/"))
            kazoo.stop()
            kazoo.close()
            assert sorted(ours.events) == [(EventType.DATA_CHANGED, "/changed"), (EventType.CHILDREN_CHANGED, "/")]

    with ZooKeeper({"tickTime": "2000"}, directory=tmp_path) as server:  # the session outlives a slow start of the JVM
        play(lambda: story(server))


def test_a_session_that_expired_ends_and_the_next_one_works(zookeeper: ZooKeeper, kazoo: KazooClient) -> None:
    async def story() -> None:
        network = Breakable()
        async with Recording(settings_of(zookeeper.bootstrap_servers, 1_000), network) as ours:
            ask = ours.client.ask
            await ask(Create("/e", b"", is_ephemeral=True))
            session = ours.client.session
            network.cut()
            waits = asyncio.ensure_future(ask(Exists("/e")))
            await ours.until(lambda: not kazoo.exists("/e"))
            assert ours.states == [SessionState.CONNECTED, SessionState.CONNECTING], (
                "only the server says that a session has expired"
            )
            network.mend()
            await ours.until(lambda: ours.states[-1] is SessionState.EXPIRED)
            for asked in (waits, asyncio.ensure_future(ask(Exists("/e")))):
                with pytest.raises(NoAnswer, match="expired; it was not sent") as ended:
                    await asked
                assert ended.value.state is SessionState.EXPIRED
            ours.client.open()
            await ours.client.wait_until_connected(10_000)
            assert ours.client.session is not session
            with pytest.raises(ZooKeeperError):
                await ask(Exists("/e"))

    play(story)


def test_a_write_whose_answer_was_lost_has_an_unknown_outcome(zookeeper: ZooKeeper, kazoo: KazooClient) -> None:
    async def story() -> None:
        network = Breakable()
        async with Recording(settings_of(zookeeper.bootstrap_servers), network) as ours:
            ask = ours.client.ask
            network.is_deaf = True
            writes = [asyncio.ensure_future(ask(Create(f"/lost{each}", b""))) for each in range(12)]
            await ours.until(lambda: kazoo.exists("/lost9"))
            network.cut()
            lost = await asyncio.gather(*writes, return_exceptions=True)
            assert [each.is_unknown for each in lost if isinstance(each, NoAnswer)] == [True] * 10 + [False] * 2
            network.mend()
            await ours.until(lambda: ours.states[-1] is SessionState.CONNECTED)
            with pytest.raises(ZooKeeperError):
                await ask(Exists("/lost10"))
            with pytest.raises(ZooKeeperError) as exists:
                await ours.client.ask_until_answered(Create("/lost9", b""))
            assert exists.value.code == error_codes.NODE_EXISTS

    play(story)


def test_a_login_by_digest_md5_owns_what_it_creates(zookeeper: ZooKeeper) -> None:
    async def story() -> None:
        settings = settings_of(
            zookeeper.bootstrap_servers, new_exchange=lambda: DigestMd5("kafka", 'sec"ret', "0123456789abcdef")
        )
        async with Recording(settings) as ours:
            ask = ours.client.ask
            await ask(Create("/mine", b"", (*CREATOR_ALL_ACL, *READ_ACL)))
            acls, stat = await ask(GetAcl("/mine"))
            assert acls == (ZnodeAcl(31, "sasl", "kafka"), ZnodeAcl(1, "world", "anyone"))
            assert stat.aversion == 0
            assert (await ask(SetAcl("/mine", acls, 0))).aversion == 1
        async with Recording(settings_of(zookeeper.bootstrap_servers)) as stranger:
            with pytest.raises(ZooKeeperError) as refused:
                await stranger.client.ask(Set("/mine", b""))
            assert refused.value.code == error_codes.NO_AUTH

    play(story)


def test_a_wrong_password_is_one_clear_line(zookeeper: ZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        settings = settings_of(
            zookeeper.bootstrap_servers, new_exchange=lambda: DigestMd5("kafka", "wrong-one", "0123456789abcdef")
        )
        with pytest.raises(ZooKeeperNotConnected, match="AUTH_FAILED"):
            async with Recording(settings):
                pass

    play(story)
    assert "wrong-one" not in caplog.text


def test_servers_that_are_away_are_passed_over(zookeeper: ZooKeeper) -> None:
    async def story() -> None:
        connect = f"127.0.0.1:{free_port()},{zookeeper.bootstrap_servers},127.0.0.1:{free_port()}"
        async with Recording(settings_of(connect)) as ours:
            assert await ours.client.ask(Exists("/"))
        away = Recording(settings_of(f"127.0.0.1:{free_port()}"))
        away.client.open()
        with pytest.raises(ZooKeeperNotConnected, match="cannot be reached"):
            await away.client.wait_until_connected(300)
        await away.client.close()
        await away.scheduler.close()

    play(story)


def test_many_requests_are_answered_in_order(zookeeper: ZooKeeper) -> None:
    async def story() -> None:
        async with Recording(settings_of(zookeeper.bootstrap_servers, most_in_flight=3)) as ours:
            await ours.client.ask(Create("/many", b""))
            asked = [ours.client.ask(Set("/many", str(each).encode(), each)) for each in range(500)]
            stats = await asyncio.gather(*asked)
            assert [stat.version for stat in stats] == list(range(1, 501))

    play(story)
